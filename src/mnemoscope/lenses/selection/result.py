"""The result of the selection lens: selection vectors, and the share of each input that they keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float
from mnemoscope.lenses.fixed_points.result import ILL_CONDITIONED
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class SelectionVectors(Result):
    """The slowest mode of each fixed point: its left eigenvector selects the part of an input that is kept."""

    noun: ClassVar[str] = "selection vectors"
    drawn_by: ClassVar[str] = "draw_selection_vectors"

    states: Float[Tensor, "points size"]
    """The fixed points."""
    left: Float[Tensor, "points size"]
    """Selection vectors, with l^T r = 1; NaN where the slowest mode is complex and so selects a plane."""
    right: Float[Tensor, "points size"]
    """Direction of the slowest mode, of unit length: along a line attractor it is the tangent."""
    eigenvalues: Complex[Tensor, " points"]
    """Eigenvalue of the slowest mode: the one with the smallest rate, whether it grows or decays."""
    growth: Float[Tensor, " points"]
    """Its growth per step (for a flow: per time)."""
    conditions: Float[Tensor, " points"]
    """Its condition number."""
    effects: Float[Tensor, "points size features"]
    """How far each input moves the state at once: the derivative of the step with respect to the input."""
    input: Float[Tensor, " features"]
    """The constant input."""
    continuous: bool
    """Whether the system is a flow."""
    features: tuple[str, ...] = ()
    """Names of the inputs; may be empty."""

    def __len__(self) -> int:
        return len(self.states)

    @property
    def gains(self) -> Float[Tensor, "points features"]:
        """How far the state ends along the slow mode after a unit of each input in one step: l^T B."""
        return torch.einsum("ps,psf->pf", self.left, self.effects)

    @property
    def direct(self) -> Float[Tensor, "points features"]:
        """How far a unit of each input moves the state along the slow mode at once: r^T B.

        Where it differs from `gains`, other modes carry the input into the slow one, or out of it.
        """
        return torch.einsum("ps,psf->pf", self.right, self.effects)

    @property
    def cosines(self) -> Float[Tensor, "points features"]:
        """Cosine between the selection vector and the effect of each input: 0 if it is ignored; NaN without effect."""
        return self.gains / (self.left.norm(dim=1, keepdim=True) * self.effects.norm(dim=1))

    @property
    def time_constants(self) -> Float[Tensor, " points"]:
        """Steps (for a flow: time) in which the slow mode grows or decays by a factor e."""
        return 1 / self.growth.abs()

    @property
    def reliable(self) -> Bool[Tensor, " points"]:
        """Whether the slowest mode is real and well-conditioned."""
        return ~self.left.isnan().any(1) & (self.conditions <= ILL_CONDITIONED)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs, or their numbers."""
        return self.features or tuple(f"input {number}" for number in range(self.effects.shape[2]))

    def summary(self) -> str:
        return " ".join(_sentences(self))


def _sentences(result: SelectionVectors) -> Iterator[str]:
    points, good = len(result), result.reliable
    if not points:
        yield "There is no fixed point."
        return
    unit = "units of time" if result.continuous else "steps"
    slowest = result.time_constants[good]
    if len(slowest):
        low, high = float(slowest.min()), float(slowest.max())
        times = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
        yield (
            f"At {int(good.sum())} of {points} fixed point{'s' * (points > 1)} the slowest mode is real, with a time "
            f"constant of {times} {unit}."
        )
        gains, cosines = result.gains[good], result.cosines[good].abs()
        parts = [
            f"{name} {float(gains[:, number].median()):.3g} (cosine {float(cosines[:, number].nanmedian()):.2f})"
            for number, name in enumerate(result.names)
        ]
        yield f"Median gain of each input along it: {', '.join(parts)}."
    rotating, doubtful = int(result.left.isnan().any(1).sum()), int((result.conditions > ILL_CONDITIONED).sum())
    if rotating:
        yield f"At {rotating} of {points} the slowest mode is complex or defective, so that no single vector selects."
    if doubtful - rotating > 0:
        yield f"At {doubtful - rotating} it is ill-conditioned and left out."
