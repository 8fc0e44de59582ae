"""The result of the replacement lens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.result import Result

GROWTH = 2.0
"""Ratio of the largest effect of an input to its first one, from which the headline mentions the growth."""


@dataclass(frozen=True, repr=False)
class MeasuredInfluence(Result):
    """How much outputs and states change after the input of one step is replaced by that of another trial.

    The unit is the distance between two trials at the same step, the root mean square over trials and steps: after a
    change of 1 the network is as far from its course as another trial is.
    """

    noun: ClassVar[str] = "a measured influence"
    drawn_by: ClassVar[str] = "draw_measured_influence"

    sources: Int[Tensor, " sources"]
    """Steps whose input was replaced."""
    outputs: Float[Tensor, "sources time"]
    """Change of the outputs at each step; NaN before the source, and if no trial has another input there."""
    states: Float[Tensor, "sources time"] | None
    """Change of the whole state; None if the state grows."""
    trials: int
    """Number of trials."""

    @property
    def curve(self) -> Float[Tensor, " lags"]:
        """Change of the outputs k steps later, k = 0, 1, ..., the mean over the sources; NaN where it is not known."""
        return _by_lag(self.outputs, self.sources)

    @property
    def state_curve(self) -> Float[Tensor, " lags"]:
        """The same of the states."""
        if self.states is None:
            raise ValueError("The state of this network grows, so its change was not measured; use `curve`.")
        return _by_lag(self.states, self.sources)

    @property
    def known(self) -> bool:
        """Whether any input could be replaced, and outputs differ between trials."""
        return bool(self.curve.isfinite().any())

    def headline(self) -> str:
        """Return for how long an input changes the state, or the outputs of a state that grows, in one sentence."""
        subject, curve = ("outputs", self.curve) if self.states is None else ("state", self.state_curve)
        if not bool(curve.isfinite().any()):
            return "The influence of inputs is not known."
        known = curve.nan_to_num(nan=-1.0)
        if float(known.max()) <= 0:
            return f"Inputs do not change the {subject}."
        last, longest = last_half(curve)
        if last == 0 < longest:
            return f"One step later, an input changes the {subject} by less than half of its first effect."
        later = "1 step later" if last == 1 else f"{last} steps later"
        until = later if last < longest else f"after {longest} steps, the longest time measured"
        first, largest = float(known[0]), float(known.max())
        grown = (
            f" Its effect grows from {first:.0%} to {largest:.0%} of the distance between trials, as in a decision or "
        )
        grown = f"{grown}in chaos." if largest > GROWTH * first > 0 else ""
        return f"An input still changes the {subject} by at least half of its largest effect {until}.{grown}"

    def summary(self) -> str:
        """Return when an input changes the outputs most, and for how long it changes the state."""
        if not self.known:
            return "The influence of inputs is not known: they, or the outputs, are the same in all trials."
        text = f"If the input of one step is replaced by that of another trial, the outputs change {_reach(self.curve)}"
        if self.states is None:
            return f"{text}."
        return f"{text}; the state changes {_reach(self.state_curve)}."


def last_half(curve: Float[Tensor, " lags"]) -> tuple[int, int]:
    """Return the last lag at which a curve is at least half of its largest value, and the last lag that is known.

    >>> last_half(torch.tensor([0.2, 1.0, 0.6, 0.1, torch.nan]))
    (2, 3)
    """
    known = curve.nan_to_num(nan=-1.0)
    last, longest = (int(lags.nonzero().max()) for lags in (known >= float(known.max()) / 2, known >= 0))
    return last, longest


def _by_lag(values: Float[Tensor, "sources time"], sources: Int[Tensor, " sources"]) -> Float[Tensor, " lags"]:
    shifted = torch.full_like(values, torch.nan)
    for row, step in enumerate(sources.tolist()):
        shifted[row, : values.shape[1] - step] = values[row, step:]
    return shifted.nanmean(0)


def _reach(curve: Float[Tensor, " lags"]) -> str:
    """Describe the largest change, and the last lag at which it is at least half as large."""
    known = curve.nan_to_num(nan=-1.0)
    largest, peak = float(known.max()), int(known.argmax())
    if largest == 0:
        return "not at all"
    last, longest = last_half(curve)
    unit = "of the distance between trials"
    half = f"last at lag {last}" if last < longest else f"still at lag {longest}, the longest measured"
    return f"most at lag {peak}, by {largest:.0%} {unit}, and by at least half of that {half}"
