"""Ranges of measured values that agree with a published one, and how they were chosen."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import inf, isinf

LAST_DIGIT = "one unit of the last printed digit"
PUBLISHED_SPREAD = "the published spread"
COUNT = "the printed count"


@dataclass(frozen=True)
class Agreement:
    """Range of measured values that agree with a claim.

    >>> print(as_printed("0.96"), "|", chosen(0.98, 1, "our reading of 'solved'"), "|", at_most(1, "an inequality"))
    0.95 to 0.97 | 0.98 to 1 | at most 1
    """

    low: float
    high: float
    chosen: str
    """How the range was chosen."""
    of_mean: bool = False
    """Whether the mean over the seeds must be in the range, as for a published mean, instead of every network."""

    def __post_init__(self) -> None:
        if not self.low <= self.high or not self.chosen:
            raise ValueError(f"A range needs low <= high and how it was chosen, but {self!r} was given.")

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:g}"
        if isinf(self.high):
            return "any value" if isinf(self.low) else f"at least {self.low:g}"
        return f"at most {self.high:g}" if isinf(self.low) else f"{self.low:g} to {self.high:g}"


def chosen(low: float, high: float, how: str, *, of_mean: bool = False) -> Agreement:
    """Return a range that the study has chosen; `how` says why it ends where it does."""
    return Agreement(low, high, how, of_mean)


def exactly(count: float, how: str = COUNT) -> Agreement:
    """Return the range of a count, which every network must have."""
    return Agreement(count, count, how)


def at_most(bound: float, how: str, *, of_mean: bool = False) -> Agreement:
    """Return all values up to a bound."""
    return Agreement(-inf, bound, how, of_mean)


def at_least(bound: float, how: str, *, of_mean: bool = False) -> Agreement:
    """Return all values from a bound on."""
    return Agreement(bound, inf, how, of_mean)


def as_printed(number: str, spread: float | None = None, *, low: float = -inf, high: float = inf) -> Agreement:
    """Return the range around a printed mean: the published spread, or one unit of its last digit if that is larger.

    Args:
        number: the printed number, such as "1.47" or "96.6%"; a percentage becomes a share.
        spread: published deviation or standard error, in the unit of the number.
        low: lowest possible value of the quantity.
        high: highest possible value of the quantity.

    >>> print(as_printed("96.6%"), "|", as_printed("94.7%", spread=5.4, high=1.0))
    0.965 to 0.967 | 0.893 to 1

    """
    digits, percent = number.rstrip("%"), number.endswith("%")
    exponent = Decimal(digits).as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{number!r} is no number with a last digit.")
    unit = Decimal(1).scaleb(exponent)
    wider = spread is not None and Decimal(str(spread)) > unit
    off = Decimal(str(spread)) if wider else unit
    scale = Decimal("0.01") if percent else Decimal(1)
    ends = (Decimal(digits) - off) * scale, (Decimal(digits) + off) * scale
    how = PUBLISHED_SPREAD if wider else LAST_DIGIT
    return Agreement(max(low, float(ends[0])), min(high, float(ends[1])), how, of_mean=True)
