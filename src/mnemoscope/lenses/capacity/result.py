"""The result of the memory capacity lenses."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.result import lags_above
from mnemoscope.lenses.result import Flags, Result


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
    """The capacity: the sum over all lags; if measured, over the lags of the curve."""
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
        total = f"{float(self.total):.4g}"
        total += f" +- {self.total_error:.1g}" if isfinite(self.total_error) else ""
        return (
            f"Linear readouts of {self.size} numbers recover {total} past signals in total (at most {self.size}). "
            f"At least half of a signal's variance is recovered {lags_above(self.curve.detach(), 0.5)}."
        )

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> MemoryCapacity:
        """Make a capacity from the fields; earlier versions saved a missing error as None."""
        return super().unpack(tensors, {name: flag for name, flag in flags.items() if flag is not None})
