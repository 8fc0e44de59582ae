"""Models that answer from relation matrices between the objects of a problem."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool
from mnemoscope.relational.network import EncodedObjects, Logits, Objects, RelationalModel, Relations


class Scores(NamedTuple):
    """Similarities between the objects of a batch of problems, before a softmax and before rules compete."""

    matrices: Relations
    names: tuple[str, ...]
    """Names of the matrices; "" if there is only one."""
    used: Bool[Tensor, "batch matrices"]
    """Whether the relations use a matrix: if rules compete, only the matrices of the winner are used."""

    @classmethod
    def all_used(cls, matrices: Relations, names: tuple[str, ...]) -> Scores:
        """Return scores whose matrices are all used."""
        return cls(matrices, names, matrices.new_ones(matrices.shape[:2], dtype=torch.bool))


class SimilarityModel(RelationalModel):
    """A model that computes relation matrices between its objects, and answers from them.

    A subclass defines `scores`, `decide` and `relation_names`, and `compare` and `read` unless it reads the softmax of
    all scores.
    """

    sensory: bool = False
    """Whether the answer depends on the objects too, and not only on their relations."""

    def scores(self, encoded: EncodedObjects) -> Scores:
        """Return the similarities from which the relations are computed."""
        raise NotImplementedError(f"{type(self).__name__} must define scores(encoded).")

    def compare(self, encoded: EncodedObjects) -> Relations:
        """Return the relations that the decision reads."""
        return self.scores(encoded).matrices.softmax(-1)

    def decide(self, relations: Relations, z: Objects | None) -> Logits:
        """Return the logits of the choices, from the relations and, for a `sensory` model, the normalised objects z."""
        raise NotImplementedError(f"{type(self).__name__} must define decide(relations, z).")

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        """Mask of the relation entries that the decision reads; the others are 0 or ignored."""
        return torch.ones(self.objects, self.objects, dtype=torch.bool)

    @property
    def relation_names(self) -> tuple[str, ...]:
        """Names of the relations, in order; "" if there is only one."""
        raise NotImplementedError(f"{type(self).__name__} must define relation_names.")

    def answer(self, encoded: EncodedObjects) -> Logits:
        return self.decide(self.compare(encoded), encoded.z if self.sensory else None)


def numbered_names(noun: str, count: int) -> tuple[str, ...]:
    """Return `count` numbered names, or an empty name if there is only one.

    >>> numbered_names("head", 2), numbered_names("relation", 1)
    (('head 1', 'head 2'), ('',))
    """
    return ("",) if count == 1 else tuple(f"{noun} {number + 1}" for number in range(count))
