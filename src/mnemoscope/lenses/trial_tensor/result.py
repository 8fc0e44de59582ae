"""The result of the lens on tensor components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.lenses.result import Result

SIMILAR = 0.9
"""Similarity from which two fits count as the same."""


@dataclass(frozen=True, repr=False)
class TensorComponents(Result):
    """Components of single trials: a course of time, weights of units and weights of trials, of length 1 each."""

    noun: ClassVar[str] = "tensor components"
    drawn_by: ClassVar[str] = "draw_tensor"

    trial_factors: Float[Tensor, "trials rank"]
    time_factors: Float[Tensor, "time rank"]
    unit_factors: Float[Tensor, "units rank"]
    lengths: Float[Tensor, " rank"]
    """Length of each component, largest first."""
    errors: Float[Tensor, " restarts"]
    """Squared error of every restart as a share of the sum of squares, best first; the factors are of the best."""
    similarities: Float[Tensor, " others"]
    """Similarity of the other restarts to the best."""
    left_out_error: float
    """Squared error on courses left out, a unit in a trial each, as a share of their sum of squares."""
    converged: int
    """Number of restarts that converged."""
    table: TrialTable
    """Conditions of the trials."""

    def summary(self) -> str:
        same = int((self.similarities >= SIMILAR).sum())
        text = (
            f"{len(self.lengths)} components leave {float(self.errors[0]):.1%} of the sum of squares of "
            f"{len(self.trial_factors)} trials, and {self.left_out_error:.1%} on courses left out. "
            f"{same} of {len(self.similarities)} other restarts found the same components (similarity {SIMILAR})."
        )
        if same < len(self.similarities) / 2:
            text += " Most did not: these components are not determined by the data; try a smaller rank."
        if self.converged < len(self.errors):
            text += f" {len(self.errors) - self.converged} restarts did not converge; raise iterations."
        return text
