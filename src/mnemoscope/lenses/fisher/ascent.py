"""Projected gradient ascent: uphill along the gradient, back to what is allowed, with steps as long as the last change
of the gradient suggests (Barzilai and Borwein 1988; as a projected method Birgin, Martinez and Raydan 2000).

A step may lose some of the last few gains, for such steps zigzag on their way; the best point is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

Point = list[Tensor]
Slope = Callable[[Point], tuple[float, Point] | None]
"""Value and gradient at a point; None where there is none to be had."""

WINDOW = 8
"""Values of which a step need only beat the lowest."""
GAIN = 1e-4
"""Share of the gain that the gradient promises and that a step must bring."""
SHORTEST_FIRST, LONGEST = 1e-6, 1e3
"""Of the steps that are tried first."""
SHORTEST = 1e-12
"""Step at which one gives up."""
STILL = 100
"""Iterations without a gain that rounding would let one see, after which the ascent ends."""


@dataclass(frozen=True)
class Ascent:
    """Where it led."""

    point: Point
    values: list[float]
    """One for every iteration, the start first."""
    converged: bool
    """Whether the projected gradient is below the tolerance."""
    reason: str
    """Why it stopped."""

    @property
    def value(self) -> float:
        """The best."""
        return max(self.values)


def ascend(
    slope: Slope,
    project: Callable[[Point], Point],
    start: Sequence[Tensor],
    steps: int,
    tolerance: float,
    nowhere: str,
    tell: Callable[[float], None] = lambda value: None,
) -> Ascent:
    """Up from a start.

    Args:
        slope: what is climbed.
        project: the nearest allowed point.
        start: allowed, and with a value.
        steps: at most.
        tolerance: on `|project(x + gradient) - x|`, which is 0 where no allowed step leads up.
        nowhere: in words, the reason if steps are cut down to nothing because `slope` has no value there.
        tell: called with the value of each iteration.

    """
    point = list(start)
    here = slope(point)
    if here is None:
        raise ValueError(f"The ascent cannot begin: {nowhere}.")
    value, gradient = here
    values, best, length, last_gain = [value], (value, point), 1.0, 0
    for number in range(1, steps + 1):
        there = project(_plus(point, gradient, length))
        move = _minus(there, point)
        residual = _norm(move) * max(1.0, 1 / length)  # on a convex set at least that of a step of length 1
        if residual < tolerance:
            return Ascent(best[1], values, True, f"stationary after {number - 1} iterations")
        if number - last_gain > STILL:
            return Ascent(best[1], values, False, f"no further gain within {STILL} iterations, though the gradient "
                          f"({residual:.0e}) is not yet below {tolerance:.0e}")  # fmt: skip
        asked, outside = min(values[-WINDOW:]), False
        while True:
            found = slope(there)
            if found is not None and found[0] >= asked + GAIN * _dot(gradient, move):
                break
            outside = outside or found is None
            length /= 4
            if length < SHORTEST:
                return Ascent(best[1], values, False, nowhere if outside else
                              f"rounding hides any gain, the gradient is {residual:.0e}")  # fmt: skip
            there = project(_plus(point, gradient, length))
            move = _minus(there, point)
        bend = -_dot(move, _minus(found[1], gradient))
        length = _dot(move, move) / bend if bend > 0 else 4 * length
        length = min(max(length, SHORTEST_FIRST), LONGEST)
        point, (value, gradient) = there, found
        values.append(value)
        if value > best[0]:
            last_gain = number if value > best[0] * (1 + 1e-12) else last_gain
            best = value, point
        tell(value)
    return Ascent(best[1], values, False, f"out of steps, after {steps} iterations")


def _plus(point: Point, move: Point, length: float) -> Point:
    return [one + length * other for one, other in zip(point, move, strict=True)]


def _minus(point: Point, other: Point) -> Point:
    return [one - two for one, two in zip(point, other, strict=True)]


def _dot(one: Point, other: Point) -> float:
    return sum(float((a * b).sum()) for a, b in zip(one, other, strict=True))


def _norm(point: Point) -> float:
    return _dot(point, point) ** 0.5
