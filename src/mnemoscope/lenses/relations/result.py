"""The result of the relations lens: how alike a network finds the objects of problems, and what its decoder reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.relations.evaluation import same_and_different
from mnemoscope.lenses.result import Result
from mnemoscope.relational import Scenes

MOST_IN_SUMMARY = 4
"""Largest number of relations that a summary mentions."""


@dataclass(frozen=True, repr=False)
class Relations(Result):
    """The relations of a network on a batch of problems (Kerg, section 5.5; for ESBN, Webb et al. 2021).

    >>> from mnemoscope.lenses.relations import record_relations
    >>> from mnemoscope.networks.relational import relational_model
    >>> from mnemoscope.tasks.relational import RMTS
    >>> found = record_relations(relational_model("esbn", RMTS()), RMTS().batch(8, seed=0, number=0))
    >>> found.relation_names, found.relations.shape
    (('weights', 'confidences'), torch.Size([8, 2, 6, 6]))
    """

    noun: ClassVar[str] = "relations"
    drawn_by: ClassVar[str] = "draw_relations"

    images: Float[Tensor, "distinct channels height width"]
    objects: Int[Tensor, "batch objects"]
    """Index of the image of each object."""
    labels: Int[Tensor, " batch"]
    logits: Float[Tensor, "batch choices"]
    scores: Float[Tensor, "batch scores objects objects"]
    """Scores before the softmax and before rules compete. Row i compares object i with all others."""
    used: Bool[Tensor, "batch scores"]
    """Whether relations are made from these scores: among competing rules, one wins."""
    relations: Float[Tensor, "batch relations objects objects"]
    """Relations as the decoder receives them."""
    read: Bool[Tensor, "objects objects"]
    """Which numbers of a relation the decoder reads."""
    kinds: Int[Tensor, " distinct"]
    """Kind of object that each image shows; -1 if it is empty."""
    score_names: tuple[str, ...]
    relation_names: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of problems."""
        return len(self.labels)

    @property
    def scenes(self) -> Scenes:
        """The problems."""
        return Scenes(self.images, self.objects, self.labels)

    @property
    def answers(self) -> Int[Tensor, " batch"]:
        """The choice with the largest logit."""
        return self.logits.argmax(1)

    @property
    def accuracy(self) -> float:
        """Share of problems answered correctly."""
        return float((self.answers == self.labels).double().mean())

    @property
    def same(self) -> Bool[Tensor, "batch objects objects"]:
        """Whether two objects of a problem are the same."""
        return same_and_different(self.kinds, self.objects)[0]

    def mean_read(self, same: bool) -> Float[Tensor, " relations"]:
        """Return the mean of each relation over pairs of the same objects, or of different ones.

        Only numbers that the decoder reads count, and no object is paired with itself. NaN if there is no such pair.
        """
        pairs = same_and_different(self.kinds, self.objects)[0 if same else 1]
        chosen = pairs & self.read & ~torch.eye(self.objects.shape[1], dtype=torch.bool)
        return self.relations.transpose(0, 1)[:, chosen].mean(1)

    def summary(self) -> str:
        kinds = (("the same", self.mean_read(True)), ("different", self.mean_read(False)))
        parts = []
        for number, name in enumerate(self.relation_names[:MOST_IN_SUMMARY]):
            means = [
                f"{float(mean[number]):.3g} if they are {kind}" for kind, mean in kinds if not mean[number].isnan()
            ]
            parts.append(f"{name} {' and '.join(means)}".strip())
        count = len(self.relation_names)
        first = f" (first {MOST_IN_SUMMARY} of {count} relations)" if count > MOST_IN_SUMMARY else ""
        return (
            f"{len(self)} problems of {self.objects.shape[1]} objects, {self.accuracy:.1%} of them answered correctly. "
            f"What the decoder reads about two objects, on average{first}: {'; '.join(parts)}."
        )
