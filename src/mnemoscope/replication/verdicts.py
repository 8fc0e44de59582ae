"""Verdicts on how a measurement compares with a claim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a measurement compares with a claim, the best first."""

    MATCHES = "matches"
    BETTER = "better"
    IN_PART = "in part"
    """Some networks match and others do not."""
    WORSE = "worse"
    DIFFERS = "differs"
    NOT_COMPARED = "not compared"
    """The claim has no tolerance, or the conditions of the measurement differ from the published ones."""
    NOT_RUN = "not run"

    @property
    def compared(self) -> bool:
        """Whether a measurement was held against the claim."""
        return self not in (Verdict.NOT_COMPARED, Verdict.NOT_RUN)


@dataclass(frozen=True)
class Judgement:
    """A verdict and its reason."""

    verdict: Verdict = Verdict.NOT_COMPARED
    reason: str = ""
    """Why the measurement differs or was not compared, where that is known."""
    matching: tuple[int, int] | None = None
    """How many networks match, of how many, where only some do."""

    def __str__(self) -> str:
        return "matches in {} of {}".format(*self.matching) if self.matching else self.verdict.value
