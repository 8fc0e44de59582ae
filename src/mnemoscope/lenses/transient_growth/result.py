"""The result of the transient lens: norms and spreads of an ensemble over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Transients(Result):
    """An ensemble of trajectories from a small sphere (Kerg's thesis, Fig 1b), measured from its centre.

    >>> import mnemoscope as ms
    >>> line = torch.diag(torch.full((99,), 1.05), -1)  # a delay line (Eq 3.4.2 with alpha = 1.05, beta = d = 0)
    >>> result = ms.transients(line, steps=100)
    >>> 40 < result.time < 90, float(result.norms[100].max())  # it amplifies its signal, which leaves after N steps
    (True, 0.0)
    """

    noun: ClassVar[str] = "transients"
    drawn_by: ClassVar[str] = "draw_transients"

    norms: Float[Tensor, "times starts"]
    """|h_t - centre| of each trajectory, from t = 0."""
    spreads: Float[Tensor, "times starts"]
    """Standard deviation across the units of h_t - centre."""

    @property
    def times(self) -> Float[Tensor, " times"]:
        """The steps, from 0."""
        return torch.arange(len(self.norms), dtype=torch.float64)

    @property
    def norm(self) -> tuple[Float[Tensor, " times"], Float[Tensor, " times"]]:
        """Mean and standard deviation of the norm over the ensemble."""
        return self.norms.mean(1), self.norms.std(1, correction=0)

    @property
    def spread(self) -> tuple[Float[Tensor, " times"], Float[Tensor, " times"]]:
        """Mean and standard deviation of the spread over the ensemble."""
        return self.spreads.mean(1), self.spreads.std(1, correction=0)

    @property
    def peak(self) -> float:
        """The largest mean norm, as a multiple of the first."""
        mean = self.norm[0]
        return float(mean.max() / mean[0])

    @property
    def time(self) -> int:
        """The step at which the mean norm is largest."""
        return int(self.norm[0].argmax())

    def summary(self) -> str:
        """Return the peak of the mean norm and its last value, in one sentence.

        >>> Transients(torch.tensor([[1.0], [3.0], [0.5]]), torch.zeros(3, 1)).summary()
        'Over 2 steps the mean norm of 1 trajectory rises to 3 times its first value, at step 1, and ends at 0.5 times.'
        """
        steps, starts = len(self.norms) - 1, self.norms.shape[1]
        trajectories = f"{starts} trajector{'ies' if starts > 1 else 'y'}"
        subject = f"Over {steps} step{'s' if steps > 1 else ''} the mean norm of {trajectories}"
        mean = self.norm[0]
        overflow = (~torch.isfinite(mean)).nonzero().flatten()
        if len(overflow):
            return f"{subject} grows beyond the range of floating point, at step {int(overflow[0])}."
        if self.time == steps:
            return f"{subject} rises to {self.peak:.4g} times its first value, at the last step."
        rise = f"rises to {self.peak:.4g} times its first value, at step {self.time},"
        rise = rise if self.time else "never exceeds its first value"
        return f"{subject} {rise} and ends at {float(mean[-1] / mean[0]):.4g} times."
