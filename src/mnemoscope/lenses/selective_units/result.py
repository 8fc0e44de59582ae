"""The result of the lens on selectivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.lenses.result import Result

RATE = 0.05
"""False discovery rate of selective units."""


@dataclass(frozen=True, repr=False)
class Selectivity(Result):
    """How much of each unit's variance each condition explains in each epoch, and which units are selective."""

    noun: ClassVar[str] = "the selectivity of units"
    drawn_by: ClassVar[str] = "draw_selectivity"

    conditions: tuple[str, ...]
    epochs: tuple[str, ...]
    share: Float[Tensor, "conditions epochs units"]
    """Omega squared: share of the variance between trials beyond the other conditions; 0 on average by chance."""
    probabilities: Float[Tensor, "conditions epochs units"]
    """Probability of a share as large under permutations of trials; NaN where it cannot be tested."""
    selective: Bool[Tensor, "conditions epochs units"]
    """Units that are selective at a false discovery rate of 5%, among the units of a condition and epoch."""
    trials: int
    shuffles: int

    def summary(self) -> str:
        units = self.share.shape[2]
        parts = []
        for row, condition in enumerate(self.conditions):
            counts = [
                f"{int(self.selective[row, column].sum())} in {epoch}"
                if bool((~self.probabilities[row, column].isnan()).any())
                else f"not testable in {epoch}"
                for column, epoch in enumerate(self.epochs)
            ]
            parts.append(f"{condition}: {', '.join(counts)}")
        trials = pluralise(self.trials, "trial")
        text = f"Selective units of {units} in {trials} (false discovery rate 5%). {'; '.join(parts)}."
        if not bool(self.selective.any()) and 1 / (self.shuffles + 1) > RATE / units:
            text += (
                f" With {self.shuffles} permutations, no probability is below {1 / (self.shuffles + 1):.2g}, so that a "
                f"few selective units among {units} cannot be found: raise shuffles."
            )
        return text
