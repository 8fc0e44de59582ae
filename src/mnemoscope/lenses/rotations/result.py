"""The result of the lens on rotations."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Rotations(Result):
    """Planes in which the activity of conditions rotates, and how much of its changes rotations explain."""

    noun: ClassVar[str] = "rotations of a population"
    drawn_by: ClassVar[str] = "draw_rotations"

    planes: Float[Tensor, "planes 2 units"]
    """Orthonormal pairs of directions, largest share of variance first; the first direction turns to the second."""
    angles: Float[Tensor, " planes"]
    """Rotation per step in radians."""
    traces: Float[Tensor, "time cells planes 2"]
    """Mean activity of each combination of conditions in the planes, without the mean over combinations."""
    cells: tuple[str, ...]
    """Names of the combinations."""
    shares: Float[Tensor, " planes"]
    """Share of the variance between conditions in each plane."""
    kept_share: float
    """Share of this variance in the principal components to which the dynamics were fitted."""
    skew_fit: float
    """R^2 of the changes from step to step, of the best rotations."""
    any_fit: float
    """R^2 of the best linear dynamics of any kind."""
    null: Float[Tensor, "surrogates 2"] | None = None
    """R^2 of any dynamics and of rotations, of surrogates with the covariances of the data."""
    step: float | None = None
    """Duration of a step in milliseconds."""

    @property
    def probability(self) -> float | None:
        """Share of surrogates whose rotations explain at least as much, the data counted as one; None without any."""
        if self.null is None:
            return None
        return (1 + int((self.null[:, 1] >= self.skew_fit).sum())) / (1 + len(self.null))

    @property
    def frequencies(self) -> Float[Tensor, " planes"]:
        """Turns per second; per step if a step has no duration."""
        return self.angles / (2 * pi) * (1 if self.step is None else 1000 / self.step)

    def summary(self) -> str:
        unit = "turns per step" if self.step is None else "Hz"
        text = (
            f"Rotations explain {self.skew_fit:.0%} of the changes of {len(self.cells)} conditions from step to step, "
            f"and any linear dynamics {self.any_fit:.0%}, within {self.kept_share:.0%} of the variance. The first "
            f"plane turns at {self.frequencies[0]:.2g} {unit} and has {self.shares[0]:.0%} of the variance."
        )
        if self.null is None:
            return f"{text} There is no control: smooth activity without dynamics can score as high."
        middle = float(self.null[:, 1].median())
        verdict = (
            "The rotations exceed those of surrogates"
            if (self.probability or 0) < 0.05
            else "Nothing shows rotations beyond smoothness and correlations: surrogates do as well"
        )
        return f"{text} {verdict} (median {middle:.0%}, p = {self.probability:.2g})."
