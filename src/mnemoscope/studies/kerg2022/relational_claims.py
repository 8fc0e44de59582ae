"""Claims about relational networks: accuracies, and contrasts of networks with others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import Agreement, as_printed, at_least
from mnemoscope.replication.claims import Claim, Subject
from mnemoscope.studies.kerg2022.relational_grid import network_on

PROTOTYPE = Source("mnemoscope", "an earlier prototype of these networks, not published")
UNSEEN_SHAPES = ("unseen shapes", "seen shapes")
"""Name of the accuracy on the test shapes, and its name if no shapes are held out."""
NEAR_PERFECT = at_least(0.98, "our reading of 'near perfect': at most one problem in 50 wrong", of_mean=True)
VERY_GOOD = at_least(0.95, "our reading of 'very good': at most one problem in 20 wrong", of_mean=True)
BETTER = 0.01
"""Smallest difference that counts as better: one point."""
NO_WORSE = -0.02
"""Smallest difference that counts as no worse: two points down."""
DRIFTS = "its encoder maps unseen shapes closer together; a fixed random encoder solves it (relational-cognitive)"
"""Why CoRelNet misses identity rules."""
NO_NUMBERS = "a figure without numbers"
"""Why the published result cannot be compared."""
SIMPLE = "a simple decoder outperforms more complex architectures"
"""Claim about CoRelNet against ESBN and CoRelNet-T."""


@dataclass(frozen=True)
class Reported(Claim):
    """A published accuracy with its mean, which the figure shows."""

    mean: float | None = None


def reported(
    subject: Subject, quantity: str, percent: float, deviation: float, source: Source, chance: float | None = None
) -> Reported:
    """Return the claim for a mean and its standard deviation over seeds, in percent; the mean over our seeds
    matches within one deviation, unless a guess, `chance`, would too.

    >>> reported(network_on("corelnet", "same"), "hexominoes", 94.7, 5.4, Source("kerg2022thesis", "Table 1")).value
    '94.7% ± 5.4'
    """
    near = as_printed(f"{percent}%", spread=deviation, low=0.0, high=1.0)
    value = f"{percent}% ± {deviation}"
    mean = percent / 100
    return Reported(subject, quantity, value, source, near, better="higher", chance=chance, mean=mean)


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
    paired: bool = False,
    reason: str = "",
) -> Contrast:
    """Return the contrast for a statement about networks against others on a task.

    >>> make_contrast("outperforms", Source("kerg2022thesis", "Fig 5"), "RMTS3", ["corelnet"], ["esbn"]).name
    'RMTS3, m 94: corelnet against esbn'
    """
    quantity = f"{' + '.join(first)} against {' + '.join(second)}"
    ours, theirs = (tuple(network_on(network, task) for network in side) for side in (first, second))
    return Contrast(
        network_on("", task),
        quantity,
        statement,
        source,
        difference_of(least),
        reason=reason,
        first=ours,
        second=theirs,
        paired=paired,
    )
