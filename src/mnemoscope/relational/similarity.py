"""Similarities between the objects of a problem, as relation matrices (objects, objects)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Unpack, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax, one_hot

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.relational.encoder import gather
from mnemoscope.relational.network import EncodedObjects, ModelOptions, Relations
from mnemoscope.relational.similarity_model import Scores, numbered_names

Kind = Literal["symmetric", "asymmetric", "difference", "distance", "mixture"]
Features = Float[Tensor, "batch relations objects features"]
KEY = 64
"""Length of the keys by which rules compete; Kerg, section 7.3, does not give it."""
FEW_OBJECTS = 16
"""Largest number of objects whose products are computed elementwise on a CPU."""


@dataclass(frozen=True)
class RelationMask:
    """Mask of the entries of a relation matrix that are read.

    With the causal mask an object is compared with itself and the objects before it, which gives `T (T + 1) / 2`
    entries and matches the published numbers of parameters (Kerg, C.7 Table 3). Without it all T^2 entries are read, as
    printed (Kerg, section 5.5).
    """

    causal: bool = True

    def softmax(self, scores: Float[Tensor, "*batch objects objects"]) -> Float[Tensor, "*batch objects objects"]:
        """Return the softmax of each row over the entries that are read.

        >>> RelationMask()
        RelationMask(causal=True)
        >>> RelationMask().softmax(torch.zeros(3, 3))
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
        """
        if self.causal:
            scores = scores.masked_fill(self._later(scores), -torch.inf)
        return scores.softmax(-1)

    def apply(self, scores: Float[Tensor, "*batch objects objects"]) -> Float[Tensor, "*batch objects objects"]:
        """Set entries that are not read to 0."""
        return scores.masked_fill(self._later(scores), 0.0) if self.causal else scores

    def indices(self, objects: int) -> Int[Tensor, " numbers"]:
        """Return the indices of the entries of a flat matrix that are read.

        >>> RelationMask().indices(3)
        tensor([0, 3, 4, 6, 7, 8])
        """
        return self.matrix(objects).flatten().nonzero().flatten()

    def matrix(self, objects: int) -> Bool[Tensor, "objects objects"]:
        """Return the mask of a matrix, True where an entry is read.

        >>> RelationMask().matrix(2)
        tensor([[ True, False],
                [ True,  True]])
        """
        everything = torch.ones(objects, objects, dtype=torch.bool)
        return everything.tril() if self.causal else everything

    def _later(self, scores: Tensor) -> Tensor:
        return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


class Similarity(nn.Module):
    """Scores of pairs of objects, and the relations computed from them. A subclass defines `scores`."""

    normalised = True
    """Whether a relation is the softmax of each row of scores, and not the scores themselves."""

    def __init__(self, relations: int = 1, mask: RelationMask | None = None) -> None:
        super().__init__()
        check_whole(1, relations=relations)
        self.relations = relations
        self.mask = RelationMask() if mask is None else mask

    def extra_repr(self) -> str:
        return f"relations={self.relations}, {self.mask}"

    def scores(self, encoded: EncodedObjects) -> Relations:
        """Return the scores of all pairs: row i compares object i with all others."""
        raise NotImplementedError(f"{type(self).__name__} must define scores(encoded).")

    def parts(self, encoded: EncodedObjects) -> Scores:
        """Return the scores with their names, and whether the relations use them."""
        return Scores.all_used(self.scores(encoded), numbered_names("relation", self.relations))

    def forward(self, encoded: EncodedObjects) -> Relations:
        """Return the relations that a decoder reads."""
        return (self.mask.softmax if self.normalised else self.mask.apply)(self.scores(encoded))


def _products(first: Features, second: Features) -> Relations:
    """Return the inner products of all pairs; on a CPU, elementwise products are faster than many small matmuls."""
    if first.is_cuda or first.shape[2] > FEW_OBJECTS:
        return first @ second.mT
    return (first.unsqueeze(3) * second.unsqueeze(2)).sum(4)


class Symmetric(Similarity):
    """`R = z z^T` (Kerg, section 5.5), without parameters.

    Several relations use different features: `R_r = N(W_r s) N(W_r s)^T`, with the same normalisation N for all. This
    is not in the thesis.
    """

    def __init__(self, features: int, relations: int = 1, mask: RelationMask | None = None) -> None:
        super().__init__(relations, mask)
        # without a bias, because N subtracts the mean
        self.project = None if relations == 1 else nn.Linear(features, relations * features, bias=False)

    def scores(self, encoded: EncodedObjects) -> Relations:
        z = encoded.z.unsqueeze(1) if self.project is None else encoded.project(self.project).transpose(1, 2)
        return _products(z, z)


class Asymmetric(Similarity):
    """`R = N(W_1 s) N(W_2 s)^T` (Kerg, sections 5.6 and 7.2).

    The maps come before the normalisation N, which they share. They have no bias because N subtracts the mean.
    """

    def __init__(self, features: int, relations: int = 1, mask: RelationMask | None = None) -> None:
        super().__init__(relations, mask)
        self.reference = nn.Linear(features, relations * features, bias=False)
        self.comparison = nn.Linear(features, relations * features, bias=False)

    def scores(self, encoded: EncodedObjects) -> Relations:
        reference = encoded.project(self.reference).transpose(1, 2)
        comparison = encoded.project(self.comparison).transpose(1, 2)
        return _products(reference, comparison)


class Distance(Similarity):
    """`R_ij = |w (s_i - s_j)|`: the distance between objects in one learned feature (not in the thesis).

    There is neither normalisation nor softmax, because a relation should compare objects in one respect, independently
    of the others. Context normalisation gives the same weight to every feature in which two objects differ, and a
    softmax over many features is 1 for an object with itself and 0 for all others.
    """

    normalised = False

    def __init__(self, features: int, relations: int = 1, mask: RelationMask | None = None) -> None:
        super().__init__(relations, mask)
        self.project = nn.Linear(features, relations, bias=False)  # a bias would cancel

    def scores(self, encoded: EncodedObjects) -> Relations:
        values = gather(self.project(encoded.features), encoded.objects).mT  # (batch, relations, objects)
        return (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()


class Difference(Similarity):
    """`D_ij = w (z_i - z_j)` (Kerg, section 7.2), without a softmax."""

    normalised = False

    def __init__(self, features: int, relations: int = 1, mask: RelationMask | None = None) -> None:
        super().__init__(relations, mask)
        self.size = nn.Linear(features, relations, bias=False)  # a bias would cancel

    def scores(self, encoded: EncodedObjects) -> Relations:
        sizes = self.size(encoded.z).mT  # (batch, relations, objects)
        return sizes.unsqueeze(-1) - sizes.unsqueeze(-2)


class Mixture(Similarity):
    """Competing rules; the relations of the winner are read (Kerg, section 7.3).

    Each rule has a learned key. The query is a linear map of all encoded objects, concatenated: their mean would carry
    no information, because context normalisation makes it the same for all problems. In training, the winner is sampled
    by Gumbel-softmax of this temperature with straight-through gradients; otherwise it is the rule with the largest
    product of query and key.
    """

    def __init__(self, rules: Sequence[Similarity], features: int, objects: int, temperature: float = 1.0) -> None:
        if len(rules) < 2:
            raise ValueError(f"A competition needs at least 2 rules, but there are {len(rules)}.")
        if len({(rule.relations, rule.mask) for rule in rules}) > 1:
            raise ValueError("Rules that compete must have the same number of relations and the same mask.")
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, but is {temperature}.")
        super().__init__(rules[0].relations, rules[0].mask)
        self.rules = nn.ModuleList(rules)
        self.query = nn.Linear(objects * features, KEY, bias=False)
        self.keys = nn.Parameter(torch.randn(len(rules), KEY) * KEY**-0.5)
        self.temperature = temperature

    def winners(self, encoded: EncodedObjects) -> Float[Tensor, "batch rules"]:
        """Return 1 for the winning rule and 0 for the others."""
        logits = self.query(encoded.z.flatten(1)) @ self.keys.mT
        if self.training:
            return gumbel_softmax(logits, self.temperature, hard=True)
        return one_hot(logits.argmax(1), len(self.keys)).to(logits.dtype)

    def scores(self, encoded: EncodedObjects) -> Relations:
        return self._mixed(encoded, [rule.scores(encoded) for rule in self._rules()])

    def parts(self, encoded: EncodedObjects) -> Scores:
        matrices, names = [], []
        for rule in self._rules():
            scores = rule.parts(encoded)
            matrices.append(scores.matrices)
            names += [f"{type(rule).__name__.lower()} {name}".strip() for name in scores.names]
        won = self.winners(encoded).bool().repeat_interleave(self.relations, dim=1)
        return Scores(torch.cat(matrices, 1), tuple(names), won)

    def forward(self, encoded: EncodedObjects) -> Relations:
        return self._mixed(encoded, [rule(encoded) for rule in self._rules()])

    def _rules(self) -> list[Similarity]:
        return [rule for rule in self.rules if isinstance(rule, Similarity)]

    def _mixed(self, encoded: EncodedObjects, matrices: list[Tensor]) -> Tensor:
        weights = self.winners(encoded).view(-1, len(matrices), 1, 1, 1)
        return (weights * torch.stack(matrices, 1)).sum(1)


def check_segments(kind: Kind, sensory: bool, **options: Unpack[ModelOptions]) -> None:
    """Raise if a model has segments but reads nothing that is normalised."""
    if kind == "distance" and options.get("segmented") and not sensory:
        raise ValueError(
            "Distances use objects that are not normalised, so that segments would change nothing: omit segmented."
        )


def build_similarity(
    kind: Kind, features: int, objects: int, relations: int = 1, mask: RelationMask | None = None
) -> Similarity:
    """Build a similarity by its name."""
    simple = {"symmetric": Symmetric, "asymmetric": Asymmetric, "difference": Difference, "distance": Distance}
    if kind in simple:
        return simple[kind](features, relations, mask)
    if kind == "mixture":
        rules = [Symmetric(features, relations, mask), Difference(features, relations, mask)]
        return Mixture(rules, features, objects)
    raise ValueError(f"similarity must be one of {', '.join(map(repr, get_args(Kind)))}, but is {kind!r}.")
