"""Models that answer from relations: matrices that say how alike the objects of a problem are."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.relational.network import RelationalModel, Seen


class Scores(NamedTuple):
    """How alike the objects of problems are, before a softmax and before rules compete."""

    matrices: Float[Tensor, "batch matrices objects objects"]
    """Row i is of object i with all others."""
    names: tuple[str, ...]
    """Of the matrices; "" where one is all there is."""
    used: Bool[Tensor, "batch matrices"]
    """Whether relations are made of a matrix: of rules that compete, one wins."""


class Comparing(RelationalModel):
    """A model that compares its objects, and decides by the relations that come out.

    A new one has `scores`, `compare`, `decide`, `read` and `relation_names`.
    """

    sensory: bool = False
    """Whether the objects themselves are read beside their relations."""

    def scores(self, seen: Seen) -> Scores:
        """What relations are made of."""
        raise NotImplementedError(f"{type(self).__name__} must define scores(seen).")

    def compare(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        """The relations, as they are decided by."""
        raise NotImplementedError(f"{type(self).__name__} must define compare(seen).")

    def decide(
        self,
        relations: Float[Tensor, "batch relations objects objects"],
        z: Float[Tensor, "batch objects features"] | None,
    ) -> Float[Tensor, "batch choices"]:
        """Logits of the choices, by the relations and, where the model is `sensory`, the normalised objects z."""
        raise NotImplementedError(f"{type(self).__name__} must define decide(relations, z).")

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        """Which numbers of a relation are decided by; the others are 0 or not looked at."""
        raise NotImplementedError(f"{type(self).__name__} must define read.")

    @property
    def relation_names(self) -> tuple[str, ...]:
        """Of the relations, in order; "" where one is all there is."""
        raise NotImplementedError(f"{type(self).__name__} must define relation_names.")

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        return self.decide(self.compare(seen), seen.z if self.sensory else None)


def numbered(what: str, count: int) -> tuple[str, ...]:
    """Names of so many matrices.

    >>> numbered("head", 2), numbered("relation", 1)
    (('head 1', 'head 2'), ('',))
    """
    return ("",) if count == 1 else tuple(f"{what} {number + 1}" for number in range(count))
