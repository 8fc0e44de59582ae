"""The result of the interference lens."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.bootstrap import bootstrap_interval, widen_certain
from mnemoscope.lenses.interference.moments import ValueMoments
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
    """Predicted share, with the interference that similar queries of other sequences meet."""
    gaussian: Float[Tensor, "numbers sequences"]
    """Predicted share, with a Gaussian interference of the same covariance."""
    closed_form: Float[Tensor, "numbers sequences"]
    """Predicted share from the ratio of signal and interference of each query alone."""
    ratios: Float[Tensor, "numbers sequences queries"]
    """Power of the value asked for over that of all others, in each query of the layer that recalls; NaN where a
    sequence has fewer queries than another."""
    sign_powers: Float[Tensor, "numbers sequences 2"]
    """Power of all other values whose weight has the sign of that of the value asked for, and that of all others."""
    signal_powers: Float[Tensor, "sequences steps 2"]
    """Power of each step in the queries that ask for it, and the number of these, at the largest number of pairs."""
    interference_powers: Float[Tensor, "sequences steps 2"]
    """The same of each step in the other queries."""
    layers: tuple[str, ...]
    """Names of the layers."""
    without: Float[Tensor, "numbers layers sequences"]
    """Share of right answers in each sequence if the value asked for is erased in one layer alone."""
    turned: Float[Tensor, " sequences"]
    """Share of the answers at the fewest pairs that turn from right to wrong, or back, if the layers above the first
    hold the value asked for as they do in another sequence: those that the prediction does not decide."""
    value_powers: Float[Tensor, "sequences 2"]
    """Power of the values asked for in each sequence, and number of these, at the largest number of pairs."""
    value_overlaps: Float[Tensor, "sequences sequences"]
    """Squared products of the values of two sequences, added up."""
    value_size: int
    """Number of components of a value."""
    classes: int
    """Number of possible answers."""

    @property
    def recalling_layer(self) -> str:
        """Name of the layer whose values the answers need most."""
        return self.layers[int(self.without.nanmean((0, 2)).argmin())]

    @property
    def errors(self) -> Float[Tensor, " numbers"]:
        """Predicted minus measured accuracy at each number of pairs."""
        return (self.predicted - self.measured).mean(1)

    @property
    def rms(self) -> float:
        """Root mean square of the errors."""
        return float(self.errors.square().mean().sqrt())

    @property
    def median_ratio(self) -> Float[Tensor, " numbers"]:
        """Median of `ratios` over all queries."""
        return _median(self.ratios.movedim(1, 0))

    @property
    def same_sign(self) -> Float[Tensor, " numbers"]:
        """Share of the power of all other values whose weight has the sign of that of the value asked for.

        These values compete with it, while those of the other sign rule themselves out. NaN if there is no
        interference.
        """
        return _share(self.sign_powers.movedim(1, 0))

    @property
    def dimension(self) -> float:
        """Participation ratio of the values at the largest number of pairs: the number of dimensions that they fill."""
        return float(self._moments.dimension())

    @property
    def _moments(self) -> ValueMoments:
        return ValueMoments(self.value_powers, self.value_overlaps, self.value_size)

    @property
    def signal(self) -> Float[Tensor, " steps"]:
        """Mean power of each step in the queries that ask for it, at the largest number of pairs; NaN if none does."""
        return _share(self.signal_powers)

    @property
    def interference(self) -> Float[Tensor, " steps"]:
        """Mean power of each step in the other queries."""
        return _share(self.interference_powers)

    def signal_interval(self) -> tuple[Float[Tensor, " steps"], Float[Tensor, " steps"]]:
        """Return the 95% interval of `signal`, by a bootstrap over sequences."""
        return bootstrap_interval(self.signal_powers, _share)

    def interference_interval(self) -> tuple[Float[Tensor, " steps"], Float[Tensor, " steps"]]:
        """Return the 95% interval of `interference`, by a bootstrap over sequences."""
        return bootstrap_interval(self.interference_powers, _share)

    def without_interval(self) -> tuple[Float[Tensor, "numbers layers"], Float[Tensor, "numbers layers"]]:
        """Return the 95% interval of the mean of `without`, by a bootstrap over sequences; Wilson's at 0 and 1."""
        samples = self.without.movedim(2, 0)
        return widen_certain(bootstrap_interval(samples), samples.nanmean(0), len(samples))

    def turned_interval(self) -> tuple[float, float]:
        """Return the 95% interval of the mean of `turned`, by a bootstrap over sequences; Wilson's at 0 and 1."""
        samples = self.turned.unsqueeze(1)
        low, high = widen_certain(bootstrap_interval(samples), samples.mean(0), len(samples))
        return float(low), float(high)

    def ratio_interval(self) -> tuple[Float[Tensor, " numbers"], Float[Tensor, " numbers"]]:
        """Return the 95% interval of the median ratio, by a bootstrap over sequences."""
        return bootstrap_interval(self.ratios.movedim(1, 0), _median)

    def same_sign_interval(self) -> tuple[Float[Tensor, " numbers"], Float[Tensor, " numbers"]]:
        """Return the 95% interval of `same_sign`, by a bootstrap over sequences."""
        return bootstrap_interval(self.sign_powers.movedim(1, 0), _share)

    def dimension_interval(self) -> tuple[float, float]:
        """Return the 95% interval of `dimension`, by a bootstrap over sequences."""
        low, high = bootstrap_interval(torch.arange(len(self.value_powers)), self._moments.dimension)
        return float(low), float(high)

    def rms_interval(self) -> tuple[float, float]:
        """Return the 95% interval of the root mean square of the errors, by a bootstrap over sequences."""
        errors = (self.predicted - self.measured).T
        low, high = bootstrap_interval(errors, lambda drawn: drawn.mean(0).square().mean().sqrt())
        return float(low), float(high)

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
        erased = self._erased() if len(self.layers) > 1 else ""
        ratio, same = float(self.median_ratio[-1]), float(self.same_sign[-1])
        ratios, shares = (
            bootstrap_interval(values[-1:].movedim(1, 0), statistic)  # of the largest number of pairs alone
            for values, statistic in ((self.ratios, _median), (self.sign_powers, _share))
        )
        sign = f"; {_with_interval(same, shares, '.0%')} of the latter has the sign of the former"
        return (
            f"Recall of {numbers}, predicted from interference without a fit: {predicted}; measured {measured} in "
            f"{sequences} sequences, with 95% intervals over these. The rms difference is {100 * self.rms:.1f} points"
            f"{_points(self.rms_interval())}, {chance}. At {most}, the power of the value asked for{where} is "
            f"{_with_interval(ratio, ratios, '.2g')} times that of all others together, in the median "
            f"query{sign * isfinite(same)}.{erased}"
        )

    def _erased(self) -> str:
        """Return how many answers are right without the value asked for in each layer, at the fewest pairs."""
        means, (low, high) = self.without.nanmean(2)[0].tolist(), self.without_interval()
        texts = [
            f"{name} {_with_interval(mean, (low[0, which], high[0, which]), '.1%')}"
            for which, (name, mean) in enumerate(zip(self.layers, means, strict=True))
        ]
        pairs = f"{self.pairs[0]} pair{'s' * (self.pairs[0] > 1)}"
        text = f" Right answers to {pairs} if the value asked for is erased in one layer: {', '.join(texts)}."
        low, high = self.turned_interval()
        return (
            f"{text} If the layers above the first held it as they do in another sequence, "
            f"{float(self.turned.mean()):.1%} ({low:.1%} to {high:.1%}) of these answers would turn: the prediction "
            f"does not decide them."
        )


def _median(ratios: Float[Tensor, "sequences numbers queries"]) -> Float[Tensor, " numbers"]:
    return ratios.movedim(0, 1).flatten(1).nanmedian(1).values


def _share(powers: Float[Tensor, "sequences numbers 2"]) -> Float[Tensor, " numbers"]:
    """Return the quotient of two sums over sequences."""
    part, whole = powers.sum(0).unbind(-1)
    return part / whole


def _with_interval(value: float, interval: tuple[Tensor, Tensor], style: str) -> str:
    """Return a number with its interval, if that is known."""
    low, high = map(float, interval)
    known = isfinite(low) and isfinite(high)
    return f"{value:{style}}" + f" ({low:{style}} to {high:{style}})" * known


def _points(interval: tuple[float, float]) -> str:
    low, high = (100 * edge for edge in interval)
    return f" ({low:.1f} to {high:.1f})" if isfinite(low) else ""


def _span(accuracy: Float[Tensor, "numbers sequences"]) -> str:
    """Return the accuracies at the smallest and the largest number of pairs, with their intervals."""
    means = accuracy.mean(1)
    low, high = widen_certain(bootstrap_interval(accuracy.T), means, accuracy.shape[1])
    rows = torch.stack([means, low, high], 1).tolist()
    texts = [f"{mean:.1%} ({least:.1%} to {most:.1%})" for mean, least, most in rows]
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def _count(number: int, of: int) -> str:
    return "this number" if of == 1 else f"{number} of {of} numbers"
