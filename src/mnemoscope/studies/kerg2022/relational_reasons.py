"""Why an accuracy on unseen shapes is not as published, where the runs themselves tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp
from statistics import mean, median

from mnemoscope.replication.study import Finished

LEARNED = 0.1
"""Accuracy above chance up to which little is learned."""
KEPT = 0.98
"""Accuracy on what was trained with which a network must still have to drift: otherwise it unlearns."""
WINDOW = 5
"""Evaluations of which the median counts, so that one that is better or worse by chance does not."""


def why_not(
    trials: Sequence[Finished], found: Sequence[float], agreeing: tuple[float, float], told: float, watched: bool
) -> str:
    """Why the mean of what seeds have found is not within what agrees; empty where it is not known.

    Args:
        trials: the runs of the seeds.
        found: their accuracies.
        agreeing: lowest and highest that agrees.
        told: the published mean, or what is nearest to it.
        watched: whether the curves of the runs are of what these accuracies are of.

    """
    low, high = agreeing
    chance, lost = chance_of(trials), drifted(trials) if watched else 0.0
    among = sum(low <= each <= high for each in found)
    if max(told, mean(found)) < chance + LEARNED:
        return f"neither is much above chance, {percent(chance)}"
    if mean(found) < low <= mean(found) + lost:
        return f"drift; at its best it had {100 * lost:.1f} points more"
    if among:
        return f"seeds vary; {among} of {len(found)} {'is' if among == 1 else 'are'} within what agrees"
    return "not known; one seed" if len(found) == 1 else ""


def why_not_better(
    better: Sequence[Finished], worse: Sequence[Finished], tested: str, difference: float, low: float
) -> str:
    """Why the difference of two sides, in the accuracy `tested`, is below `low`; empty where it is not known."""
    chance = chance_of(better)
    first, second = ([one.result[tested] for one in side] for side in (better, worse))
    if mean(first) < chance + LEARNED:
        return f"the first is hardly above chance, {percent(chance)}"
    lost = drifted(better) - drifted(worse)
    if difference < low <= difference + lost:
        return f"drift; at its best the first had {100 * lost:.1f} points more"
    seeds = Counter(one.trial.name for one in (*better, *worse))
    if min(seeds.values()) == 1:
        return "not known; one seed"
    if len(seeds) == len((first, second)) and max(first) - mean(second) >= low:  # one condition against another
        those, these = (f"{percent(min(side))} to {percent(max(side))}" for side in (first, second))
        return f"seeds vary; the first is at {those}, the second at {these}"
    return ""


def chance_of(trials: Sequence[Finished]) -> float:
    """Accuracy of a guess."""
    return exp(-trials[0].result["baseline"])


def drift(one: Finished) -> float:
    """How much accuracy a network had at its best evaluation on unseen shapes, more than at its last one."""
    return max(one.result["curve"]["accuracy"]) - one.result["curve"]["accuracy"][-1]


def drifted(trials: Sequence[Finished]) -> float:
    """How much more accuracy on unseen shapes networks had at their best for a while than in the end, in the mean; 0
    where they have not kept what they were trained with.
    """
    if mean(one.result["validation"] for one in trials) < KEPT:
        return 0.0
    return mean(max(smooth) - smooth[-1] for smooth in (_medians(one.result["curve"]["accuracy"]) for one in trials))


def _medians(curve: Sequence[float]) -> list[float]:
    """Of as many evaluations as a window has, one window after the other."""
    return [median(curve[end - WINDOW : end]) for end in range(min(WINDOW, len(curve)), len(curve) + 1)]


def percent(accuracy: float) -> str:
    """One digit behind the point.

    >>> percent(0.98765)
    '98.8%'
    """
    return f"{100 * accuracy:.1f}%"
