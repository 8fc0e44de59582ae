"""The result of the lens on noise in the state."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.trial_scores import kept_share


@dataclass(frozen=True, repr=False)
class NoiseTolerance(Result):
    """Score of a network at each level of noise in its state, with 95% intervals over trials.

    >>> import torch
    >>> levels, scores = torch.tensor([0, 0.25, 1]).double(), torch.tensor([1.0, 0.9, 0.5]).double()
    >>> found = NoiseTolerance(levels, scores, scores, scores, 1.0, 64, torch.zeros(3), "accuracy", 0.5)
    >>> found.tolerated
    0.25
    """

    noun: ClassVar[str] = "a tolerance of noise"
    drawn_by: ClassVar[str] = "draw_noise_tolerance"

    levels: Float[Tensor, " levels"]
    """Standard deviation of the noise of a step, relative to the root mean square of the state."""
    scores: Float[Tensor, " levels"]
    """Mean over the trials; NaN at a level at which a trial diverged."""
    low: Float[Tensor, " levels"]
    """Lower edge of the interval over trials."""
    high: Float[Tensor, " levels"]
    """Upper edge."""
    quiet: float
    """Score without noise."""
    trials: int
    """Number of trials."""
    diverged: Float[Tensor, " levels"]
    """Share of trials whose outputs became infinite or NaN."""
    score_name: str
    """Name of the score."""
    uninformed: float | None = None
    """Score of a constant answer; None if it is not known."""

    @property
    def tolerated(self) -> float | None:
        """Largest level up to which at least half of the advantage over a constant answer is left; None if unknown.

        It is one of the measured levels, not interpolated, and 0 if the smallest one above 0 costs more than half.
        """
        if self.uninformed is None or not self.informed:
            return None
        tolerated = 0.0
        order = self.levels.argsort()
        shares = kept_share(self.scores[order], self.uninformed, self.quiet)
        for level, share in zip(self.levels[order].tolist(), shares.tolist(), strict=True):
            if not share >= 0.5:
                break
            tolerated = level
        return tolerated

    @property
    def informed(self) -> bool:
        """Whether the network without noise is better than a constant answer."""
        if self.uninformed is None:
            return False
        error = self.score_name == "mean square error"
        return self.quiet < self.uninformed if error else self.quiet > self.uninformed

    def summary(self) -> str:
        """Return the score without noise and at the largest level, and the level that is tolerated."""
        last = int(self.levels.argmax())
        level, diverged = float(self.levels[last]), float(self.diverged[last])
        noise = f"with noise of {level:.0%} of the state at every step"
        text = f"Without noise, the {self.score_name} is {self._text(self.quiet)}; {noise}"
        if diverged:
            text += f", {diverged:.0%} of trials diverge."
        else:
            score, low, high = (self._text(float(part[last])) for part in (self.scores, self.low, self.high))
            interval = "" if isnan(float(self.low[last])) else f" ({low} to {high})"  # one trial has none
            text += f" it is {score}{interval}."
        return text if self.uninformed is None else f"{text} {self._on_tolerance()}"

    def _on_tolerance(self) -> str:
        if not self.informed:
            return "The network is no better than a constant answer, so that there is nothing to disturb."
        tolerated, positive = self.tolerated, self.levels[self.levels > 0]
        if not tolerated:
            least = float(positive.min()) if len(positive) else 0.0
            return f"Noise of {least:.0%} costs more than half of the advantage over a constant answer."
        most = ", the largest level measured" if tolerated == float(self.levels.max()) else ""
        return f"Up to noise of {tolerated:.0%}{most}, it keeps half of its advantage over a constant answer."

    def _text(self, score: float) -> str:
        return f"{score:.3g}" if self.score_name == "mean square error" else f"{score:.1%}"
