"""Models that answer from relation matrices between the objects of a problem."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.relational.network import EncodedObjects, RelationalModel


class Scores(NamedTuple):
    """Similarities between the objects of a batch of problems, before a softmax and before rules compete."""

    matrices: Float[Tensor, "batch matrices objects objects"]
    """Row i compares object i with all others."""
    names: tuple[str, ...]
    """Names of the matrices; "" if there is only one."""
    used: Bool[Tensor, "batch matrices"]
    """Whether the relations use a matrix: if rules compete, only the matrices of the winner are used."""


class SimilarityModel(RelationalModel):
    """A model that computes relation matrices between its objects, and answers from them.

    A subclass defines `scores`, `compare`, `decide`, `read` and `relation_names`.
    """

    sensory: bool = False
    """Whether the answer depends on the objects too, and not only on their relations."""

    def scores(self, encoded: EncodedObjects) -> Scores:
        """Return the similarities from which the relations are computed."""
        raise NotImplementedError(f"{type(self).__name__} must define scores(encoded).")

    def compare(self, encoded: EncodedObjects) -> Float[Tensor, "batch relations objects objects"]:
        """Return the relations that the decision reads."""
        raise NotImplementedError(f"{type(self).__name__} must define compare(encoded).")

    def decide(
        self,
        relations: Float[Tensor, "batch relations objects objects"],
        z: Float[Tensor, "batch objects features"] | None,
    ) -> Float[Tensor, "batch choices"]:
        """Return the logits of the choices, from the relations and, for a `sensory` model, the normalised objects z."""
        raise NotImplementedError(f"{type(self).__name__} must define decide(relations, z).")

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        """Mask of the relation entries that the decision reads; the others are 0 or ignored."""
        raise NotImplementedError(f"{type(self).__name__} must define read.")

    @property
    def relation_names(self) -> tuple[str, ...]:
        """Names of the relations, in order; "" if there is only one."""
        raise NotImplementedError(f"{type(self).__name__} must define relation_names.")

    def answer(self, encoded: EncodedObjects) -> Float[Tensor, "batch choices"]:
        return self.decide(self.compare(encoded), encoded.z if self.sensory else None)


def numbered_names(noun: str, count: int) -> tuple[str, ...]:
    """Return `count` numbered names, or an empty name if there is only one.

    >>> numbered_names("head", 2), numbered_names("relation", 1)
    (('head 1', 'head 2'), ('',))
    """
    return ("",) if count == 1 else tuple(f"{noun} {number + 1}" for number in range(count))
