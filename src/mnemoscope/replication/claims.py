"""Claims of a source as data, and their comparison with measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, sqrt
from statistics import mean, stdev
from typing import Literal

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import Agreement
from mnemoscope.replication.means import FEWEST, measure_mean
from mnemoscope.replication.verdicts import DIVERGED, Judgement, Obstacle, Verdict, not_compared

Value = float | str


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
    """Measured values that match the claim; None: the source states nothing measurable."""
    better: Literal["higher", "lower"] | None = None
    """Side of the published value that is better; None: neither."""
    reason: str = ""
    """Why our measurement cannot match, where that is known: a misprint, an error in a proof."""
    chance: float | None = None
    """Value that a network reaches by guessing, for a claim that says little if this value agrees with it."""
    by_construction: bool = False
    """Whether the code could not run otherwise: a number of parameters, a proven bound. Such claims are counted apart.
    """

    @property
    def name(self) -> str:
        """The subject and the quantity.

        >>> Claim(about("nnrnn"), "recall", "solves it", Source("kerg2022thesis", "Fig 2")).name
        'nnrnn: recall'
        """
        return ": ".join(filter(None, (self.subject.name, self.quantity)))

    def judge(self, measured: Sequence[float], diverged: int = 0) -> Judgement:
        """Compare the measured values, one per network, or their mean with the range of agreement.

        A network that diverged has no value, and counts as one that does not agree. A mean outside the range does not
        decide it if other seeds may give one inside (`SeedMean.judge`), unless all networks are on the same side.

        >>> from mnemoscope.replication.agreement import as_printed, exactly
        >>> source = Source("jang", "Fig 6")
        >>> print(Claim(EVERYTHING, "stable fixed points", 8, source, exactly(8)).judge([8, 7, 8]))
        matches in 2 of 3
        >>> accuracy = Claim(EVERYTHING, "accuracy", 0.96, source, as_printed("0.96"), better="higher")
        >>> print(accuracy.judge([0.93, 0.94]))
        worse
        >>> print(accuracy.judge([0.95, 0.97], diverged=1))
        matches in 2 of 3
        >>> accuracy.judge([0.8, 0.97, 0.99]).reason
        'other seeds may give 0.799 to 1.04'
        """
        if self.agreement is None:
            return not_compared(Obstacle.NO_NUMBER)
        if not measured and not diverged:
            return not_compared(Obstacle.NOT_MEASURED)
        of_mean = self.agreement.of_mean and len(measured) > 0
        values = [mean(measured)] if of_mean else measured
        count = sum(value in self.agreement for value in values)
        if count and self.chance is not None and self.chance in self.agreement:
            return not_compared(Obstacle.CHANCE, f"a guess, {self.chance:.3g}, is in the range {self.agreement}")
        if of_mean and not count and not diverged and self._on_both_sides(measured):
            judgement = measure_mean(measured).judge(self.agreement, in_percent=False)
            if judgement.obstacle is Obstacle.UNDECIDED:
                return judgement
        if count == len(values) and not diverged:
            return Judgement(Verdict.MATCHES)
        reason = self.reason
        if count == len(values):  # only the networks without a value do not agree
            reason = f"{diverged} of {len(measured) + diverged} {DIVERGED}"
        if count:
            matching = len(measured) if of_mean else count
            return Judgement(Verdict.IN_PART, reason, (matching, len(measured) + diverged))
        sides = {"higher" if value > self.agreement.high else "lower" for value in values}
        if diverged and self.better is not None:
            sides.add("lower" if self.better == "higher" else "higher")
        if self.better is None or len(sides) > 1:
            return Judgement(Verdict.DIFFERS, reason)
        return Judgement(Verdict.BETTER if self.better in sides else Verdict.WORSE, reason)

    def _on_both_sides(self, measured: Sequence[float]) -> bool:
        """Whether three or more networks are not all above the range of agreement, nor all below it."""
        assert self.agreement is not None
        low, high = self.agreement.low, self.agreement.high
        return len(measured) >= FEWEST and min(measured) <= high and max(measured) >= low

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


def unpublished(quantity: str, ours: str, remark: str = "") -> Row:
    """Return the row of a measurement about which nothing was published."""
    return Row(quantity, "not published", ours, remark=remark)


def with_reason(row: Row, reason: str) -> Row:
    """Return the row with a reason for its verdict."""
    return replace(row, judgement=replace(row.judgement, reason=reason))


def _short(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"
