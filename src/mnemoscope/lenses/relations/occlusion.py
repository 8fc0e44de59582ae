"""The occlusion lens: hide each number of the relations, and the objects, from a decoder, and measure the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.lenses.relations.evaluation import check_comparing, evaluation_mode
from mnemoscope.lenses.result import Result
from mnemoscope.relational import RelationalModel, Scenes, SimilarityModel


@dataclass(frozen=True)
class OcclusionLoss:
    """Mean loss over problems when something is hidden; negative if the network does better without it."""

    log_odds: Float[Tensor, "..."]
    """Loss in log-odds of the right answer, in nats."""
    accuracy: Float[Tensor, "..."]
    """Loss in accuracy, as a share of problems."""


@dataclass(frozen=True, repr=False)
class Occlusion(Result):
    """Loss of a network when a part of what it decides by is replaced by its mean over a batch.

    With log-odds `l(R) = log p_y / (1 - p_y) = f_y - log sum_(c != y) exp f_c` of the right answer y by logits f,
    hiding the number R_ij loses `mean_b [l(R^b) - l(R^b with R_ij = mean_b' R^b'_ij)]`. If l is linear, this is the
    gradient times `R - mean R`. Otherwise a gradient only describes steps too small to change any relation, and it is 0
    where the relevant hidden units are off. Other numbers may replace a hidden one, as a = b and b = c imply a = c, so
    the loss from hiding all numbers is not the sum of the single losses; it is given too.
    """

    noun: ClassVar[str] = "an occlusion"
    drawn_by: ClassVar[str] = "draw_occlusion"

    entries: OcclusionLoss
    """(relations, objects, objects): loss for each number. NaN where nothing is read."""
    pairs: OcclusionLoss
    """(objects, objects): loss if the number is hidden in all relations."""
    relations: OcclusionLoss
    """Loss if all numbers of all relations are hidden."""
    log_odds: float
    """Mean log-odds of the right answer when nothing is hidden."""
    accuracy: float
    """Accuracy when nothing is hidden."""
    relation_names: tuple[str, ...]
    problems: int
    """Number of problems."""
    objects: OcclusionLoss | None = None
    """(objects): loss for the normalised features of an object, if the decoder reads them in addition to relations."""
    sensory: OcclusionLoss | None = None
    """Loss if the features of all objects are hidden."""

    def summary(self) -> str:
        sentence = (
            f"{self.accuracy:.1%} of {self.problems} problems are answered correctly, "
            f"{self.accuracy - float(self.relations.accuracy):.1%} when all relations are hidden"
        )
        if self.sensory is not None:
            sentence += f", {self.accuracy - float(self.sensory.accuracy):.1%} when the objects themselves are hidden"
        pairs = self.pairs.log_odds.nan_to_num(-torch.inf)
        i, j = divmod(int(pairs.argmax()), len(pairs))
        return (
            f"{sentence}. Hiding the relation of object {i} to object {j} costs most: {float(pairs.max()):.3g} of "
            f"{self.log_odds:.3g} nats."
        )


@show_slow("occlusion")
def measure_occlusion(model: RelationalModel, scenes: Scenes) -> Occlusion:
    """Measure how much each number of the relations, and each object, matters to the answer.

    The decoder runs once for every number that is read, and once more for that number in all relations together.

    Args:
        model: a model that decides by relations, as for `record_relations`.
        scenes: problems with their right answers. Means are taken over them, so use 100 problems or more.

    """
    comparing = check_comparing(model)
    with evaluation_mode(comparing):
        encoded = comparing.encode(scenes.images, scenes.objects)
        decoder = _OccludedDecoder(
            comparing, comparing.compare(encoded), encoded.z if comparing.sensory else None, scenes.labels
        )
        count, size = decoder.relations.shape[1:3]
        read = comparing.read.cpu()
        nothing = torch.zeros(count, size, size, dtype=torch.bool)

        def hide(*place: slice | int) -> OcclusionLoss:
            hidden = nothing.clone()
            hidden[place] = True
            return decoder.loss(relations=hidden)

        all_relations = slice(None)
        pairs = _loss_map(read, lambda i, j: hide(all_relations, i, j))
        by_relation = [pairs] if count == 1 else [_loss_map(read, partial(hide, number)) for number in range(count)]
        objects = sensory = None
        if comparing.sensory:
            single = torch.eye(size, dtype=torch.bool)
            objects = _stacked([decoder.loss(objects=hidden) for hidden in single])
            sensory = decoder.loss(objects=single.any(0))
        return Occlusion(
            entries=_stacked(by_relation),
            pairs=pairs,
            relations=hide(all_relations),
            objects=objects,
            sensory=sensory,
            log_odds=float(decoder.log_odds),
            accuracy=float(decoder.accuracy),
            relation_names=comparing.relation_names,
            problems=len(scenes.labels),
        )


def log_odds(logits: Float[Tensor, "batch choices"], labels: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Return `log p_y / (1 - p_y)` of the right answers y.

    >>> log_odds(torch.tensor([[0.25, 0.5, 0.25]]).log(), torch.tensor([1]))
    tensor([0.])
    """
    right = torch.zeros_like(logits, dtype=torch.bool).scatter(1, labels.unsqueeze(1), True)
    return logits.gather(1, labels.unsqueeze(1)).squeeze(1) - logits.masked_fill(right, -torch.inf).logsumexp(1)


class _OccludedDecoder:
    """A decoder with its inputs, parts of which can be replaced by their mean."""

    def __init__(self, model: SimilarityModel, relations: Tensor, z: Tensor | None, labels: Tensor) -> None:
        self.model, self.relations, self.z, self.labels = model, relations, z, labels
        self.log_odds, self.accuracy = self._evaluate(relations, z)

    def loss(
        self,
        relations: Bool[Tensor, "relations objects objects"] | None = None,
        objects: Bool[Tensor, " objects"] | None = None,
    ) -> OcclusionLoss:
        """Return the loss if these numbers, or the features of these objects, are hidden."""
        R, z = self.relations, self.z
        if relations is not None:
            R = torch.where(relations.to(R.device), R.mean(0), R)
        if objects is not None and z is not None:
            z = torch.where(objects.to(z.device).unsqueeze(1), z.mean(0), z)
        log_odds, accuracy = self._evaluate(R, z)
        return OcclusionLoss((self.log_odds - log_odds).cpu(), (self.accuracy - accuracy).cpu())

    def _evaluate(self, R: Tensor, z: Tensor | None) -> tuple[Tensor, Tensor]:
        logits = self.model.decide(R, z)
        right = logits.argmax(1) == self.labels
        return log_odds(logits, self.labels).double().mean(), right.double().mean()


def _loss_map(read: Bool[Tensor, "objects objects"], hide: Callable[[int, int], OcclusionLoss]) -> OcclusionLoss:
    """Return the loss for every number that is read, and NaN elsewhere."""
    log_odds, accuracy = (torch.full(read.shape, torch.nan, dtype=torch.float64) for _ in range(2))
    for i, j in read.nonzero().tolist():
        loss = hide(i, j)
        log_odds[i, j], accuracy[i, j] = loss.log_odds, loss.accuracy
    return OcclusionLoss(log_odds, accuracy)


def _stacked(losses: Sequence[OcclusionLoss]) -> OcclusionLoss:
    return OcclusionLoss(
        torch.stack([loss.log_odds for loss in losses]), torch.stack([loss.accuracy for loss in losses])
    )
