"""How far an intervention changed later answers: for each sequence a sum, and the largest that it could be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float


@dataclass(frozen=True)
class Scores:
    """Effect and side effect of one intervention, as sums over the later steps of each sequence."""

    effect: Float[Tensor, "steps batch"]
    side: Float[Tensor, " batch"]


@dataclass(frozen=True)
class Scale:
    """The outputs that interventions are compared with, and the denominators of their scores."""

    answers: str
    """How outputs are read: "values" as numbers, "classes" by the largest one, "bits" by their signs."""
    clean: Float[Tensor, "steps batch outputs"]
    """Outputs without an intervention."""
    donor: Float[Tensor, "steps batch outputs"] | None
    """Outputs after the whole state was replaced by that of the donor; None without a donor."""
    counts: Bool[Tensor, "steps batch"]
    """Whether each step counts."""

    @property
    def effect(self) -> Float[Tensor, "steps batch"]:
        """Largest possible effect: 1 per answer that can change, or the squared distance that can be covered."""
        return self._sum(self._differs() if self.answers != "values" else self._towards().square())

    @property
    def side(self) -> Float[Tensor, " batch"]:
        """Number of answers that should stay, or the squared distance to the donor; 0 without a donor."""
        if self.donor is None:
            return torch.zeros_like(self.effect[0])
        return self._sum(~self._differs()).sum(0) if self.answers != "values" else self.effect.sum(0)

    def score(self, outputs: Float[Tensor, "steps batch outputs"]) -> Scores:
        """Return how far outputs have changed, in the units of the denominators."""
        if self.answers != "values":
            now, before = self._answers(outputs), self._answers(self.clean)
            differs = self._differs()
            reached = now != before if self.donor is None else now == self._answers(self.donor)
            side = torch.zeros_like(self.side) if self.donor is None else self._sum(~differs & (now != before)).sum(0)
            return Scores(self._sum(differs & reached), side)
        change = outputs - self.clean
        if self.donor is None:
            return Scores(self._sum(change.square()), torch.zeros_like(self.side))
        towards = self._towards()
        along = self._sum(change * towards)
        total = self.effect.sum(0)
        rest = self._sum(change.square()).sum(0) - along.sum(0).square() / torch.where(total > 0, total, 1)
        return Scores(along, rest.clamp_min(0))

    def _answers(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1, keepdim=True) if self.answers == "classes" else outputs > 0

    def _differs(self) -> Tensor:
        """Whether an answer can change: all of them, or those that the donor's state changes."""
        before = self._answers(self.clean)
        return torch.ones_like(before, dtype=torch.bool) if self.donor is None else before != self._answers(self.donor)

    def _towards(self) -> Tensor:
        """Return the way to the donor's outputs, or the deviations of the sequences from their mean."""
        return self.clean - self.clean.mean(1, keepdim=True) if self.donor is None else self.donor - self.clean

    def _sum(self, values: Tensor) -> Float[Tensor, "steps batch"]:
        return values.double().sum(-1) * self.counts
