"""Reasons, read from the runs, why an accuracy on unseen shapes differs from the published one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from statistics import mean, median

from mnemoscope.replication.agreement import Agreement
from mnemoscope.replication.claims import LEARNED
from mnemoscope.replication.study import Finished
from mnemoscope.replication.verdicts import UNKNOWN

KEPT = 0.98
"""Lowest accuracy on training shapes for a loss on unseen shapes to count as drift; below it, the network unlearns."""
WINDOW = 5
"""Evaluations in the running median, which ignores a single outlier."""


def explain_difference(
    trials: Sequence[Finished],
    accuracies: Sequence[float],
    agreement: Agreement,
    published: float,
    has_curves: bool,
) -> str:
    """Return why the mean accuracy over the seeds is outside the range of agreement; empty if unknown.

    Args:
        trials: the runs, one per seed.
        accuracies: the tested accuracy of each run.
        agreement: accuracies that match the claim.
        published: the published mean, or the end of the range that stands for it.
        has_curves: whether the learning curves of the runs show the tested accuracy.

    """
    chance, lost = chance_accuracy(trials), mean_drift(trials) if has_curves else 0.0
    matching = sum(accuracy in agreement for accuracy in accuracies)
    if max(published, mean(accuracies)) < chance + LEARNED:
        return f"neither is much above chance, {percent(chance)}"
    if mean(accuracies) < agreement.low <= mean(accuracies) + lost:
        return f"drift; at its best it had {100 * lost:.1f} points more"
    parts = []
    if matching:
        within = f"{matching} of {len(accuracies)} {'is' if matching == 1 else 'are'} within the range"
        parts = [f"seeds vary; {within}"]
    elif len(accuracies) == 1:
        parts = ["one seed"]
    if mean(accuracies) < agreement.low:
        parts += _refuted(trials, agreement, has_curves)
    return "; ".join([UNKNOWN, *parts]) if parts else ""


def _refuted(trials: Sequence[Finished], agreement: Agreement, has_curves: bool) -> list[str]:
    """Return which causes of a low accuracy the runs refute: another choice of the evaluation, or of the objects."""
    best = mean(max(run.result["curve"]["accuracy"]) for run in trials) if has_curves else agreement.low
    seen = mean(run.result["validation"] for run in trials)
    parts = [f"the best evaluation of each network has only {percent(best)}"] if best < agreement.low else []
    return parts + ([f"training objects have only {percent(seen)}"] if seen < agreement.low else [])


def explain_contrast(
    better: Sequence[Finished],
    worse: Sequence[Finished],
    accuracy: Callable[[Finished], float],
    difference: float,
    low: float,
) -> str:
    """Return why the difference of two sides, in the accuracy of their runs, is below `low`; empty if unknown."""
    chance = chance_accuracy(better)
    if mean(map(accuracy, better)) < chance + LEARNED:
        return f"the first is hardly above chance, {percent(chance)}"
    lost = mean_drift(better) - mean_drift(worse)
    if difference < low <= difference + lost:
        return f"drift; at its best the first had {100 * lost:.1f} points more"
    return ""


def chance_accuracy(trials: Sequence[Finished]) -> float:
    """Return the accuracy of a guess, from the baseline losses; the highest if the trials have several tasks."""
    return max(exp(-run.result["baseline"]) for run in trials)


def drift(run: Finished) -> float:
    """Return the accuracy on unseen shapes lost from the best evaluation to the last one."""
    return max(run.result["curve"]["accuracy"]) - run.result["curve"]["accuracy"][-1]


def mean_drift(trials: Sequence[Finished]) -> float:
    """Return the accuracy on unseen shapes lost from the best running median to the last one, in the mean over trials.

    It is 0 for networks that have also lost accuracy on the training shapes.
    """
    if mean(run.result["validation"] for run in trials) < KEPT:
        return 0.0
    return mean(max(smooth) - smooth[-1] for smooth in (_medians(run.result["curve"]["accuracy"]) for run in trials))


def _medians(curve: Sequence[float]) -> list[float]:
    """Return the running median over `WINDOW` evaluations."""
    return [median(curve[end - WINDOW : end]) for end in range(min(WINDOW, len(curve)), len(curve) + 1)]


def percent(accuracy: float) -> str:
    """Return an accuracy in percent, with one decimal.

    >>> percent(0.98765)
    '98.8%'
    """
    return f"{100 * accuracy:.1f}%"
