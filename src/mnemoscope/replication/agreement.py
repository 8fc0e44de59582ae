"""Ranges of measured values that agree with a published one, and how they were chosen."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import inf, isinf, sqrt

LAST_DIGIT = "one unit of the last printed digit"
PUBLISHED_SPREAD = "the published spread"
COUNT = "the printed count"
WHOLE = 1e9
"""Whole numbers below it are printed with all their digits."""
SHARE = (0.0, 1.0)
"""Lowest and highest value of a share, such as an accuracy."""


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
    seeds: int | None = None
    """Number of networks behind the published value; None if the source does not state it."""
    published: float | None = None
    """Published mean; None if the source states a range or only words."""
    error: float | None = None
    """Published standard error of the mean; None if the source does not state its spread."""
    unit: float = 0.0
    """One unit of the last printed digit."""
    limits: tuple[float, float] = (-inf, inf)
    """Lowest and highest possible value of the quantity."""
    best: bool = False
    """Whether the published value is that of the best of `seeds` networks, and not their mean."""

    def __post_init__(self) -> None:
        if not self.low <= self.high or not self.chosen:
            raise ValueError(f"A range needs low <= high and how it was chosen, but {self!r} was given.")
        if self.best and (self.seeds is None or not self.of_mean):
            raise ValueError(f"The best of several networks needs their number and `of_mean`, but {self!r} was given.")

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def deviation(self) -> float | None:
        """Published standard deviation of the networks; None if the source does not state it."""
        return None if self.error is None or self.seeds is None else self.error * sqrt(self.seeds)

    def __str__(self) -> str:
        low, high = _as_text(self.low), _as_text(self.high)
        if self.low == self.high:
            return low
        if isinf(self.high):
            return "any value" if isinf(self.low) else f"at least {low}"
        return f"at most {high}" if isinf(self.low) else f"{low} to {high}"


def _as_text(end: float) -> str:
    """Return an end of a range with six digits; whole numbers keep all of them, as counts of parameters need.

    >>> _as_text(1_910_760.0), _as_text(0.1 + 0.2)
    ('1910760', '0.3')
    """
    return str(int(end)) if abs(end) < WHOLE and end == int(end) else f"{end:g}"


def chosen(low: float, high: float, how: str, *, of_mean: bool = False, seeds: int | None = None) -> Agreement:
    """Return a range that the study has chosen; `how` says why it ends where it does."""
    return Agreement(low, high, how, of_mean, seeds)


def exactly(count: float, how: str = COUNT) -> Agreement:
    """Return the range of a count, which every network must have."""
    return Agreement(count, count, how)


def at_most(bound: float, how: str, *, of_mean: bool = False, seeds: int | None = None) -> Agreement:
    """Return all values up to a bound."""
    return Agreement(-inf, bound, how, of_mean, seeds)


def at_least(bound: float, how: str) -> Agreement:
    """Return all values from a bound on."""
    return Agreement(bound, inf, how)


def mean_share(least: float, how: str, seeds: int | None = None) -> Agreement:
    """Return all mean accuracies, or other shares, from a bound on; `seeds` is their number in the source."""
    return Agreement(least, inf, how, of_mean=True, seeds=seeds, limits=SHARE)


def as_printed(
    number: str,
    *,
    deviation: float | None = None,
    error: float | None = None,
    seeds: int | None = None,
    low: float = -inf,
    high: float = inf,
    best: bool = False,
) -> Agreement:
    """Return the range around a printed mean: the published spread, or one unit of its last digit if that is larger.

    Args:
        number: the printed number, such as "1.47" or "96.6%"; a percentage becomes a share.
        deviation: published standard deviation of the networks, in the unit of the number; it needs `seeds`.
        error: published standard error of the mean, in the unit of the number, if no deviation is published.
        seeds: number of networks behind the number, if the source states it.
        low: lowest possible value of the quantity.
        high: highest possible value of the quantity.
        best: whether the number is that of the best of `seeds` networks.

    >>> print(as_printed("96.6%"), "|", as_printed("94.7%", deviation=5.4, seeds=10, high=1.0))
    0.965 to 0.967 | 0.893 to 1

    """
    digits, percent = number.rstrip("%"), number.endswith("%")
    exponent = Decimal(digits).as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{number!r} is no number with a last digit.")
    unit, scale = Decimal(1).scaleb(exponent), Decimal("0.01") if percent else Decimal(1)
    spread = deviation if error is None else error
    wider = spread is not None and Decimal(str(spread)) > unit
    off = Decimal(str(spread)) if wider else unit
    ends = (Decimal(digits) - off) * scale, (Decimal(digits) + off) * scale
    if deviation is not None:
        if seeds is None:
            raise ValueError(f"The deviation of {number} needs the number of seeds.")
        error = deviation / sqrt(seeds)
    return Agreement(
        max(low, float(ends[0])),
        min(high, float(ends[1])),
        PUBLISHED_SPREAD if wider else LAST_DIGIT,
        of_mean=True,
        seeds=seeds,
        published=float(Decimal(digits) * scale),
        error=None if error is None else error * float(scale),
        unit=float(unit * scale),
        limits=(low, high),
        best=best,
    )
