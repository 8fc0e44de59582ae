"""Verdicts on how a measurement compares with a claim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNKNOWN = "cause unknown"
"""Part of the reason where a measurement does not match and the study gives no cause."""

OTHER_RECIPE = "other recipe"
"""Begin of the reason where all that is known is that the training differs from the published one."""
REDUCED_RECIPE = "reduced recipe"
"""Begin of the reason where all that is known is that the recipe is smaller than the published one."""
DIVERGED = "did not stay finite"
"""End of the reason where all that is known is that networks diverged."""


class Verdict(StrEnum):
    """How a measurement compares with a claim, the best first."""

    MATCHES = "matches"
    COMPATIBLE = "compatible"
    """The mean is outside of the range of agreement, by no more than the seeds of both sides scatter."""
    BETTER = "better"
    IN_PART = "in part"
    """Some networks match and others do not."""
    WORSE = "worse"
    DIFFERS = "differs"
    NOT_COMPARED = "not compared"
    """A comparison is not possible, or would say nothing; `Obstacle` gives the class of reason."""
    NOT_RUN = "not run"

    @property
    def compared(self) -> bool:
        """Whether a measurement was held against the claim."""
        return self not in (Verdict.NOT_COMPARED, Verdict.NOT_RUN)


AGREEING = (Verdict.MATCHES, Verdict.COMPATIBLE)
"""Verdicts on measurements that may come from the same networks as the published value."""
APART = (Verdict.WORSE, Verdict.IN_PART, Verdict.DIFFERS)
"""Verdicts on measurements that need a cause."""


class Obstacle(StrEnum):
    """Why a measurement and a claim are not compared."""

    NO_RESULT = "the source states no result here"
    OTHER_CONDITIONS = "other conditions than published"
    SHORTER_TRAINING = "shorter training than published"
    NOT_MEASURED = "nothing was measured"
    CHANCE = "agreement is also reached by chance"
    NO_ROOM = "the other side leaves no room to be better"
    UNDECIDED = "the seeds do not decide it"
    TOO_FEW = "one or two networks, whose scatter is unknown"


@dataclass(frozen=True)
class Judgement:
    """A verdict and its reason."""

    verdict: Verdict = Verdict.NOT_COMPARED
    reason: str = ""
    """Why the measurement differs or was not compared, where that is known."""
    matching: tuple[int, int] | None = None
    """How many networks match, of how many, where only some do."""
    obstacle: Obstacle | None = None
    """Class of reason why nothing was compared."""

    def __str__(self) -> str:
        return "matches in {} of {}".format(*self.matching) if self.matching else self.verdict.value


def not_compared(obstacle: Obstacle, reason: str = "") -> Judgement:
    """Return the judgement of a measurement that is not compared; the reason is by default the obstacle itself."""
    return Judgement(Verdict.NOT_COMPARED, reason or obstacle.value, obstacle=obstacle)


def judge_in_preset(preset: str, judgement: Judgement) -> Judgement:
    """Return a judgement, or that nothing is compared: the preset smoke only shows that the code runs."""
    if preset != "smoke" or judgement.verdict is Verdict.NOT_COMPARED:
        return judgement
    return not_compared(Obstacle.OTHER_CONDITIONS, "smoke only shows that the code runs")
