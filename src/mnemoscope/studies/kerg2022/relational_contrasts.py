"""Measured differences between networks, and what they decide about a published statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from mnemoscope.replication.claims import LEARNED, Subject
from mnemoscope.replication.differences import Difference, measure_difference
from mnemoscope.replication.learning_study import finite
from mnemoscope.replication.study import Finished
from mnemoscope.replication.verdicts import UNKNOWN, Judgement, Obstacle, Verdict, not_compared
from mnemoscope.studies.kerg2022 import relational_reasons as reasons
from mnemoscope.studies.kerg2022.relational_claims import NO_WORSE, Contrast
from mnemoscope.studies.kerg2022.relational_reasons import percent

Accuracy = Callable[[Finished], float]
"""Accuracy of a run that a contrast is about."""
UNDECIDED_FOR = "the seeds do not decide it for"
"""Begin of the reason where nothing is known of some of several networks."""


class ContrastResult(NamedTuple):
    """Measured accuracies of both sides of a contrast."""

    first: float
    """Mean accuracy of the networks that are claimed to be better."""
    second: float
    """Mean accuracy of the other networks."""
    runs: list[Finished]
    """Runs that stayed finite."""
    gains: dict[str, Difference]
    """Difference of each pair, by the name of its first network, or by its task if all pairs have one network; without
    pairs, or if their mean is judged, the single difference."""
    pairs: dict[str, Difference]
    """Difference of each pair, also if their mean is judged."""
    diverged: int = 0
    """Number of further runs that diverged, and count as guesses."""

    @property
    def gain(self) -> float:
        """Difference of the mean accuracies."""
        return self.first - self.second


def measure(
    results: Sequence[Finished], contrast: Contrast, accuracy: Accuracy, together: int
) -> ContrastResult | None:
    """Return the measured accuracies of both sides of a contrast; None if networks are missing.

    Args:
        results: finished runs; one that diverged counts as a guess.
        contrast: the claim.
        accuracy: the accuracy of a run.
        together: number of differences that are tested together.

    """
    runs: dict[Subject, list[Finished]] = {}
    for run in results:
        runs.setdefault(run.trial.subject, []).append(run)
    sides = contrast.available(runs)
    tested = [run for side in sides or () for subject in side for run in runs[subject]]
    stable = finite(tested)
    if sides is None or not stable:
        return None
    chance = reasons.chance_accuracy(stable)
    ours, theirs = (
        [[accuracy(run) if "failed" not in run.result else chance for run in runs[subject]] for subject in side]
        for side in sides
    )
    pairs = {}
    if contrast.paired:
        names = [subject.network for subject in sides[0]]
        if len({*names}) < len(names):
            names = [subject.task for subject in sides[0]]
        pairs = {
            name: measure_difference([one], [other], together)
            for name, one, other in zip(names, ours, theirs, strict=True)
        }
    gains = pairs if contrast.by_pair else {"": measure_difference(ours, theirs, together)}
    means = mean(map(mean, ours)), mean(map(mean, theirs))
    return ContrastResult(*means, stable, gains, pairs, len(tested) - len(stable))


def describe(contrast: Contrast, measured: ContrastResult) -> str:
    """Return the differences, their standard errors and the numbers of seeds as text."""
    gains = measured.gains
    gain = str(next(iter(gains.values()))) if len(gains) == 1 else f"{100 * measured.gain:+.1f}"
    ours = f"{gain} points: {percent(measured.first)} against {percent(measured.second)}"
    if len(measured.pairs) > 1:
        ours += f" ({', '.join(f'{name} {each}' for name, each in measured.pairs.items())})"
    seeds = Counter(run.trial.subject for run in measured.runs)
    fewest, most = min(seeds.values()), max(seeds.values())
    if most > 1:
        ours += f"; {most} seeds" if fewest == most else f"; {fewest} to {most} seeds"
    missing = dict.fromkeys(each.network for each in (*contrast.first, *contrast.second) if each not in seeds)
    ours += f"; without {', '.join(missing)}" if missing else ""
    ours += f"; {measured.diverged} did not stay finite, and count as guesses" if measured.diverged else ""
    single = dict.fromkeys(subject.network for subject, number in seeds.items() if number == 1)
    return ours + (f"; one seed of {' and '.join(single)}" if single else "")


def judge(contrast: Contrast, measured: ContrastResult, accuracy: Accuracy) -> Judgement:
    """Return the verdict on the differences, beyond what other seeds would change, and its reason.

    A contrast is not compared if it decides nothing: neither side has learned the task, the second side leaves no room
    for a better one, or the seeds differ too much. A side has learned the task if it is well above chance; for a
    claim of no loss it must be halfway from chance to perfect, since networks that hardly learn lose little.
    """
    assert contrast.agreement is not None
    least, chance = contrast.agreement.low, reasons.chance_accuracy(measured.runs)
    learned = chance + (LEARNED if least > 0 else (1 - chance) / 2)
    if max(measured.first, measured.second) < learned:
        far = f"reaches {percent(learned)}, halfway from chance" if least <= 0 else "is much above chance"
        return not_compared(Obstacle.CHANCE, f"neither {far}, {percent(chance)}")
    if measured.second > 1 - least and NO_WORSE <= measured.gain < least:
        return not_compared(Obstacle.NO_ROOM)
    differing = [name for name, each in measured.gains.items() if each.judge(least).verdict is Verdict.DIFFERS]
    cause = contrast.reason or explain_pairs(contrast, measured, accuracy, differing)
    judgement = judge_pairs(measured.gains, least, cause)
    present = {run.trial.subject for run in measured.runs}
    missing = [pair[0] for pair in zip(contrast.first, contrast.second, strict=False) if not {*pair} <= present]
    if contrast.by_pair and missing and judgement.verdict in (Verdict.MATCHES, Verdict.IN_PART):
        return without_pairs(judgement, [subject.network for subject in missing], list(measured.gains))
    return judgement


def without_pairs(judgement: Judgement, missing: Sequence[str], present: Sequence[str]) -> Judgement:
    """Return the judgement of the pairs that were run for a claim that is also about others.

    Args:
        judgement: a match, or a match in part.
        missing: networks of the pairs that were not run.
        present: networks of the pairs that were run.

    >>> without_pairs(Judgement(Verdict.MATCHES), ["esbn"], ["corelnet", "corelnet-t"]).reason
    'the seeds do not decide it for esbn, which was not run; corelnet and corelnet-t match'

    """
    reason = f"{UNDECIDED_FOR} {' and '.join(missing)}, which {'was' if len(missing) == 1 else 'were'} not run"
    if judgement.matching is None:
        return not_compared(Obstacle.UNDECIDED, f"{reason}; {matches(present)}")
    reason = "; ".join(filter(None, (judgement.reason, reason)))
    return Judgement(Verdict.IN_PART, reason, (judgement.matching[0], judgement.matching[1] + len(missing)))


def matches(networks: Sequence[str]) -> str:
    """Return that these networks match.

    >>> matches(["esbn"]), matches(["esbn", "lstm"])
    ('esbn matches', 'esbn and lstm match')

    """
    return f"{' and '.join(networks)} {'matches' if len(networks) == 1 else 'match'}"


def explain_pairs(contrast: Contrast, measured: ContrastResult, accuracy: Accuracy, names: Sequence[str]) -> str:
    """Return why the differences of these pairs are too small; empty if that is unknown.

    Args:
        contrast: the contrast.
        measured: its measured accuracies.
        accuracy: the accuracy of a run.
        names: names of the pairs in `measured.gains`.

    """
    assert contrast.agreement is not None
    pairs = list(zip(contrast.first, contrast.second, strict=True)) if contrast.by_pair else []
    causes = []
    for name in names:
        chosen = [pair for pair in pairs if name in (pair[0].network, pair[0].task)]
        sides = zip(*chosen, strict=True) if chosen else (contrast.first, contrast.second)
        first, second = ([run for run in measured.runs if run.trial.subject in side] for side in sides)
        if first and second:
            gain = measured.gains[name].gain
            causes.append(reasons.explain_contrast(first, second, accuracy, gain, contrast.agreement.low))
        else:
            causes.append("training did not stay finite")
    return "; ".join(dict.fromkeys(causes)) if all(causes) else ""


def judge_pairs(gains: Mapping[str, Difference], least: float, cause: str = "") -> Judgement:
    """Judge the differences of all pairs of networks together.

    Args:
        gains: the differences, by the name of the first network.
        least: difference from which the first network is better, or no worse.
        cause: why some differences are too small; empty if that is unknown.

    """
    judgements = {network: each.judge(least) for network, each in gains.items()}
    by_verdict = {
        verdict: [name for name, each in judgements.items() if each.verdict is verdict] for verdict in Verdict
    }
    matching = by_verdict[Verdict.MATCHES]
    if matching and len(matching) < len(judgements):
        differing, undecided = (by_verdict[verdict] for verdict in (Verdict.DIFFERS, Verdict.NOT_COMPARED))
        open_for = f"{UNDECIDED_FOR} {' and '.join(undecided)}" if undecided else ""
        if not differing:
            return not_compared(Obstacle.UNDECIDED, f"{open_for}; {matches(matching)}")
        parts = [f"not so for {' and '.join(differing)} ({cause or UNKNOWN})", open_for]
        return Judgement(Verdict.IN_PART, "; ".join(filter(None, parts)), (len(matching), len(judgements)))
    if by_verdict[Verdict.DIFFERS]:
        return Judgement(Verdict.DIFFERS, cause)
    return next(iter(judgements.values()))
