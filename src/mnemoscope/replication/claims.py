"""Claims of a source as data, and their comparison with measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mnemoscope.registry.citations import Source
from mnemoscope.replication.verdicts import Judgement, Verdict

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
    tolerance: tuple[float, float] | None = None
    """Lowest and highest measured value that matches the claim; None: nothing comparable is measured."""
    better: Literal["higher", "lower"] | None = None
    """Side of the published value that is better; None: neither."""
    reason: str = ""
    """Why our measurement cannot match, where that is known: a misprint, an error in a proof."""

    @property
    def name(self) -> str:
        """The subject and the quantity.

        >>> Claim(about("nnrnn"), "recall", "solves it", Source("kerg2022thesis", "Fig 2")).name
        'nnrnn: recall'
        """
        return ": ".join(filter(None, (self.subject.name, self.quantity)))

    def judge(self, measured: Sequence[float]) -> Judgement:
        """Compare the measured values, one per network, with the tolerance.

        >>> claim = Claim(EVERYTHING, "stable fixed points", 8, Source("jang", "Fig 6"), tolerance=(8, 8))
        >>> print(claim.judge([8, 7, 8]))
        matches in 2 of 3
        >>> claim = Claim(EVERYTHING, "accuracy", 0.96, Source("jang"), tolerance=(0.95, 0.97), better="higher")
        >>> print(claim.judge([0.93, 0.94]))
        worse
        """
        if self.tolerance is None:
            return Judgement(Verdict.NOT_COMPARED, "the study declares no tolerance")
        if not measured:
            return Judgement(Verdict.NOT_COMPARED, "nothing was measured")
        low, high = self.tolerance
        count = sum(low <= value <= high for value in measured)
        if count == len(measured):
            return Judgement(Verdict.MATCHES)
        if count:
            return Judgement(Verdict.IN_PART, self.reason, (count, len(measured)))
        sides = {"higher" if value > high else "lower" for value in measured}
        if self.better is None or len(sides) > 1:
            return Judgement(Verdict.DIFFERS, self.reason)
        return Judgement(Verdict.BETTER if self.better in sides else Verdict.WORSE, self.reason)

    def compare(self, quantity: str, measured: Sequence[float], ours: str, remark: str = "") -> Row:
        """Return the row that puts the measured values, as the text `ours`, next to this claim."""
        return Row(quantity, str(self.value), ours, self.judge(measured), remark, self)

    def not_compared(self, quantity: str, ours: str, remark: str, reason: str) -> Row:
        """Return the row where the measurement cannot be compared, with the reason."""
        judgement = Judgement(Verdict.NOT_COMPARED, reason)
        return Row(quantity, str(self.value), ours, judgement, "; ".join(filter(None, (remark, reason))), self)


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

    @property
    def verdict(self) -> Verdict:
        """The verdict without its reason."""
        return self.judgement.verdict


def unpublished(quantity: str, ours: str, remark: str = "") -> Row:
    """Return the row of a measurement about which nothing was published."""
    return Row(quantity, "not published", ours, remark=remark)


def with_reason(row: Row, reason: str) -> Row:
    """Return the row with a reason for its verdict."""
    return replace(row, judgement=replace(row.judgement, reason=reason))


def _short(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"
