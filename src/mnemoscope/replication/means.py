"""The rule by which means over seeds agree with a published value; docs/verdicts.md explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import inf, sqrt
from statistics import NormalDist, mean, stdev
from typing import Literal

from mnemoscope.replication.agreement import SHARE, Agreement
from mnemoscope.replication.verdicts import Judgement, Obstacle, Verdict, not_compared

ENOUGH = 5
"""Networks whose mean decides, if the source has more or does not state how many it has."""
FEWEST = 3
"""Networks from which their scatter is estimated."""
TWO_ERRORS = 1 - NormalDist().cdf(2.0)
"""Probability that a normal number lies more than two standard errors above its mean: 2.3%, 4.6% for both sides."""


def judge_mean(
    agreement: Agreement,
    values: Sequence[float],
    better: Literal["higher", "lower"] | None = None,
) -> Judgement:
    """Judge the mean of values, one per network, or the best of as many as the source has (`expected`).

    1. It differs if it is outside of the range of agreement, and further from the published value than the scatter of
       the seeds on both sides allows (`differs`).
    2. Otherwise it decides if it is the mean of enough networks: as many as the source has, or `ENOUGH`. In the range
       it matches; outside it is compatible.
    3. Fewer networks match if their interval (`mean_interval`) is in the range, and decide nothing otherwise.

    Args:
        agreement: the range of agreement, and what the source states about its seeds.
        values: the measured values, at least one.
        better: the better side of the range, if there is one.

    >>> from mnemoscope.replication.agreement import as_printed
    >>> published = as_printed("60.9%", deviation=18.0, seeds=10, low=0.0, high=1.0)
    >>> judge_mean(published, [0.6, 0.65, 0.55, 0.62, 0.58]).verdict.value
    'matches'
    >>> judge_mean(published, [0.495, 0.901, 0.5]).reason
    '3 of 5 networks; others may give 2.3% to 100.0%'

    """
    value = expected(agreement, values)
    inside = value in agreement
    if differs(agreement, values):
        if better is None:
            return Judgement(Verdict.DIFFERS)
        higher = value > agreement.high
        return Judgement(Verdict.BETTER if higher == (better == "higher") else Verdict.WORSE)
    if len(values) >= (needed := networks_needed(agreement)):
        return Judgement(Verdict.MATCHES if inside else Verdict.COMPATIBLE)
    low, high = mean_interval(values, agreement.limits)
    if inside and low in agreement and high in agreement and not agreement.best:
        return Judgement(Verdict.MATCHES)
    if len(values) < FEWEST:
        where = "in the range" if inside else "above the range" if value > agreement.high else "below the range"
        networks = "one network" if len(values) == 1 else "two networks"
        return not_compared(Obstacle.TOO_FEW, f"{networks} of {needed}, {where}")
    if agreement.best:
        return not_compared(Obstacle.TOO_FEW, f"the best of {len(values)} networks, and not of {needed}")
    in_percent = agreement.limits == SHARE
    low_text, high_text = (f"{100 * end:.1f}%" if in_percent else f"{end:.3g}" for end in (low, high))
    return not_compared(
        Obstacle.UNDECIDED, f"{len(values)} of {needed} networks; others may give {low_text} to {high_text}"
    )


def expected(agreement: Agreement, values: Sequence[float]) -> float:
    """Return the mean of the values, or if the source has the best of k networks, the mean best of any k of ours.

    >>> from mnemoscope.replication.agreement import as_printed
    >>> expected(as_printed("0.971", seeds=2, best=True), [0.9, 0.5, 0.7])
    0.8333333333333334
    """
    if not agreement.best or agreement.seeds is None:
        return mean(values)
    return mean(max(chosen) for chosen in combinations(values, min(agreement.seeds, len(values))))


def networks_needed(agreement: Agreement) -> int:
    """Return how many networks decide: as many as the source has, of a mean at most `ENOUGH`.

    The best of fewer networks than the source has is worse on average, so that it is not compared.
    """
    if agreement.seeds is None:
        return ENOUGH
    return agreement.seeds if agreement.best else min(agreement.seeds, ENOUGH)


def mean_interval(values: Sequence[float], limits: tuple[float, float] = (-inf, inf)) -> tuple[float, float]:
    """Return Student's interval of the mean with the probability of two standard errors, 95%, within the limits.

    For fewer than three networks it has no ends but the limits, which are the least and the largest possible value.

    >>> [round(end, 3) for end in mean_interval([0.9, 0.92, 0.94])]
    [0.868, 0.972]
    """
    if len(values) < FEWEST:
        return limits
    value, reach = mean(values), t_reach(len(values) - 1) * stdev(values) / sqrt(len(values))
    return max(limits[0], value - reach), min(limits[1], value + reach)


def differs(agreement: Agreement, values: Sequence[float]) -> bool:
    """Whether a mean is outside of the range of agreement by more than the scatter of the seeds explains.

    Either the means differ by more than Welch's t test allows (`scatter_reach`); or, since a few networks that fail
    may stretch the scatter, each of at least five networks is outside of the range and of the interval of the published
    mean, on the same side. If half of all networks were on either side, five would be on one side in 6% of cases.
    The best of fewer networks than the source has never differs.
    """
    value = expected(agreement, values)
    if value in agreement or (agreement.best and len(values) < networks_needed(agreement)):
        return False
    high = value > agreement.high
    end = agreement.high if high else agreement.low
    published = end if agreement.published is None else agreement.published
    if abs(value - published) > scatter_reach(agreement, values):
        return True
    if agreement.error is None or len(values) < ENOUGH:
        return False
    reach = max(abs(end - published), t_reach(_degrees(agreement)) * agreement.error)
    return min(values) > published + reach if high else max(values) < published - reach


def scatter_reach(agreement: Agreement, values: Sequence[float]) -> float:
    """Return the largest difference of the two means that the scatter of the seeds explains, by Welch's t test.

    A side whose scatter is unknown is taken to scatter like the other: fewer than three networks of ours, unless they
    are further apart, and a source that states no spread. A source scatters by at least one unit of its last digit,
    and if it states neither a spread nor how many networks it has, it has one. The reach is infinite if the scatter of
    both sides is unknown.

    The best of k networks scatters by `best_scatter(k)` of their standard deviation, and n networks contain n / k of
    them: the reach of a mean is multiplied by `sqrt(k)` times this number.
    """
    if agreement.best and agreement.seeds is not None:
        return (
            sqrt(agreement.seeds)
            * best_scatter(agreement.seeds)
            * scatter_reach(replace(agreement, best=False), values)
        )
    number, published = len(values), agreement.seeds or 1
    ours = stdev(values) if number > 1 else 0.0
    if number < FEWEST:
        if agreement.deviation is None:
            return inf
        deviation = max(ours, agreement.deviation, agreement.unit)
        return t_reach(_degrees(agreement)) * deviation * sqrt(1 / number + 1 / published)
    if agreement.error is None:
        return t_reach(number - 1) * sqrt(ours**2 / number + max(ours, agreement.unit) ** 2 / published)
    first, second = ours**2 / number, max(agreement.error, agreement.unit / sqrt(published)) ** 2
    freedom = (first + second) ** 2 / (first**2 / (number - 1) + second**2 / _degrees(agreement))
    return t_reach(freedom) * sqrt(first + second)


def _degrees(agreement: Agreement) -> int:
    """Return the degrees of freedom of the published spread: that of two networks if their number is not stated."""
    return 1 if agreement.seeds is None else agreement.seeds - 1


@cache
def best_scatter(number: int) -> float:
    """Return the standard deviation of the largest of several independent standard normal numbers.

    >>> round(best_scatter(1), 3), round(best_scatter(3), 3)
    (1.0, 0.748)
    """
    from scipy.integrate import quad
    from scipy.stats import norm

    first, second = (
        quad(lambda x, power=power: x**power * number * norm.pdf(x) * norm.cdf(x) ** (number - 1), -9, 9)[0]
        for power in (1, 2)
    )
    return sqrt(second - first**2)


@cache
def t_reach(freedom: float, comparisons: int = 1) -> float:
    """Return the standard errors to each side of Student's interval; two for many degrees of freedom.

    Of several comparisons together, the probability that one is outside by chance stays that of one (Bonferroni).
    """
    from scipy.stats import t  # takes a third of a second

    return float(t.isf(TWO_ERRORS / comparisons, freedom))
