"""How alike the objects of a problem are: relations, each of them a matrix of objects by objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax, one_hot

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.relational.comparing import Scores, numbered
from mnemoscope.relational.encoder import gather
from mnemoscope.relational.network import Seen

KEY = 64
"""Numbers of the keys by which rules compete; not told in Kerg, section 7.3."""

FEW_OBJECTS = 16
"""Up to which their products are multiplied out on a CPU."""


@dataclass(frozen=True)
class Rows:
    """What is made of the scores of a row, and which of them are read.

    Causal rows are those that the published numbers of parameters count (Kerg, C.7 Table 3): an object is compared with
    itself and those before it, `T (T + 1) / 2` numbers. Rows that are not are as printed (Kerg, section 5.5): all T^2.
    """

    causal: bool = True

    def softmax(self, scores: Float[Tensor, "*batch objects objects"]) -> Float[Tensor, "*batch objects objects"]:
        """Of each row.

        >>> Rows()
        Rows(causal=True)
        >>> Rows().softmax(torch.zeros(3, 3))
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
        """
        if self.causal:
            scores = scores.masked_fill(self._later(scores), -torch.inf)
        return scores.softmax(-1)

    def kept(self, scores: Float[Tensor, "*batch objects objects"]) -> Float[Tensor, "*batch objects objects"]:
        """As they are, but 0 where they are not read."""
        return scores.masked_fill(self._later(scores), 0.0) if self.causal else scores

    def places(self, objects: int) -> Int[Tensor, " numbers"]:
        """Which numbers of a flat matrix are read.

        >>> Rows().places(3)
        tensor([0, 3, 4, 6, 7, 8])
        """
        return self.read(objects).flatten().nonzero().flatten()

    def read(self, objects: int) -> Bool[Tensor, "objects objects"]:
        """Whether each number of a matrix is read.

        >>> Rows().read(2)
        tensor([[ True, False],
                [ True,  True]])
        """
        everything = torch.ones(objects, objects, dtype=torch.bool)
        return everything.tril() if self.causal else everything

    def _later(self, scores: Tensor) -> Tensor:
        return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


class Similarity(nn.Module):
    """Scores of pairs of objects, and the relations that are made of them. A new one has `scores`."""

    def __init__(self, relations: int = 1, rows: Rows | None = None) -> None:
        super().__init__()
        check_whole(1, relations=relations)
        self.relations = relations
        self.rows = Rows() if rows is None else rows

    def extra_repr(self) -> str:
        return f"relations={self.relations}, {self.rows}"

    def scores(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        """Of all pairs: row i is of object i with all others."""
        raise NotImplementedError(f"{type(self).__name__} must define scores(seen).")

    def parts(self, seen: Seen) -> Scores:
        """The scores by name, and whether relations are made of them."""
        scores = self.scores(seen)
        return Scores(scores, numbered("relation", self.relations), scores.new_ones(scores.shape[:2], dtype=torch.bool))

    def forward(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        """The relations that a decoder reads: softmax of the rows of scores."""
        return self.rows.softmax(self.scores(seen))


def _products(
    first: Float[Tensor, "batch relations objects features"], second: Float[Tensor, "batch relations objects features"]
) -> Float[Tensor, "batch relations objects objects"]:
    """Of all pairs of objects. A CPU multiplies many small matrices one by one, and numbers at once much faster."""
    if first.is_cuda or first.shape[2] > FEW_OBJECTS:
        return first @ second.mT
    return (first.unsqueeze(3) * second.unsqueeze(2)).sum(4)


class Symmetric(Similarity):
    """`R = z z^T` (Kerg, section 5.5): nothing is learned here.

    Several relations look at different features: `R_r = N(W_r s) N(W_r s)^T`, one normalisation N for all. This is
    beyond the thesis.
    """

    def __init__(self, features: int, relations: int = 1, rows: Rows | None = None) -> None:
        super().__init__(relations, rows)
        # without a bias, as N takes the mean off
        self.project = None if relations == 1 else nn.Linear(features, relations * features, bias=False)

    def scores(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        z = seen.z.unsqueeze(1) if self.project is None else seen.mapped(self.project).transpose(1, 2)
        return _products(z, z)


class Asymmetric(Similarity):
    """`R = N(W_1 s) N(W_2 s)^T` (Kerg, sections 5.6 and 7.2): the maps come before the normalisation N, which they
    share, and have no bias, as N takes the mean off.
    """

    def __init__(self, features: int, relations: int = 1, rows: Rows | None = None) -> None:
        super().__init__(relations, rows)
        self.reference = nn.Linear(features, relations * features, bias=False)
        self.comparison = nn.Linear(features, relations * features, bias=False)

    def scores(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        reference, comparison = (seen.mapped(each).transpose(1, 2) for each in (self.reference, self.comparison))
        return _products(reference, comparison)


class Distance(Similarity):
    """`R_ij = |w (s_i - s_j)|`, read as it is: how far apart objects are in one learned number (beyond the thesis).

    Neither normalised nor turned into a softmax: a relation has to say how alike objects are in one respect, whatever
    they are in others. Context normalisation makes every feature in which two objects differ at all count as much as
    any other, and a softmax over many features is 1 for an object with itself and 0 for all others.
    """

    def __init__(self, features: int, relations: int = 1, rows: Rows | None = None) -> None:
        super().__init__(relations, rows)
        self.project = nn.Linear(features, relations, bias=False)  # a bias would cancel

    def scores(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        places = gather(self.project(seen.encoded), seen.objects).mT  # (batch, relations, objects)
        return (places.unsqueeze(-1) - places.unsqueeze(-2)).abs()

    def forward(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        return self.rows.kept(self.scores(seen))


class Difference(Similarity):
    """`D_ij = w (z_i - z_j)` (Kerg, section 7.2), which is read as it is, without a softmax."""

    def __init__(self, features: int, relations: int = 1, rows: Rows | None = None) -> None:
        super().__init__(relations, rows)
        self.size = nn.Linear(features, relations, bias=False)  # a bias would cancel

    def scores(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        sizes = self.size(seen.z).mT  # (batch, relations, objects)
        return sizes.unsqueeze(-1) - sizes.unsqueeze(-2)

    def forward(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        return self.rows.kept(self.scores(seen))


class Mixture(Similarity):
    """Rules compete, and the relations of the one that wins are read (Kerg, section 7.3).

    Each rule has a learned key; the query is a linear map of the encoded objects, one after the other (their mean would
    not do: context normalisation makes it the same for all problems). While training, the winner is drawn by
    Gumbel-softmax with straight-through gradients, else it is the rule with the largest product of query and key.

    Args:
        rules: similarities with the same relations and rows.
        features: of an object.
        objects: of a problem.
        temperature: of the Gumbel-softmax.

    """

    def __init__(self, rules: Sequence[Similarity], features: int, objects: int, temperature: float = 1.0) -> None:
        if len(rules) < 2:
            raise ValueError(f"A competition needs at least 2 rules, but there are {len(rules)}.")
        if len({(rule.relations, rule.rows) for rule in rules}) > 1:
            raise ValueError("Rules that compete must have the same number of relations and the same rows.")
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, but is {temperature}.")
        super().__init__(rules[0].relations, rules[0].rows)
        self.rules = nn.ModuleList(rules)
        self.query = nn.Linear(objects * features, KEY, bias=False)
        self.keys = nn.Parameter(torch.randn(len(rules), KEY) * KEY**-0.5)
        self.temperature = temperature

    def winners(self, seen: Seen) -> Float[Tensor, "batch rules"]:
        """1 for the rule that wins, 0 for the others."""
        logits = self.query(seen.z.flatten(1)) @ self.keys.mT
        if self.training:
            return gumbel_softmax(logits, self.temperature, hard=True)
        return one_hot(logits.argmax(1), len(self.keys)).to(logits.dtype)

    def scores(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        return self._mixed(seen, [rule.scores(seen) for rule in self._rules()])

    def parts(self, seen: Seen) -> Scores:
        matrices, names = [], []
        for rule in self._rules():
            own = rule.parts(seen)
            matrices.append(own.matrices)
            names += [f"{type(rule).__name__.lower()} {name}".strip() for name in own.names]
        won = self.winners(seen).bool().repeat_interleave(self.relations, dim=1)
        return Scores(torch.cat(matrices, 1), tuple(names), won)

    def forward(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        return self._mixed(seen, [rule(seen) for rule in self._rules()])

    def _rules(self) -> list[Similarity]:
        return [rule for rule in self.rules if isinstance(rule, Similarity)]

    def _mixed(self, seen: Seen, matrices: list[Tensor]) -> Tensor:
        weights = self.winners(seen).view(-1, len(matrices), 1, 1, 1)
        return (weights * torch.stack(matrices, 1)).sum(1)
