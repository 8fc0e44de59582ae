"""Claims about relational networks: accuracies, and contrasts of networks with others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import Agreement, as_printed, at_least, mean_share
from mnemoscope.replication.claims import NOT_LEARNED, Claim, Subject, about
from mnemoscope.studies.kerg2022.relational_grid import network_on

PROTOTYPE = Source("mnemoscope", "an earlier prototype of these networks, not published")
UNSEEN_SHAPES = ("unseen shapes", "seen shapes")
"""Name of the accuracy on the test shapes, and its name if no shapes are held out."""
SEEDS = 10
"""Seeds of every accuracy in chapter 5 and its appendix (C.1 Table 1)."""
NEAR_PERFECT = mean_share(0.98, "our reading of 'near perfect': at most one problem in 50 wrong", SEEDS)
VERY_GOOD = mean_share(0.95, "our reading of 'very good': at most one problem in 20 wrong", SEEDS)
BETTER = 0.01
"""Smallest difference that counts as better: one point."""
NO_WORSE = -0.02
"""Smallest difference that counts as no worse: two points down."""
CURVES, BARS = "curves without numbers, read as: ", "bars without numbers, read as: "
"""Beginnings of statements that we read off a figure."""
SIMPLE = "a simple decoder outperforms more complex architectures"
"""Claim about CoRelNet against ESBN and CoRelNet-T."""
BASELINES = f"{BARS}further baselines do not reach CoRelNet"
"""Claim about CoRelNet against networks that only Fig 13 of C.8 shows."""


def reported(
    subject: Subject, quantity: str, percent: float, deviation: float, source: Source, chance: float | None = None
) -> Claim:
    """Return the claim for a mean and its standard deviation over seeds, in percent.

    The mean over our seeds matches within one deviation. If the published mean is at most two points from a guess,
    `chance`, the network has not learned the task, and a mean within two points of a guess matches too.

    >>> reported(network_on("corelnet", "same"), "hexominoes", 94.7, 5.4, Source("kerg2022thesis", "Table 1")).value
    '94.7% ± 5.4'
    """
    near = as_printed(f"{percent}%", deviation=deviation, seeds=SEEDS, low=0.0, high=1.0)
    if chance is not None and abs(percent / 100 - chance) <= NOT_LEARNED:
        low, high = min(near.low, chance - NOT_LEARNED), max(near.high, chance + NOT_LEARNED)
        near = replace(
            near, low=low, high=high, chosen="not learned: the published spread, and two points around a guess"
        )
    return Claim(subject, quantity, f"{percent}% ± {deviation}", source, near, better="higher", chance=chance)


def difference_of(least: float) -> Agreement:
    """Return the range of differences that count as better (least above 0) or as no worse."""
    wording = "our reading of 'better': one point" if least > 0 else "our reading of 'no worse': two points down"
    return at_least(least, f"{wording}, and beyond two standard errors of the seeds (Welch, Bonferroni)")


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
    """Whether each network is compared with one of the other side."""
    averaged: bool = False
    """Whether the statement is about the mean over all pairs. Otherwise each is judged, and some may be missing."""

    @property
    def subjects(self) -> tuple[Subject, ...]:
        return (*self.first, *self.second)

    @property
    def by_pair(self) -> bool:
        """Whether each pair is judged."""
        return self.paired and not self.averaged

    def available(self, subjects: Collection[Subject]) -> tuple[tuple[Subject, ...], tuple[Subject, ...]] | None:
        """Return both sides if all their networks are among the subjects, or the complete pairs; None without any."""
        if not self.by_pair:
            return (self.first, self.second) if {*self.first, *self.second} <= {*subjects} else None
        pairs = [pair for pair in zip(self.first, self.second, strict=True) if {*pair} <= {*subjects}]
        return (tuple(first for first, _ in pairs), tuple(second for _, second in pairs)) if pairs else None


def over_tasks(
    statement: str, source: Source, name: str, tasks: Sequence[str], first: str, second: str, *, reason: str = ""
) -> Contrast:
    """Return the contrast for a statement about one network against another in general: the mean over the tasks.

    Args:
        statement: the published statement.
        source: where it is.
        name: the name of all tasks together.
        tasks: the tasks.
        first: the network that is claimed to be better.
        second: the other network.
        reason: why our networks do not agree, where that is known.

    >>> over_tasks("better", Source("kerg2022thesis", "5.6"), "both", ["RMTS", "dist3"], "corelnet", "esbn").name
    'both: corelnet against esbn'

    """
    ours, theirs = (tuple(network_on(network, task) for task in tasks) for network in (first, second))
    quantity = f"{first} against {second}"
    return Contrast(
        about("", name),
        quantity,
        statement,
        source,
        difference_of(BETTER),
        reason=reason,
        first=ours,
        second=theirs,
        paired=True,
        averaged=True,
    )


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
    averaged: bool = False,
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
        averaged=averaged,
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
