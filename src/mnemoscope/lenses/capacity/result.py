"""The result of the memory capacity lenses."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.result import lags_above
from mnemoscope.lenses.result import Flags, Result

LAST = 10
"""Last lags of a measured curve, which show whether longer ones would add to the total."""
HELD = 0.01
"""Least mean share of a signal at these lags for which the summary mentions them."""


@dataclass(frozen=True, repr=False)
class MemoryCapacity(Result):
    """Share of each past signal's variance, R^2, that a linear readout of the state recovers.

    >>> import torch
    >>> import mnemoscope as ms
    >>> line = torch.diag(torch.ones(9), -1)  # a delay line of ten units
    >>> ms.memory_capacity(line, torch.eye(10)[0]).total.item()
    10.0
    >>> noisy = ms.memory_capacity(line, torch.eye(10)[0], noise=1.0)  # as much noise as signal, at every step
    >>> [round(value, 4) for value in noisy.curve[:4].tolist()]  # 1 / (k + 2)
    [0.5, 0.3333, 0.25, 0.2]
    """

    noun: ClassVar[str] = "a memory capacity"
    drawn_by: ClassVar[str] = "draw_capacity"

    curve: Float[Tensor, " lags"]
    """R^2 of the signal k steps ago, k = 0, 1, ...; a measured value is negative where the readout is worse than the
    mean."""
    total: Float[Tensor, ""]
    """The capacity: the sum over all lags; if measured, over the lags of the curve alone."""
    size: int
    """Number of inputs of the readout, which bounds the total (if measured, up to its error)."""
    route: str
    """Description of how the capacity was computed or measured."""
    curve_error: Float[Tensor, " lags"] | None = None
    """Standard error of a measured curve."""
    total_error: float = nan
    """Standard error of a measured total."""

    def __len__(self) -> int:
        """Return the number of lags."""
        return self.curve.shape[0]

    def summary(self) -> str:
        """Return the total and the lag up to which half of a signal is recovered, in sentences."""
        total, half = f"{float(self.total):.4g}", lags_above(self.curve.detach(), 0.5)
        if self.curve_error is None:
            lags = f"in total (at most {self.size})"
        else:
            total = f"{total} +- {self.total_error:.1g}"
            summed = f"over lags 0 to {len(self) - 1}" if len(self) > 1 else "at lag 0"
            lags = f"{summed} (at most {self.size} over all lags){self._reservation()}"
        return (
            f"Linear readouts of {self.size} numbers recover {total} past signals {lags}. "
            f"At least half of a signal's variance is recovered {half}."
        )

    def _reservation(self) -> str:
        """Return what the sum over the measured lags misses, or why it is too large; an empty text if neither."""
        assert self.curve_error is not None
        last, error = self.curve[-LAST:], self.curve_error[-LAST:]
        if float(self.total) > self.size + 2 * self.total_error:
            return (
                "; it is above this bound by more than two standard errors, as the steps are too few for so many lags"
            )
        if float(last.mean()) > max(HELD, 2 * float(error.mean())):
            number = f"the last {len(last)} of these lags add" if len(last) > 1 else "the last lag adds"
            return f"; {number} {float(last.sum()):.2g}, and longer lags would add more"
        return ""

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> MemoryCapacity:
        """Make a capacity from the fields; earlier versions saved a missing error as None."""
        return super().unpack(tensors, {name: flag for name, flag in flags.items() if flag is not None})
