"""The result of the diffusion lens: the diffusion coefficient along a memory, predicted and simulated."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, pi, sqrt
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.result import Result

WRAPPED = 1 / 6
"""A standard deviation above this share of a ring is no longer that of its angle, which wraps around."""


@dataclass(frozen=True, repr=False)
class Diffusion(Result):
    """How noise spreads a held value along a line or ring: its variance grows as 2 D t.

    Positions, variances and coefficients are in the units of the state; `angular` converts those of a ring.
    """

    noun: ClassVar[str] = "diffusion along a memory"
    drawn_by: ClassVar[str] = "draw_diffusion"

    positions: Float[Tensor, " points"]
    """Arc length of points of the memory."""
    local: Float[Tensor, " points"]
    """Predicted coefficient D at each of them: half the variance that one step of noise adds."""
    predicted: float
    """Mean of the predicted coefficient over the simulated starts."""
    measured: float
    """Coefficient of the simulation: half the slope of the variance, by least squares through the origin."""
    measured_low: float
    """Lower edge of its 95% confidence interval, by the bootstrap over trials."""
    measured_high: float
    """Upper edge."""
    delays: tuple[int, ...]
    """Steps after which the variance was measured."""
    variance: Float[Tensor, " delays"]
    """Mean squared distance between noisy and noiseless copies."""
    variance_low: Float[Tensor, " delays"]
    """Lower edge of its 95% confidence interval."""
    variance_high: Float[Tensor, " delays"]
    """Upper edge."""
    noise: float
    """Root-mean-square standard deviation of the noise in a number of the state and step."""
    range: float
    """Length of the line or ring."""
    ring: bool
    """Whether the memory is a ring."""
    trials: int
    """Simulated copies."""
    relax: int
    """Steps without noise after which positions were read."""
    dt: float | None = None
    """Length of a step of a flow; None for a map."""

    @property
    def angular(self) -> float:
        """Predicted coefficient of the angle of a ring, in radians squared per step; NaN for a line."""
        return self.predicted * (2 * pi / self.range) ** 2 if self.ring else nan

    @property
    def expected(self) -> Float[Tensor, " delays"]:
        """Predicted variance after each delay, 2 D t."""
        return 2 * self.predicted * torch.tensor(self.delays, dtype=torch.float64)

    @property
    def consistent(self) -> bool:
        """Whether the predicted coefficient lies in the interval of the simulated one."""
        return self.measured_low <= self.predicted <= self.measured_high

    @property
    def wraps(self) -> bool:
        """Whether the spread over the longest delay is too wide for the angle of a ring."""
        return self.ring and sqrt(float(self.expected[-1])) > WRAPPED * self.range

    def summary(self) -> str:
        scale, unit = ((360 / self.range) ** 2, "degrees²") if self.ring else (1.0, "units of the state²")
        steps = "step" if self.dt is None else f"step of {self.dt:g}"
        interval = f"{scale * self.measured_low:.3g} to {scale * self.measured_high:.3g}"
        sentences = [
            f"Noise of {self.noise:.2g} per step and number spreads the held value with D = "
            f"{scale * self.predicted:.3g} {unit} per {steps} in linear theory, and {scale * self.measured:.3g} "
            f"({interval}) in {self.trials} simulated trials."
        ]
        spread = float(self.local.max() / self.local.min()) if float(self.local.min()) > 0 else float("inf")
        sentences.append(f"D differs by a factor of {spread:.2g} between places.")
        if self.wraps:
            sentences.append("The simulated angle wraps around the ring: shorten the delays.")
        elif not self.consistent:
            sentences.append(
                "Theory and simulation differ: the noise is too large for a linear theory, or the drift pulls values "
                "together or apart within the delays."
            )
        return " ".join(sentences)
