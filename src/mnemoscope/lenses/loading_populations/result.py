"""The result of the lens on populations."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.trial_scores import kept_share

SURVIVES = 0.9
"""Share of the difference between shuffled and trained networks above which the task counts as kept."""


@dataclass(frozen=True, repr=False)
class Resampling(Result):
    """Scores of networks drawn from Gaussian mixtures that were fitted to the loadings of a trained network."""

    noun: ClassVar[str] = "a resampling"
    drawn_by: ClassVar[str] = "draw_resampling"

    populations: tuple[int, ...]
    """Numbers of populations of the mixtures."""
    scores: Float[Tensor, "mixtures draws"]
    """Scores of the networks drawn from each mixture."""
    shuffled: Float[Tensor, " draws"]
    """Scores of networks whose vectors are shuffled over the units."""
    redrawn: Float[Tensor, " draws"]
    """Scores of networks whose units are drawn from those of the trained network, with replacement."""
    trained: float
    """Score of the trained network."""
    likelihoods: Float[Tensor, " mixtures"]
    """Mean log-likelihood of a unit of the trained network."""
    columns: int
    """Number of loadings of each unit."""
    units: int
    """Units of the trained network."""
    size: int
    """Units of the drawn networks."""
    score_name: str
    """How the score is called."""

    @property
    def kept(self) -> Float[Tensor, "mixtures draws"]:
        """Share of the difference between the median shuffled and the trained network that each draw keeps."""
        return kept_share(self.scores, float(self.shuffled.quantile(0.5)), self.trained)

    @property
    def kept_by_units(self) -> float:
        """The same share for the median network of units drawn with replacement."""
        return float(kept_share(self.redrawn, float(self.shuffled.quantile(0.5)), self.trained).quantile(0.5))

    @property
    def bic(self) -> Float[Tensor, " mixtures"]:
        """Bayesian information criterion of each mixture; the smallest is preferred."""
        number = self.likelihoods.new_tensor(self.populations)
        numbers = number * (1 + self.columns + self.columns * (self.columns + 1) / 2) - 1
        return numbers * log(self.units) - 2 * self.units * self.likelihoods

    @property
    def needed(self) -> int | None:
        """The smallest fitted number of populations whose median network keeps the task; None if no mixture does."""
        medians = self.kept.quantile(0.5, 1).tolist()
        return min((p for p, kept in zip(self.populations, medians, strict=True) if kept >= SURVIVES), default=None)

    def summary(self) -> str:
        medians, shares = self.scores.quantile(0.5, 1).tolist(), self.kept.quantile(0.5, 1).tolist()
        parts = [
            f"{median:.3g} with {number} population{'s' * (number > 1)} ({share:.0%} kept)"
            for number, median, share in zip(self.populations, medians, shares, strict=True)
        ]
        scores = (
            f"The {self.score_name} of the trained network is {self.trained:.3g}, and the median of "
            f"{len(self.shuffled)} shuffled ones {float(self.shuffled.quantile(0.5)):.3g}. Networks of {self.size} "
            f"units drawn from fitted Gaussian populations have medians of {', '.join(parts)}."
        )
        units = f"networks of {self.size} units drawn from the trained ones with replacement keep"
        if self.needed is None and self.kept_by_units >= SURVIVES:
            return (
                f"{scores} None of the mixtures keeps {SURVIVES:.0%}, while {units} "
                f"{self.kept_by_units:.0%}: the distribution of the units explains the task, but it has more "
                f"populations, or other ones than Gaussian."
            )
        if self.needed is None:
            return (
                f"{scores} None of the mixtures keeps {SURVIVES:.0%}. Neither do the units: {units} "
                f"{self.kept_by_units:.0%}. The scatter of such a draw is enough to lose the task, so that populations "
                f"are neither found nor refuted."
            )
        plural = "s explain" if self.needed > 1 else " explains"
        return (
            f"{scores} {self.needed} Gaussian population{plural} at least {SURVIVES:.0%} of the difference. Other "
            f"distributions may explain it as well."
        )
