"""Interval arithmetic with derivatives: ranges of a step and of its Jacobian over boxes of states.

Every operation rounds outwards, so that the exact range for the given weights lies inside. Sums and products are
widened by one unit in the last place, matrix products by the a-priori bound of their rounding errors, and tanh and the
logistic function, which torch computes to a few units in the last place, by `LIBRARY_ERROR` of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int

LIBRARY_ERROR = 8
"""Assumed largest error of torch's tanh and sigmoid in float64, in units in the last place."""
TINY = 1e-300
"""Widens intervals about 0, where relative bounds vanish."""
EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Interval:
    """Intervals [low, high], elementwise, in float64."""

    low: Float[Tensor, "*shape"]
    high: Float[Tensor, "*shape"]

    @classmethod
    def outward(cls, low: Tensor, high: Tensor) -> Interval:
        """Return the interval with both ends moved outwards by one unit in the last place."""
        return cls(
            torch.nextafter(low, torch.full_like(low, -torch.inf)),
            torch.nextafter(high, torch.full_like(high, torch.inf)),
        )

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval | Tensor | float) -> Interval:
        other = _as_interval(other, self.low)
        return Interval.outward(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval | Tensor | float) -> Interval:
        return self + -_as_interval(other, self.low)

    def __mul__(self, other: Interval | Tensor | float) -> Interval:
        other = _as_interval(other, self.low)
        a, b, c, d = self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high
        low, high = torch.minimum(torch.minimum(a, b), torch.minimum(c, d)), torch.maximum(a, b)
        return Interval.outward(low, torch.maximum(high, torch.maximum(c, d)))

    def left_multiplied(self, W: Float[Tensor, "*batch rows columns"]) -> Interval:
        """Return `W @ self` for exact matrices W and intervals (..., columns, k)."""
        positive, negative = W.clamp_min(0), W.clamp_max(0)
        size = W.abs() @ self.magnitude
        margin = 2 * (W.shape[-1] + 3) * EPS * size + TINY
        return Interval(
            positive @ self.low + negative @ self.high - margin, positive @ self.high + negative @ self.low + margin
        )

    def squared(self) -> Interval:
        """Return the range of x^2."""
        a, b = self.low.square(), self.high.square()
        around_zero = (self.low <= 0) & (self.high >= 0)
        square = Interval.outward(torch.minimum(a, b).masked_fill(around_zero, 0), torch.maximum(a, b))
        return Interval(square.low.clamp_min(0), square.high)

    def clamped(self, low: float, high: float) -> Interval:
        """Return the intersection with [low, high], which is known to contain the exact values."""
        return Interval(self.low.clamp(low, high), self.high.clamp(low, high))

    @property
    def middle(self) -> Float[Tensor, "*shape"]:
        """Midpoints, to rounding."""
        return 0.5 * (self.low + self.high)

    @property
    def magnitude(self) -> Float[Tensor, "*shape"]:
        """Largest absolute value in each interval."""
        return torch.maximum(self.low.abs(), self.high.abs())

    def select(self, rows: Tensor) -> Interval:
        """Return the intervals of some rows, given as a mask or as numbers."""
        return Interval(self.low[rows], self.high[rows])

    def rows(self, start: int, end: int) -> Interval:
        """Return the intervals of the rows from `start` to `end`."""
        return Interval(self.low[start:end], self.high[start:end])

    def unsqueeze(self, dim: int) -> Interval:
        """Return the intervals with one more dimension."""
        return Interval(self.low.unsqueeze(dim), self.high.unsqueeze(dim))


@dataclass(frozen=True)
class Enclosure:
    """Ranges of functions of a state, and of their derivatives, over boxes of states (boxes, size).

    Adding, multiplying and composing enclosures follows the sum, product and chain rules. At a kink the derivative
    ranges over the slopes on both sides, so that mean value forms hold there too.

    >>> box = Enclosure.of_box(torch.tensor([[-1.0]]).double(), torch.tensor([[2.0]]).double())
    >>> square = box * box
    >>> [round(end.item(), 6) for end in (square.slope.low, square.slope.high)]
    [-2.0, 4.0]
    """

    value: Interval
    """Ranges of the functions (boxes, functions)."""
    slope: Interval
    """Ranges of their derivatives (boxes, functions, size)."""

    @classmethod
    def of_box(cls, low: Float[Tensor, "boxes size"], high: Float[Tensor, "boxes size"]) -> Enclosure:
        """Return the enclosure of the coordinates themselves."""
        eye = torch.eye(low.shape[1], dtype=low.dtype, device=low.device).expand(*low.shape, low.shape[1])
        return cls(Interval(low, high), Interval(eye, eye))

    def constant(self, value: Float[Tensor, " functions"]) -> Enclosure:
        """Return exact constants over the same boxes."""
        boxes, size = self.slope.low.shape[0], self.slope.low.shape[2]
        value = value.expand(boxes, -1)
        zero = value.new_zeros(boxes, value.shape[1], size)
        return Enclosure(Interval(value, value), Interval(zero, zero))

    @classmethod
    def concatenate(cls, parts: list[Enclosure]) -> Enclosure:
        """Return the functions of all parts."""
        sides = [[getattr(getattr(part, kind), end) for part in parts] for kind in ("value", "slope") for end in _ENDS]
        value_low, value_high, slope_low, slope_high = (torch.cat(side, 1) for side in sides)
        return cls(Interval(value_low, value_high), Interval(slope_low, slope_high))

    def split(self, sizes: list[int]) -> list[Enclosure]:
        """Return groups of functions."""
        ends = (self.value.low, self.value.high, self.slope.low, self.slope.high)
        groups = zip(*(end.split(sizes, 1) for end in ends), strict=True)
        return [Enclosure(Interval(a, b), Interval(c, d)) for a, b, c, d in groups]

    def select(self, positions: Int[Tensor, " some"]) -> Enclosure:
        """Return some of the functions."""
        value = Interval(self.value.low[:, positions], self.value.high[:, positions])
        return Enclosure(value, Interval(self.slope.low[:, positions], self.slope.high[:, positions]))

    def __add__(self, other: Enclosure | Tensor) -> Enclosure:
        if isinstance(other, Tensor):
            return Enclosure(self.value + other, self.slope)
        return Enclosure(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Enclosure | float) -> Enclosure:
        if not isinstance(other, Enclosure):
            return Enclosure(self.value * other, self.slope * other)
        slope = self.slope * other.value.unsqueeze(2) + other.slope * self.value.unsqueeze(2)
        return Enclosure(self.value * other.value, slope)

    def linear(self, W: Float[Tensor, "rows functions"], *biases: Tensor | None) -> Enclosure:
        """Return `W y` plus the biases that are not None."""
        column = self.value.unsqueeze(2).left_multiplied(W)
        value = Interval(column.low.squeeze(2), column.high.squeeze(2))
        for bias in biases:
            value = value if bias is None else value + bias
        return Enclosure(value, self.slope.left_multiplied(W))

    def tanh(self) -> Enclosure:
        """Return tanh of the functions."""
        value = _monotone(torch.tanh, self.value).clamped(-1, 1)
        return self._composed(value, (-value.squared() + 1).clamped(0, 1))

    def sigmoid(self) -> Enclosure:
        """Return the logistic function of the functions."""
        value = _monotone(torch.sigmoid, self.value).clamped(0, 1)
        return self._composed(value, (-(value - 0.5).squared() + 0.25).clamped(0, 0.25))

    def relu(self) -> Enclosure:
        """Return the positive part of the functions."""
        value = Interval(self.value.low.clamp_min(0), self.value.high.clamp_min(0))
        return self._composed(value, Interval((self.value.low > 0).double(), (self.value.high >= 0).double()))

    def _composed(self, value: Interval, derivative: Interval) -> Enclosure:
        return Enclosure(value, self.slope * derivative.unsqueeze(2))


_ENDS = ("low", "high")


def _as_interval(number: Interval | Tensor | float, like: Tensor) -> Interval:
    if isinstance(number, Interval):
        return number
    exact = number if isinstance(number, Tensor) else like.new_tensor(number)
    return Interval(exact, exact)


def _monotone(function: Callable[[Tensor], Tensor], x: Interval) -> Interval:
    low, high = function(x.low), function(x.high)
    return Interval(low - LIBRARY_ERROR * EPS * low.abs() - TINY, high + LIBRARY_ERROR * EPS * high.abs() + TINY)
