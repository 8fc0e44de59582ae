"""Claims of a source as data, and their comparison with measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, sqrt
from statistics import mean, stdev
from typing import Literal

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import Agreement
from mnemoscope.replication.means import FEWEST, judge_mean, mean_interval
from mnemoscope.replication.verdicts import AGREEING, APART, DIVERGED, Judgement, Obstacle, Verdict, not_compared

Value = float | str
NOT_LEARNED = 0.02
"""Largest distance of an accuracy from a guess, two points, at which a network has not learned a task."""
LEARNED = 0.1
"""Accuracy above chance below which a network has learned little."""

NEAR_CHANCE = (Verdict.BETTER, Verdict.COMPATIBLE, *APART)
"""Verdicts that say nothing about two networks which both have learned little."""


@dataclass(frozen=True)
class Subject:
    """Subject of a trial or a claim: a network, a task and a condition. Parts that do not matter are empty.

    >>> subject = about("corelnet", "RMTS", m=95)
    >>> subject.name, subject["m"]
    ('corelnet, RMTS, m 95', 95)
    """

    network: str = ""
    task: str = ""
    condition: tuple[tuple[str, Value], ...] = ()
    """Names and values of settings that distinguish trials of one network on one task."""
    label: str = field(default="", compare=False)
    """Name shown in place of the one that follows from the parts."""

    @property
    def name(self) -> str:
        """Name of the subject in tables, and of its trials."""
        parts = (self.network, self.task, *(f"{name} {_short(value)}" for name, value in self.condition))
        return self.label or ", ".join(filter(None, parts))

    def __getitem__(self, name: str) -> Value | None:
        """Return the value of a condition, or None."""
        return dict(self.condition).get(name)


def about(network: str = "", task: str = "", /, *, label: str = "", **condition: Value) -> Subject:
    """Make a subject; the condition is given as keyword arguments."""
    return Subject(network, task, tuple(condition.items()), label)


def as_subject(key: Subject | str) -> Subject:
    """Return a key of a table of trials as a subject; a text is the name of a network."""
    return key if isinstance(key, Subject) else Subject(network=key)


EVERYTHING = Subject()
"""Subject of a claim about all trials of a study."""


@dataclass(frozen=True)
class Claim:
    """One published number or statement."""

    subject: Subject
    quantity: str
    """Measured quantity: "accuracy", "bits per character"."""
    value: Value
    """Published number or statement."""
    source: Source
    agreement: Agreement | None = None
    """Measured values that match the claim. None: the source states no result here that a measurement could decide, but
    proposes an idea, reports other works, or shows a picture without a statement. Such claims are counted apart."""
    better: Literal["higher", "lower"] | None = None
    """Side of the published value that is better; None: neither."""
    reason: str = ""
    """Why our measurement cannot match, where that is known: a misprint, an error in a proof."""
    out_of_reach: str = ""
    """Why no study measures the claim yet: a network or a task that the library does not have."""
    chance: float | None = None
    """Accuracy that a network reaches by guessing, for a claim that says little if this value agrees with it."""
    by_construction: bool = False
    """Whether the code could not run otherwise: a number of parameters, a proven bound. Such claims are counted apart.
    """

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Subjects of the trials that measure the claim."""
        return (self.subject,)

    @property
    def name(self) -> str:
        """The subject and the quantity.

        >>> Claim(about("nnrnn"), "recall", "solves it", Source("kerg2022thesis", "Fig 2")).name
        'nnrnn: recall'
        """
        return ": ".join(filter(None, (self.subject.name, self.quantity)))

    def judge(self, measured: Sequence[float], diverged: int = 0, *, learner: bool = False) -> Judgement:
        """Compare the mean of the measured values (`judge_mean`), or each of them, with the range of agreement.

        Args:
            measured: one value per network.
            diverged: number of further networks without a value, which count as networks that do not agree.
            learner: whether the network is known to learn other tasks, so that guessing at this one says something.

        >>> from mnemoscope.replication.agreement import as_printed, exactly
        >>> source = Source("jang", "Fig 6")
        >>> print(Claim(EVERYTHING, "stable fixed points", 8, source, exactly(8)).judge([8, 7, 8]))
        matches in 2 of 3
        >>> accuracy = Claim(EVERYTHING, "accuracy", 0.96, source, as_printed("0.96"), better="higher")
        >>> print(accuracy.judge([0.7, 0.71, 0.72]))
        worse
        >>> print(accuracy.judge([0.959, 0.96, 0.961], diverged=1))
        matches in 3 of 4
        >>> accuracy.judge([0.8, 0.97, 0.99]).reason
        '3 of 5 networks; others may give 0.647 to 1.19'

        """
        if self.agreement is None:
            return not_compared(Obstacle.NO_RESULT)
        if not measured and not diverged:
            return not_compared(Obstacle.NOT_MEASURED)
        stable = [value for value in measured if isfinite(value)]
        if self.agreement.of_mean and stable and not self.by_construction:
            judgement = self._judge_mean(stable, diverged + len(measured) - len(stable))
        else:
            judgement = self._judge_each(measured, diverged)
        return self._unless_guessed(judgement, stable, learner)

    def _judge_mean(self, measured: Sequence[float], diverged: int) -> Judgement:
        assert self.agreement is not None
        judgement = judge_mean(self.agreement, measured, self.better)
        number = len(measured) + diverged
        failed = f"{diverged} of {number} {DIVERGED}"
        if diverged and judgement.verdict is Verdict.MATCHES:
            return Judgement(Verdict.IN_PART, failed, (len(measured), number))
        if diverged and judgement.verdict is Verdict.COMPATIBLE:
            return Judgement(
                Verdict.IN_PART, f"the mean of the others is compatible, but outside of the range; {failed}"
            )
        if diverged and judgement.verdict is Verdict.BETTER:
            return Judgement(Verdict.DIFFERS, self.reason)
        return replace(judgement, reason=self.reason) if judgement.verdict in APART else judgement

    def _judge_each(self, measured: Sequence[float], diverged: int) -> Judgement:
        assert self.agreement is not None
        count, number = sum(value in self.agreement for value in measured), len(measured) + diverged
        if count == number:
            return Judgement(Verdict.MATCHES)
        # Only networks without a value may disagree.
        reason = f"{diverged} of {number} {DIVERGED}" if count == len(measured) else self.reason
        if count:
            return Judgement(Verdict.IN_PART, reason, (count, number))
        sides = {"higher" if value > self.agreement.high else "lower" for value in measured}
        if diverged and self.better is not None:
            sides.add("lower" if self.better == "higher" else "higher")
        if self.better is None or len(sides) > 1:
            return Judgement(Verdict.DIFFERS, reason)
        return Judgement(Verdict.BETTER if self.better in sides else Verdict.WORSE, reason)

    def _unless_guessed(self, judgement: Judgement, measured: Sequence[float], learner: bool) -> Judgement:
        """Return the judgement, unless networks that only guess would get the same one.

        A guess in the range of agreement says nothing, unless our network is a learner and the published one guessed
        too. Nor does a difference between two networks that have both learned little, if ours may be a guess.
        """
        if self.chance is None or self.agreement is None or not measured:
            return judgement
        published = self.agreement.low if self.agreement.published is None else self.agreement.published
        low, high = mean_interval(measured)
        if not low <= self.chance <= high:
            return judgement
        if judgement.verdict in AGREEING and self.chance in self.agreement:
            if not (learner and abs(published - self.chance) <= NOT_LEARNED):
                return not_compared(Obstacle.CHANCE, f"a guess, {self.chance:.3g}, is in the range {self.agreement}")
        elif judgement.verdict in NEAR_CHANCE and max(published, mean(measured)) < self.chance + LEARNED:
            return not_compared(Obstacle.CHANCE, f"neither is much above chance, {self.chance:.3g}")
        return judgement

    def compare(self, quantity: str, measured: Sequence[float], ours: str, remark: str = "", diverged: int = 0) -> Row:
        """Return the row that puts the measured values, as the text `ours`, next to this claim."""
        judgement = self.judge(measured, diverged)
        return Row(quantity, str(self.value), ours, judgement, remark, self, tuple(measured), diverged)

    def not_compared(
        self,
        quantity: str,
        ours: str,
        remark: str,
        obstacle: Obstacle,
        reason: str = "",
        measured: Sequence[float] = (),
        diverged: int = 0,
    ) -> Row:
        """Return the row where the measurement cannot be compared; the reason is by default the obstacle itself."""
        judgement = not_compared(obstacle, reason)
        remark = "; ".join(filter(None, (remark, judgement.reason)))
        return Row(quantity, str(self.value), ours, judgement, remark, self, tuple(measured), diverged)


@dataclass(frozen=True)
class Row:
    """One line of a study's table: a published value next to the measured one."""

    quantity: str
    """Name of the measured quantity, with the network where there are several."""
    published: str
    ours: str
    judgement: Judgement = field(default_factory=Judgement)
    remark: str = ""
    claim: Claim | None = None
    """Claim that the measurement was compared with, if any."""
    measured: tuple[float, ...] = field(default=(), compare=False)
    """Measured values, one per network; NaN where one is unknown, which equals nothing, so they are not compared."""
    diverged: int = 0
    """Number of networks without a value, as their training did not stay finite."""
    recipe: str = ""
    """Settings of the training that differ from the published ones; empty if none does, or nothing was trained."""
    reduced: str = ""
    """Name of the reduced recipe by which the networks were trained, and what it reduces; empty if it is not reduced.
    Verdicts by reduced recipes are counted apart."""

    @property
    def verdict(self) -> Verdict:
        """The verdict without its reason."""
        return self.judgement.verdict

    @property
    def successes(self) -> int | None:
        """Number of networks within the range of agreement; None without such a range."""
        if self.claim is None or self.claim.agreement is None:
            return None
        return sum(value in self.claim.agreement for value in self.measured)

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean over the networks; None for a single one, or if a value is not finite."""
        if len(self.measured) < 2 or not all(map(isfinite, self.measured)):
            return None
        return stdev(self.measured) / sqrt(len(self.measured))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Interval of the mean over the networks (`mean_interval`), if their mean is compared; None for too few."""
        if self.claim is None or self.claim.agreement is None or not self.claim.agreement.of_mean:
            return None
        if len(self.measured) < FEWEST or self.claim.agreement.best or not all(map(isfinite, self.measured)):
            return None
        return mean_interval(self.measured, self.claim.agreement.limits)


def unpublished(quantity: str, ours: str, remark: str = "") -> Row:
    """Return the row of a measurement about which nothing was published."""
    return Row(quantity, "not published", ours, remark=remark)


def with_reason(row: Row, reason: str) -> Row:
    """Return the row with a reason for its verdict."""
    return replace(row, judgement=replace(row.judgement, reason=reason))


def _short(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"
