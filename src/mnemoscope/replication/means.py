"""Means over seeds against a range of agreement, beyond what other seeds would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf, sqrt
from statistics import mean, stdev
from typing import Literal

from mnemoscope.replication.agreement import Agreement
from mnemoscope.replication.verdicts import Judgement, Obstacle, Verdict, not_compared

FEWEST = 3
"""Seeds from which a mean is judged."""


@dataclass(frozen=True)
class SeedMean:
    """Mean over the seeds, and the range in which it would lie with other seeds."""

    value: float
    reach: float
    """Distance to each end of the range: two standard errors; infinite for fewer than three seeds."""

    @property
    def low(self) -> float:
        """Lowest mean that other seeds may give."""
        return self.value - self.reach

    @property
    def high(self) -> float:
        """Highest mean that other seeds may give."""
        return self.value + self.reach

    def judge(
        self, agreement: Agreement, better: Literal["higher", "lower"] | None = None, *, in_percent: bool = True
    ) -> Judgement:
        """Judge whether the mean agrees with a published one, as far as the seeds decide it.

        A mean agrees with a range if it lies in it and if other seeds would move it by at most half of the range. It
        agrees with a half-line, such as "at least 98%", if all of its range lies there. It differs if all of its range
        lies outside. `in_percent` says that the values are shares.

        >>> from mnemoscope.replication.agreement import as_printed
        >>> published = as_printed("60.9%", spread=18.0)
        >>> measure_mean([0.6, 0.65, 0.55]).judge(published).verdict.value
        'matches'
        >>> measure_mean([0.495, 0.901, 0.5]).judge(published).reason
        'other seeds may give 36.3% to 90.1%'
        """
        if isinf(self.reach):
            return not_compared(Obstacle.UNDECIDED, f"the scatter of fewer than {FEWEST} seeds is unknown")
        if self.high < agreement.low or self.low > agreement.high:
            side = "lower" if self.high < agreement.low else "higher"
            if better is None:
                return Judgement(Verdict.DIFFERS)
            return Judgement(Verdict.BETTER if side == better else Verdict.WORSE)
        half = (agreement.high - agreement.low) / 2
        decided = self.reach <= half if not isinf(half) else self.low in agreement and self.high in agreement
        if self.value in agreement and decided:
            return Judgement(Verdict.MATCHES)
        low, high = (f"{100 * end:.1f}%" if in_percent else f"{end:.3g}" for end in (self.low, self.high))
        return not_compared(Obstacle.UNDECIDED, f"other seeds may give {low} to {high}")


def measure_mean(values: Sequence[float]) -> SeedMean:
    """Return the mean of values, one per seed, with two standard errors to each side."""
    reach = inf if len(values) < FEWEST else 2 * stdev(values) / sqrt(len(values))
    return SeedMean(mean(values), reach)
