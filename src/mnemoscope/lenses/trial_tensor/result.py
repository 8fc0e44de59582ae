"""The result of the lens on tensor components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import pluralise
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

    @property
    def same(self) -> int:
        """Number of other restarts that found the same components."""
        return int((self.similarities >= SIMILAR).sum())

    @property
    def determined(self) -> bool:
        """Whether at least half of the other restarts found the same components."""
        return self.same >= len(self.similarities) / 2

    def summary(self) -> str:
        rank, others = len(self.lengths), pluralise(len(self.similarities), "other restart")
        text = (
            f"{pluralise(rank, 'component')} {'leaves' if rank == 1 else 'leave'} {float(self.errors[0]):.1%} of the "
            f"sum of squares of {pluralise(len(self.trial_factors), 'trial')}, {self._on_left_out()}. "
            f"{self.same} of {others} found the same components (similarity {SIMILAR})."
        )
        if not self.determined:
            text += " Most did not: these components are not determined by the data; try a smaller rank."
        if self.converged < len(self.errors):
            text += f" {pluralise(len(self.errors) - self.converged, 'restart')} did not converge; raise iterations."
        return text

    def _on_left_out(self) -> str:
        """Return the error on courses left out; one above 100% is only a number of the fit, whatever its size."""
        if self.left_out_error < 1:
            return f"and {self.left_out_error:.1%} on courses left out"
        return "but on courses left out they are further from the data than no activity at all: they predict nothing"
