"""Verdicts on means over the seeds of the binding table, which prints no spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import mean, stdev

from mnemoscope.replication.claims import Claim
from mnemoscope.replication.means import FEWEST, measure_mean
from mnemoscope.replication.verdicts import Judgement, Obstacle, not_compared

ROUGHEST = 0.25
"""Largest share of a published mean that two standard errors of ours may have, for an agreement to count."""
PUBLISHED_SEEDS = 20
"""Number of seeds behind each published mean."""


def judge_undecided(claim: Claim, measured: Sequence[float]) -> Judgement | None:
    """Return the judgement that the seeds do not decide, if two means of seeds may well differ by that much."""
    if claim.agreement is None or len(measured) < 2:
        return None
    apart, reach = abs(mean(measured) - float(claim.value)), _reach(measured)
    if apart > reach:
        return None
    reason = f"the means differ by {apart:.2g}, less than two standard errors of their difference, {reach:.2g}"
    return not_compared(Obstacle.UNDECIDED, reason)


def _reach(measured: Sequence[float]) -> float:
    """Return two standard errors of the difference between our mean and the published one.

    The table prints no spread: that of its seeds is taken to be ours.
    """
    return 2 * stdev(measured) * sqrt(1 / len(measured) + 1 / PUBLISHED_SEEDS)


def judge_imprecise(claim: Claim, measured: Sequence[float]) -> Judgement | None:
    """Return the judgement that the seeds do not decide, if their mean agrees but is known too roughly."""
    found = measure_mean(measured)
    if len(measured) < FEWEST or found.reach <= ROUGHEST * abs(float(claim.value)):
        return None
    return not_compared(Obstacle.UNDECIDED, f"other seeds may give {found.low:.3g} to {found.high:.3g}")


def explain_by_threshold(claim: Claim, by_threshold: Mapping[float, Sequence[float]]) -> str:
    """Return that the trainings of one threshold agree with the table, where the better of both does not; or nothing.

    Among two thresholds that agree, the one with the nearer mean is named.
    """
    enough = {threshold: values for threshold, values in by_threshold.items() if len(values) >= FEWEST}
    gaps = {threshold: abs(mean(values) - float(claim.value)) for threshold, values in enough.items()}
    near = [
        threshold for threshold in sorted(gaps, key=gaps.__getitem__) if gaps[threshold] <= _reach(enough[threshold])
    ]
    if len(by_threshold) < 2 or not near:
        return ""
    values = enough[near[0]]
    return (
        f"the trainings whose stages end at {near[0]:g} alone have {mean(values):.2g} ± "
        f"{stdev(values) / sqrt(len(values)):.1g}: the table may lack the better ones"
    )
