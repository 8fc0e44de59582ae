"""Claims about relational networks: accuracies, and contrasts of networks with others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import Agreement, as_printed, at_least, chosen
from mnemoscope.replication.claims import Claim, Subject, about
from mnemoscope.replication.means import measure_mean
from mnemoscope.replication.verdicts import Judgement, Obstacle, Verdict, not_compared
from mnemoscope.studies.kerg2022.relational_grid import network_on
from mnemoscope.studies.kerg2022.relational_reasons import LEARNED

PROTOTYPE = Source("mnemoscope", "an earlier prototype of these networks, not published")
UNSEEN_SHAPES = ("unseen shapes", "seen shapes")
"""Name of the accuracy on the test shapes, and its name if no shapes are held out."""
NEAR_PERFECT = at_least(0.98, "our reading of 'near perfect': at most one problem in 50 wrong", of_mean=True)
VERY_GOOD = at_least(0.95, "our reading of 'very good': at most one problem in 20 wrong", of_mean=True)
NOT_LEARNED = 0.02
"""Largest distance from a guess, two points, at which a network has not learned a task."""
BETTER = 0.01
"""Smallest difference that counts as better: one point."""
NO_WORSE = -0.02
"""Smallest difference that counts as no worse: two points down."""
DRIFTS = "its encoder maps unseen shapes closer together; a fixed random encoder solves it (relational-cognitive)"
"""Why CoRelNet misses identity rules."""
NO_NUMBERS = "a figure without numbers"
"""Why the published result cannot be compared."""
CURVES, BARS = "curves without numbers, read as: ", "bars without numbers, read as: "
"""Beginnings of statements that we read off a figure."""
SIMPLE = "a simple decoder outperforms more complex architectures"
"""Claim about CoRelNet against ESBN and CoRelNet-T."""
BASELINES = f"{BARS}further baselines do not reach CoRelNet"
"""Claim about CoRelNet against networks that only Fig 13 of C.8 shows."""


@dataclass(frozen=True)
class Reported(Claim):
    """A published accuracy with its mean, which the figure shows."""

    mean: float | None = None


def reported(
    subject: Subject, quantity: str, percent: float, deviation: float, source: Source, chance: float | None = None
) -> Reported:
    """Return the claim for a mean and its standard deviation over seeds, in percent.

    The mean over our seeds matches within one deviation. If the published mean is at most two points from a guess,
    `chance`, the network has not learned the task, and a mean within two points of a guess matches too.

    >>> reported(network_on("corelnet", "same"), "hexominoes", 94.7, 5.4, Source("kerg2022thesis", "Table 1")).value
    '94.7% ± 5.4'
    """
    near = as_printed(f"{percent}%", spread=deviation, low=0.0, high=1.0)
    value = f"{percent}% ± {deviation}"
    mean = percent / 100
    if chance is not None and abs(mean - chance) <= NOT_LEARNED:
        ends = min(near.low, chance - NOT_LEARNED), max(near.high, chance + NOT_LEARNED)
        near = chosen(*ends, "not learned: the published spread, and two points around a guess", of_mean=True)
    return Reported(subject, quantity, value, source, near, better="higher", chance=chance, mean=mean)


def difference_of(least: float) -> Agreement:
    """Return the range of differences that count as better (least above 0) or as no worse."""
    wording = "our reading of 'better': one point" if least > 0 else "our reading of 'no worse': two points down"
    return at_least(least, f"{wording}, and beyond two standard errors of the seeds (Welch, Bonferroni)")


def judge_accuracy(claim: Claim, accuracies: Sequence[float], learner: bool) -> Judgement:
    """Judge the mean over the seeds, as far as they decide it; see `SeedMean.judge`.

    If the accuracy of a guess lies in the published range, a mean near that accuracy decides nothing. It does agree
    if the published network only guessed too, and ours is a `learner`: a network that has learned another task.
    """
    assert claim.agreement is not None
    measured, chance = measure_mean(accuracies), claim.chance
    judgement = measured.judge(claim.agreement, claim.better)
    if chance is None:
        return judgement
    published = claim.mean if isinstance(claim, Reported) and claim.mean is not None else claim.agreement.low
    if judgement.verdict is Verdict.MATCHES:
        guessed = chance in claim.agreement and measured.low <= chance <= measured.high
        if not guessed or (learner and abs(published - chance) <= NOT_LEARNED):
            return judgement
        return not_compared(Obstacle.CHANCE, f"a guess, {chance:.3g}, is in the range {claim.agreement}")
    if max(published, measured.value) < chance + LEARNED:
        return not_compared(Obstacle.CHANCE, f"neither is much above chance, {100 * chance:.1f}%")
    return judgement


@dataclass(frozen=True)
class Contrast(Claim):
    """The claim that some networks are better than others, or no worse.

    Its agreement is the smallest difference between the mean accuracies of both sides (1 is 100 points) that counts;
    the difference must also be beyond what other seeds would change (`replication.differences`).
    """

    first: tuple[Subject, ...] = ()
    """Networks that are claimed to be better, or no worse."""
    second: tuple[Subject, ...] = ()
    paired: bool = False
    """Whether each network is compared with one of the other side; then some pairs may be missing."""

    def available(self, subjects: Collection[Subject]) -> tuple[tuple[Subject, ...], tuple[Subject, ...]] | None:
        """Return both sides if all their networks are among the subjects, or the complete pairs; None without any."""
        if not self.paired:
            return (self.first, self.second) if {*self.first, *self.second} <= {*subjects} else None
        pairs = [pair for pair in zip(self.first, self.second, strict=True) if {*pair} <= {*subjects}]
        return (tuple(first for first, _ in pairs), tuple(second for _, second in pairs)) if pairs else None


def make_contrast(
    statement: str,
    source: Source,
    task: str,
    first: Sequence[str],
    second: Sequence[str],
    least: float = BETTER,
    *,
    m: int | None = None,
    paired: bool = False,
    reason: str = "",
) -> Contrast:
    """Return the contrast for a statement about networks against others on a task, with m shapes held out.

    >>> make_contrast("outperforms", Source("kerg2022thesis", "Fig 5"), "RMTS3", ["corelnet"], ["esbn"]).name
    'RMTS3, m 94: corelnet against esbn'
    """
    quantity = f"{' + '.join(first)} against {' + '.join(second)}"
    ours, theirs = (tuple(network_on(network, task, m) for network in side) for side in (first, second))
    return Contrast(
        network_on("", task, m),
        quantity,
        statement,
        source,
        difference_of(least),
        reason=reason,
        first=ours,
        second=theirs,
        paired=paired,
    )


def over_m(statement: str, source: Source, task: str, networks: Sequence[str], *, falls: bool) -> Contrast:
    """Return the contrast for a statement about networks as more shapes are held out: they lose accuracy or keep it.

    >>> over_m("kept", Source("kerg2022thesis", "Fig 6"), "RMTS", ["corelnet"], falls=False).name
    'RMTS: corelnet, m 95 against m 0'
    """
    none, most = (tuple(network_on(network, task, m) for network in networks) for m in (0, None))
    first, second = (none, most) if falls else (most, none)
    quantity = f"{' + '.join(networks)}, m {first[0]['m']} against m {second[0]['m']}"
    least = difference_of(BETTER if falls else NO_WORSE)
    return Contrast(about("", task), quantity, statement, source, least, first=first, second=second, paired=True)
