"""Differences between groups of networks, beyond what other seeds would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from statistics import mean, variance

from mnemoscope.replication.claims import Claim, Row
from mnemoscope.replication.means import t_reach
from mnemoscope.replication.verdicts import Judgement, Obstacle, Verdict, not_compared


@dataclass(frozen=True)
class Difference:
    """Difference between the means of two sides, and the range in which it would lie with other seeds."""

    gain: float
    error: float | None
    """Standard error over the seeds; None if a network has a single seed."""
    reach: float
    """Number of standard errors to each side that are allowed for: two for one comparison and many seeds."""

    @property
    def low(self) -> float:
        """Lowest difference that other seeds may give."""
        return -inf if self.error is None else self.gain - self.reach * self.error

    @property
    def high(self) -> float:
        """Highest difference that other seeds may give."""
        return inf if self.error is None else self.gain + self.reach * self.error

    def __str__(self) -> str:
        """The difference and its standard error in points."""
        return f"{100 * self.gain:+.1f}" + ("" if self.error is None else f" ± {100 * self.error:.1f}")

    def judge(self, least: float, *, in_points: bool = True) -> Judgement:
        """Judge the claim that the first side is better, or no worse; `in_points` says that the values are shares.

        The first side is better if the difference is at least `least` (above 0) and all of the range is above 0. It is
        no worse if the whole range is above `least` (0 or below). The claim fails if the whole range is below `least`.
        """
        if self.error is None:
            return not_compared(Obstacle.TOO_FEW, "a single seed has no standard error")
        if self.gain >= least and self.low >= min(least, 0.0):
            return Judgement(Verdict.MATCHES)
        if self.high < least:
            return Judgement(Verdict.DIFFERS)
        low, high = (f"{100 * end:+.1f}" if in_points else f"{end:+.3g}" for end in (self.low, self.high))
        return not_compared(Obstacle.UNDECIDED, f"other seeds may give {low} to {high}{' points' * in_points}")

    def compare(self, claim: Claim, ours: str, remark: str = "") -> Row:
        """Return the row of a claim whose range of agreement begins at the least difference.

        >>> from mnemoscope.registry.citations import Source
        >>> from mnemoscope.replication.agreement import at_least
        >>> from mnemoscope.replication.claims import EVERYTHING
        >>> range_ = at_least(0.0, "two standard errors")
        >>> claim = Claim(EVERYTHING, "gain of the first", "better", Source("jang", "Fig 6"), range_)
        >>> measure_difference([[3.0, 3.1]], [[1.0, 1.2]]).compare(claim, "3.05 against 1.1").verdict.value
        'matches'
        """
        assert claim.agreement is not None
        judgement = self.judge(claim.agreement.low, in_points=False)
        if judgement.verdict is Verdict.DIFFERS:
            judgement = replace(judgement, reason=claim.reason)
        error = "a single seed" if self.error is None else f"difference {self.gain:.3g} ± {self.error:.2g}"
        remark = "; ".join(filter(None, (error, remark)))
        return Row(claim.name, str(claim.value), ours, judgement, remark, claim, (self.gain,))


def measure_difference(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], comparisons: int = 1
) -> Difference:
    """Return the difference between two sides, each the mean of its networks, which are means over their seeds.

    Args:
        first: for each network of the first side, the values of its seeds.
        second: the same for the second side.
        comparisons: number of differences that are tested together. The chance that any of them passes by accident
            stays that of one (Bonferroni), so that each must be further from 0.

    The range is that of Welch's t test: with few seeds it is wider than two standard errors.

    >>> difference = measure_difference([[0.9, 0.92, 0.94]], [[0.8, 0.82, 0.78]])
    >>> f"{difference.gain:.2f}, {difference.low:.2f} to {difference.high:.2f}"
    '0.12, 0.07 to 0.17'

    """
    gain = mean(map(mean, first)) - mean(map(mean, second))
    shares = [(values, len(side)) for side in (first, second) for values in side]
    if any(len(values) < 2 for values, _ in shares):
        return Difference(gain, None, inf)
    variances = [variance(values) / len(values) / networks**2 for values, networks in shares]
    squared = sum(variances)
    if squared == 0.0:
        return Difference(gain, 0.0, 2.0)
    freedom = squared**2 / sum(each**2 / (len(values) - 1) for each, (values, _) in zip(variances, shares, strict=True))
    return Difference(gain, sqrt(squared), t_reach(freedom, comparisons))
