"""The result of the interference lens."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.bootstrap import bootstrap_interval, widen_certain
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class RecallInterference(Result):
    """Recall against the number of stored pairs, measured and predicted from interference, one row for each number."""

    noun: ClassVar[str] = "interference in recall"
    drawn_by: ClassVar[str] = "draw_recall_interference"

    pairs: tuple[int, ...]
    """Numbers of pairs, in increasing order."""
    measured: Float[Tensor, "numbers sequences"]
    """Share of right answers of the network in each sequence."""
    predicted: Float[Tensor, "numbers sequences"]
    """Predicted share, with the interference that queries of other sequences meet."""
    gaussian: Float[Tensor, "numbers sequences"]
    """Predicted share, with a Gaussian interference of the same covariance."""
    closed_form: Float[Tensor, "numbers sequences"]
    """Predicted share from the ratio of signal and interference of each query alone."""
    ratios: Float[Tensor, "numbers queries"]
    """Power of the value asked for over that of all others, in each query of the layer that recalls; NaN if a number
    has fewer queries than another."""
    same_sign: Float[Tensor, " numbers"]
    """Share of the power of all other values whose weight has the sign of that of the value asked for. These values
    compete with it, while those of the other sign rule themselves out. NaN if there is no interference."""
    signal: Float[Tensor, " steps"]
    """Mean power of each step in the queries that ask for it, at the largest number of pairs; NaN if none does."""
    interference: Float[Tensor, " steps"]
    """Mean power of each step in the other queries."""
    layers: tuple[str, ...]
    """Names of the layers."""
    without: Float[Tensor, "numbers layers"]
    """Share of right answers if the value asked for is erased in one layer alone."""
    dimension: float
    """Participation ratio of the values at the largest number of pairs."""
    classes: int
    """Number of possible answers."""

    @property
    def recalling_layer(self) -> str:
        """Name of the layer whose values the answers need most."""
        return self.layers[int(self.without.mean(0).argmin())]

    @property
    def errors(self) -> Float[Tensor, " numbers"]:
        """Predicted minus measured accuracy at each number of pairs."""
        return (self.predicted - self.measured).mean(1)

    @property
    def rms(self) -> float:
        """Root mean square of the errors."""
        return float(self.errors.square().mean().sqrt())

    def interval(self) -> tuple[Float[Tensor, " numbers"], Float[Tensor, " numbers"]]:
        """Return the 95% interval of the measured accuracy, by a bootstrap over sequences; Wilson's at 0 and 1."""
        return widen_certain(bootstrap_interval(self.measured.T), self.measured.mean(1), self.measured.shape[1])

    def error_interval(self) -> tuple[Float[Tensor, " numbers"], Float[Tensor, " numbers"]]:
        """Return the 95% interval of the errors, by a bootstrap over sequences."""
        return bootstrap_interval((self.predicted - self.measured).T)

    def summary(self) -> str:
        """Return the predicted and the measured accuracy, how far they differ, and the ratio behind them."""
        most, sequences = f"{self.pairs[-1]} pair{'s' * (self.pairs[-1] > 1)}", self.measured.shape[1]
        numbers = most if len(self.pairs) == 1 else f"{self.pairs[0]} to {most}"
        measured, predicted = (_span(accuracy) for accuracy in (self.measured, self.predicted))
        low, high = self.error_interval()
        beyond = int(((low > 0) | (high < 0)).sum())
        chance = (
            "no more than the scatter between sequences explains"
            if beyond == 0
            else f"more than the scatter between sequences explains at {_count(beyond, len(self.pairs))}"
        )
        where = f" in {self.recalling_layer}" if len(self.layers) > 1 else ""
        ratio, same = self.ratios[-1].nanmedian(), float(self.same_sign[-1])
        sign = f"; {same:.0%} of the latter has the sign of the former" if isfinite(same) else ""
        return (
            f"Recall of {numbers}, predicted from interference without a fit: {predicted}; measured {measured} in "
            f"{sequences} sequences, with 95% intervals over these. The rms difference is {100 * self.rms:.1f} points, "
            f"{chance}. At {most}, the power of the value asked for{where} is {float(ratio):.2g} times that of all "
            f"others together, in the median query{sign}."
        )


def _span(accuracy: Float[Tensor, "numbers sequences"]) -> str:
    """Return the accuracies at the smallest and the largest number of pairs, with their intervals."""
    means = accuracy.mean(1)
    low, high = widen_certain(bootstrap_interval(accuracy.T), means, accuracy.shape[1])
    rows = torch.stack([means, low, high], 1).tolist()
    texts = [f"{mean:.1%} ({least:.1%} to {most:.1%})" for mean, least, most in rows]
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def _count(number: int, of: int) -> str:
    return "this number" if of == 1 else f"{number} of {of} numbers"
