"""The result of the lens on speed: how fast each condition moves, its times along a reference, and its distance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Traversal(Result):
    """Kinematics of the mean trajectories of conditions. Fields that end in `_low` and `_high` are 95% intervals.

    The intervals come from trials that are drawn again within each condition; they are NaN for a single trial.
    """

    noun: ClassVar[str] = "the speed of trajectories"
    drawn_by: ClassVar[str] = "draw_traversal"

    condition: str
    """Name of the condition."""
    names: tuple[str, ...]
    """Names of its values."""
    levels: Float[Tensor, " conditions"]
    """Its values."""
    reference: int
    """Number of the value whose trajectory is the reference."""
    speed: Float[Tensor, "steps conditions"]
    """Length of each step of the mean trajectory. Noise in the mean makes it longer."""
    aligned: Float[Tensor, "time conditions"]
    """Step at which each condition is nearest to each state of the reference; NaN where it has ended before."""
    distance: Float[Tensor, "time conditions"]
    """Distance from the reference there."""
    ratio: Float[Tensor, " conditions"]
    """Speed relative to the reference, 1 over the slope of `aligned`: 0.5 if a condition takes twice as long, NaN if it
    does not follow the reference."""
    speed_low: Float[Tensor, "steps conditions"]
    speed_high: Float[Tensor, "steps conditions"]
    aligned_low: Float[Tensor, "time conditions"]
    aligned_high: Float[Tensor, "time conditions"]
    distance_low: Float[Tensor, "time conditions"]
    distance_high: Float[Tensor, "time conditions"]
    ratio_low: Float[Tensor, " conditions"]
    ratio_high: Float[Tensor, " conditions"]
    scatter: Float[Tensor, "time conditions"]
    """Distance that the scatter of the trials alone would produce; NaN for a single trial."""
    trials: Int[Tensor, " conditions"]
    """Trials of each condition."""
    step: float | None = None
    """Duration of a step in milliseconds."""

    def summary(self) -> str:
        return " ".join(_sentences(self))


def _sentences(result: Traversal) -> Iterator[str]:
    parts = []
    for number, name in enumerate(result.names):
        if number == result.reference:
            continue
        ratio, low, high = (float(part[number]) for part in (result.ratio, result.ratio_low, result.ratio_high))
        interval = f" ({low:.2f} to {high:.2f})" if low == low else ""
        known = ratio == ratio
        parts.append(
            f"{name}: {ratio:.2f}{interval}" if known else f"{name}: unknown, since it does not follow the reference"
        )
    yield (
        f"Speed along the trajectory of {result.condition} {result.names[result.reference]}, relative to it: "
        f"{'; '.join(parts)}."
    )
    others = [number for number in range(len(result.names)) if number != result.reference]
    distance, scatter = result.distance[:, others].nanmean(0), result.scatter[:, others].nanmean(0)
    texts = []
    for number, mean, noise in zip(others, distance.tolist(), scatter.tolist(), strict=True):
        alone = f" (scatter alone {noise:.2g})" if noise == noise else ""
        texts.append(
            f"{result.names[number]}: {mean:.3g}{alone}" if mean == mean else f"{result.names[number]}: unknown"
        )
    yield f"Mean distance from it: {'; '.join(texts)}."
