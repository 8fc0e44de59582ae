"""Projected gradient ascent with spectral step lengths.

A step follows the gradient and is projected back to the constraint set. Its length comes from the last change of the
gradient (Barzilai and Borwein 1988; as a projected method Birgin, Martinez and Raydan 2000). Because such steps zigzag,
a step may lose some of the last few gains; the best point is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

Point = list[Tensor]
Slope = Callable[[Point], tuple[float, Point] | None]
"""A function that returns value and gradient at a point, or None where they are not defined."""

WINDOW = 8
"""Number of past values; a step need only beat the lowest of them."""
SUFFICIENT_GAIN = 1e-4
"""Share of the gain predicted by the gradient that a step must reach."""
SHORTEST_FIRST, LONGEST = 1e-6, 1e3
"""Range of the first step length of an iteration."""
SHORTEST = 1e-12
"""Step length at which the line search gives up."""
PATIENCE = 100
"""Iterations without a gain beyond rounding after which the ascent ends."""


@dataclass(frozen=True)
class Ascent:
    """The result of one ascent."""

    point: Point
    """The best point."""
    values: list[float]
    """One value for every iteration, the start first."""
    converged: bool
    """Whether the projected gradient is below the tolerance."""
    reason: str
    """Why the ascent stopped."""

    @property
    def value(self) -> float:
        """The largest value."""
        return max(self.values)


def ascend(
    slope: Slope,
    project: Callable[[Point], Point],
    start: Sequence[Tensor],
    steps: int,
    tolerance: float,
    undefined: str,
    report: Callable[[float], None] = lambda value: None,
) -> Ascent:
    """Maximise a function over a constraint set, from an allowed point at which `slope` is defined.

    `project` returns the nearest allowed point, and `tolerance` is a limit on `|project(x + gradient) - x|`, which is 0
    where no allowed step leads up. If steps shrink to nothing because `slope` is not defined there, the ascent stops
    for the reason `undefined`. `report` is called with the value of each iteration.
    """
    point = list(start)
    here = slope(point)
    if here is None:
        raise ValueError(f"The ascent cannot begin: {undefined}.")
    value, gradient = here
    values, best, length, last_gain = [value], (value, point), 1.0, 0
    for number in range(1, steps + 1):
        there = project(_plus(point, gradient, length))
        move = _minus(there, point)
        residual = _norm(move) * max(1.0, 1 / length)  # on a convex set at least that of a step of length 1
        if residual < tolerance:
            return Ascent(best[1], values, True, f"stationary after {number - 1} iterations")
        if number - last_gain > PATIENCE:
            reason = (
                f"no further gain within {PATIENCE} iterations, though the gradient ({residual:.0e}) is not yet below "
                f"{tolerance:.0e}"
            )
            return Ascent(best[1], values, False, reason)
        threshold, met_undefined = min(values[-WINDOW:]), False
        while True:
            candidate = slope(there)
            if candidate is not None and candidate[0] >= threshold + SUFFICIENT_GAIN * _dot(gradient, move):
                break
            met_undefined = met_undefined or candidate is None
            length /= 4
            if length < SHORTEST:
                reason = undefined if met_undefined else f"rounding hides any gain, the gradient is {residual:.0e}"
                return Ascent(best[1], values, False, reason)
            there = project(_plus(point, gradient, length))
            move = _minus(there, point)
        curvature = -_dot(move, _minus(candidate[1], gradient))
        length = _dot(move, move) / curvature if curvature > 0 else 4 * length
        length = min(max(length, SHORTEST_FIRST), LONGEST)
        point, (value, gradient) = there, candidate
        values.append(value)
        if value > best[0]:
            last_gain = number if value > best[0] * (1 + 1e-12) else last_gain
            best = value, point
        report(value)
    return Ascent(best[1], values, False, f"out of steps, after {steps} iterations")


def _plus(point: Point, move: Point, length: float) -> Point:
    return [a + length * b for a, b in zip(point, move, strict=True)]


def _minus(point: Point, other: Point) -> Point:
    return [a - b for a, b in zip(point, other, strict=True)]


def _dot(point: Point, other: Point) -> float:
    return sum(float((a * b).sum()) for a, b in zip(point, other, strict=True))


def _norm(point: Point) -> float:
    return _dot(point, point) ** 0.5
