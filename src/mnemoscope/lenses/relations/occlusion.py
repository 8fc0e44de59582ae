"""What a decoder reads: each number of the relations is hidden from it in turn, and so are the objects themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.relations.lens import at_rest, check_comparing
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.relational import Comparing, RelationalModel, Scenes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Loss(NamedTuple):
    """What is lost, in the mean over problems, when something is hidden; below 0, it is better off without."""

    log_odds: Float[Tensor, "..."]
    """Of the right answer, in nats."""
    accuracy: Float[Tensor, "..."]
    """Share of problems."""


@dataclass(frozen=True)
class Occlusion:
    """What the answers of a network lose when a part of what it decides by is replaced by its mean over a batch.

    With log-odds `l(R) = log p_y / (1 - p_y) = f_y - log sum_(c != y) exp f_c` of the right answer y by logits f,
    hiding the number R_ij loses `mean_b [l(R^b) - l(R^b with R_ij = mean_b' R^b'_ij)]`. Where l is linear this is the
    gradient times `R - mean R`; else a gradient tells only of steps too small to change any relation, and is 0
    where the hidden units that would tell are off. A number hidden alone may be told by others, as a = b and b = c tell
    that a = c: what hiding all numbers loses is not the sum, and is given too.
    """

    entries: Loss
    """(relations, objects, objects): each number. NaN where nothing is read."""
    pairs: Loss
    """(objects, objects): the number of all relations at once."""
    relations: Loss
    """All numbers of all relations at once."""
    objects: Loss | None
    """(objects): the normalised features of an object, where they are read beside the relations."""
    sensory: Loss | None
    """The features of all objects at once."""
    log_odds: float
    """Of the right answer when nothing is hidden, in the mean."""
    accuracy: float
    """When nothing is hidden."""
    relation_names: tuple[str, ...]
    problems: int

    def summary(self) -> str:
        """The result in words."""
        told = (
            f"Of {self.problems} problems {self.accuracy:.1%} are answered right, "
            f"{self.accuracy - float(self.relations.accuracy):.1%} when all relations are hidden"
        )
        if self.sensory is not None:
            told += f", {self.accuracy - float(self.sensory.accuracy):.1%} when the objects themselves are"
        pairs = self.pairs.log_odds.nan_to_num(-torch.inf)
        i, j = divmod(int(pairs.argmax()), len(pairs))
        return (
            f"{told}. Most is lost with the relation of object {i} to object {j}: {float(pairs.max()):.3g} of "
            f"{self.log_odds:.3g} nats."
        )

    def __repr__(self) -> str:
        return f"Occlusion({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Occlusion.load` reads it back."""
        tensors = {
            f"{part}.{what}": tensor
            for part in _PARTS
            if getattr(self, part) is not None
            for what, tensor in getattr(self, part)._asdict().items()
        }
        save_result(path, "Occlusion", tensors, {name: getattr(self, name) for name in _FLAGS})

    @classmethod
    def load(cls, path: str | Path) -> Occlusion:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Occlusion", "what a decoder reads")
        parts = {
            part: Loss(tensors[f"{part}.log_odds"], tensors[f"{part}.accuracy"])
            if f"{part}.log_odds" in tensors
            else None
            for part in _PARTS
        }
        return cls(**parts, **{**flags, "relation_names": tuple(flags["relation_names"])})  # pyright: ignore[reportArgumentType]

    def figure(self) -> Figure:
        """The losses as maps (needs the `report` extra)."""
        from mnemoscope.lenses.relations.figure import draw_occlusion

        return draw_occlusion(self)


_PARTS = ("entries", "pairs", "relations", "objects", "sensory")
_FLAGS = ("log_odds", "accuracy", "relation_names", "problems")


def measure_occlusion(model: RelationalModel, scenes: Scenes) -> Occlusion:
    """How much each number of the relations matters to the answer, and how much the objects themselves.

    The decoder runs once for every number that is read, and once more for it in all relations together.

    Args:
        model: one that decides by relations, as `record_relations` takes it.
        scenes: problems with their right answers; means are over them, 100 problems or more are advisable.

    """
    comparing = check_comparing(model)
    with at_rest(comparing):
        seen = comparing.see(scenes.images, scenes.objects)
        hiding = _Hiding(comparing, comparing.compare(seen), seen.z if comparing.sensory else None, scenes.labels)
        count, size = hiding.relations.shape[1:3]
        read = comparing.read.cpu()
        here = torch.zeros(count, size, size, dtype=torch.bool)

        def hidden(*place: slice | int) -> Loss:
            chosen = here.clone()
            chosen[place] = True
            return hiding.loss(relations=chosen)

        every = slice(None)
        pairs = _map(read, lambda i, j: hidden(every, i, j))
        each = [pairs] if count == 1 else [_map(read, partial(hidden, relation)) for relation in range(count)]
        entries = _stacked(each)
        objects = sensory = None
        if comparing.sensory:
            alone = torch.eye(size, dtype=torch.bool)
            objects, sensory = _stacked([hiding.loss(objects=one) for one in alone]), hiding.loss(objects=alone.any(0))
        told, right = float(hiding.log_odds), float(hiding.accuracy)
        names = comparing.relation_names
        return Occlusion(entries, pairs, hidden(every), objects, sensory, told, right, names, len(scenes.labels))


def log_odds(logits: Float[Tensor, "batch choices"], labels: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """`log p_y / (1 - p_y)` of the right answers y.

    >>> log_odds(torch.tensor([[0.25, 0.5, 0.25]]).log(), torch.tensor([1]))
    tensor([0.])
    """
    right = torch.zeros_like(logits, dtype=torch.bool).scatter(1, labels.unsqueeze(1), True)
    return logits.gather(1, labels.unsqueeze(1)).squeeze(1) - logits.masked_fill(right, -torch.inf).logsumexp(1)


class _Hiding:
    """A decoder, what it decides by, and how well."""

    def __init__(self, model: Comparing, relations: Tensor, z: Tensor | None, labels: Tensor) -> None:
        self.model, self.relations, self.z, self.labels = model, relations, z, labels
        self.log_odds, self.accuracy = self._of(relations, z)

    def loss(
        self,
        relations: Bool[Tensor, "relations objects objects"] | None = None,
        objects: Bool[Tensor, " objects"] | None = None,
    ) -> Loss:
        """When these are hidden."""
        R, z = self.relations, self.z
        if relations is not None:
            R = torch.where(relations.to(R.device), R.mean(0), R)
        if objects is not None and z is not None:
            z = torch.where(objects.to(z.device).unsqueeze(1), z.mean(0), z)
        told, right = self._of(R, z)
        return Loss((self.log_odds - told).cpu(), (self.accuracy - right).cpu())

    def _of(self, R: Tensor, z: Tensor | None) -> tuple[Tensor, Tensor]:
        logits = self.model.decide(R, z)
        right = logits.argmax(1) == self.labels
        return log_odds(logits, self.labels).double().mean(), right.double().mean()


def _map(read: Bool[Tensor, "objects objects"], hidden: Callable[[int, int], Loss]) -> Loss:
    """The loss for every number that is read."""
    found = Loss(*(torch.full(read.shape, torch.nan, dtype=torch.float64) for _ in Loss._fields))
    for i, j in read.nonzero().tolist():
        found.log_odds[i, j], found.accuracy[i, j] = hidden(i, j)
    return found


def _stacked(losses: Sequence[Loss]) -> Loss:
    return Loss(*(torch.stack(parts) for parts in zip(*losses, strict=True)))
