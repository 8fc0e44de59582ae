"""The parts of a memory card: entries with numbers or reasons, lines of its panels, and the six questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal

from mnemoscope.report.numbers import format_number

Status = Literal["measured", "not applicable", "not decided"]
Bound = Literal["", "at least", "at most"]
QUESTIONS = {
    "remembered": "What does it remember?",
    "duration": "For how long?",
    "amount": "How much?",
    "mechanism": "By which mechanism?",
    "failures": "How does it fail?",
    "cost": "What does it cost?",
}
"""The sections of every card, in their order."""


SINGULAR = {"steps": "step", "signals": "signal", "past signals": "past signal", "writes": "write", "numbers": "number"}
"""Units of the number 1."""


@dataclass(frozen=True)
class Entry:
    """One line of a card: a number with its unit and interval, or a finding as text, or the reason for neither."""

    name: str
    value: float | None = None
    """None for a finding as text, and if nothing is known."""
    unit: str = ""
    """Unit of the value; "%" for a share, which is stored as a fraction of 1."""
    low: float | None = None
    """Lower edge of the interval, if one is known."""
    high: float | None = None
    """Upper edge."""
    interval: str = ""
    """Kind of the interval, such as "95% over 64 sequences"; "" without one."""
    bound: Bound = ""
    """Set if the value is only a bound, such as that of a half-life beyond the longest lag."""
    note: str = ""
    """The finding as text, or a remark on the value."""
    status: Status = "measured"
    reason: str = ""
    """Why the entry is not applicable or not decided, as a sentence."""

    def text(self) -> str:
        """Return value, unit and interval, the finding as text, or the reason.

        >>> Entry("accuracy", 0.931, "%", 0.9, 0.95, "95% over 64 sequences").text()
        '93.1% (90.0% to 95.0%)'
        >>> Entry("half-life", 40, "steps", bound="at least").text()
        'at least 40 steps'
        """
        if self.status != "measured":
            return f"{self.status}: {self.reason}"
        if self.value is None:
            return self.note
        number = _number(self.value, self.unit)
        words = [self.bound, number]
        if self.unit and self.unit != "%":
            words.append(SINGULAR.get(self.unit, self.unit) if number == "1" else self.unit)
        if self.low is not None and self.high is not None:
            words.append(f"({_number(self.low, self.unit)} to {_number(self.high, self.unit)})")
        return " ".join(word for word in words if word) + (f", {self.note}" if self.note else "")


def _number(value: float, unit: str) -> str:
    if 0.9995 <= value < 1:  # neither 100% nor 1 while an answer is wrong: further digits are cut off
        value = min(value, 0.9999)
        return f"{value:.2%}" if unit == "%" else f"{value:.4f}"
    if unit == "%":
        return f"{value:.1%}"
    whole = value == round(value) or abs(value) >= 1000
    return f"{value:,.0f}" if whole and abs(value) < 1e9 else format_number(value)


def not_applicable(name: str, reason: str) -> Entry:
    """Return the entry of a question that has no meaning for a network, with the reason as a sentence."""
    return Entry(name, status="not applicable", reason=reason)


def not_decided(name: str, reason: str) -> Entry:
    """Return the entry of a question that a lens could not answer, or that was not asked, with the reason."""
    return Entry(name, status="not decided", reason=reason)


@dataclass(frozen=True)
class Line:
    """A line, or some points, of a panel."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Lower edges of intervals; empty if none are known."""
    high: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    """Names of the points; empty if they have none."""

    @classmethod
    def known(
        cls,
        name: str,
        x: Sequence[float],
        y: Sequence[float],
        low: Sequence[float] | None = None,
        high: Sequence[float] | None = None,
    ) -> Line:
        """Return the points whose y is finite; intervals are kept only if all of them are finite."""
        kept = [place for place, value in enumerate(y) if isfinite(value)]
        line = cls(name, tuple(float(x[i]) for i in kept), tuple(float(y[i]) for i in kept))
        if low is None or high is None or not all(isfinite(edge[i]) for edge in (low, high) for i in kept):
            return line
        return replace(line, low=tuple(float(low[i]) for i in kept), high=tuple(float(high[i]) for i in kept))


@dataclass(frozen=True)
class Answer:
    """The answer to one of the six questions."""

    key: str
    """A key of `QUESTIONS`."""
    entries: tuple[Entry, ...]
    lines: tuple[Line, ...] = ()
    """Content of the panel; empty if nothing is known."""
    lenses: tuple[str, ...] = ()
    """Names of the lenses in the registry, for citations."""

    @property
    def question(self) -> str:
        return QUESTIONS[self.key]

    def __getitem__(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(
            f"The answer has no entry {name!r}; there are {', '.join(entry.name for entry in self.entries)}."
        )

    def line(self, name: str) -> Line | None:
        """Return the line with this name, if the panel has it."""
        return next((line for line in self.lines if line.name == name), None)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Answer:
        """Return the answer from the plain values that `Result.to_dict` made of it."""
        return cls(
            content["key"],
            tuple(Entry(**entry) for entry in content["entries"]),
            tuple(_line(line) for line in content["lines"]),
            tuple(content["lenses"]),
        )


def _line(content: dict[str, Any]) -> Line:
    """Return a line from its plain values, in which tuples are lists."""
    parts: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in content.items()}
    return Line(**parts)
