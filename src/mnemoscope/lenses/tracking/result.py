"""The result of the state-tracking lens."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf, isnan, nan
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float, Int
from mnemoscope.lenses.bootstrap import Interval, wilson_interval
from mnemoscope.lenses.result import Result

METHODS = {
    "moments": "exact moments of the states",
    "closure": "moments of the states, assumed Gaussian after every letter",
    "words": "drawn words",
}

CORRECTED = 0.1
"""Share of a displacement that is left at most in a network that corrects errors."""


@dataclass(frozen=True, repr=False)
class StateTracking(Result):
    """How a network follows the products of words of a group, and the length at which it fails.

    Fields about operators are empty for a network whose step is not affine in the state.
    """

    noun: ClassVar[str] = "state tracking"
    drawn_by: ClassVar[str] = "draw_state_tracking"

    method: str
    """"moments", "closure" or "words": how the accuracies were computed."""
    components: int
    """Number of Gaussians for each class."""
    order: int
    """Number of elements of the group."""
    letters: tuple[str, ...]
    """Names of the letters."""
    period: int
    """Elements recur only at lengths that differ by multiples of it, as even elements of S3 for two transpositions."""
    lengths: Int[Tensor, " lengths"]
    """Lengths of words, in letters, at which the accuracy is known."""
    accuracy: Float[Tensor, " lengths"]
    """Predicted share of words of each length whose product is answered."""
    standard_error: Float[Tensor, " lengths"]
    """Standard error of the accuracy from the limited number of samples, or of words."""
    separation: Float[Tensor, " lengths"]
    """Least distance between the mean states of two elements; NaN with drawn words."""
    spread: Float[Tensor, " lengths"]
    """Root mean square distance of states from the mean of their element; NaN with drawn words."""
    exact: bool
    """Whether the states of each element are one point that the letters map onto those of others, up to rounding."""
    decay: float
    """Factor per letter by which the class means approach each other in long words; NaN if not affine."""
    eigenvalues: Complex[Tensor, "letters rank"]
    """Eigenvalues of the operator of each letter, on the span of the differences between class means."""
    relations: Float[Tensor, "letters elements"]
    """|rho(x) rho(g) - rho(x g)| for every letter and element."""
    closure: Float[Tensor, "letters elements"]
    """Distance of the image of a class mean from the class mean that it belongs to, in least separations."""
    dimensions: tuple[int, ...]
    """Dimensions of the irreducible representations of the group over the complex numbers."""
    kernels: tuple[int, ...]
    """Number of elements that each of them maps to the identity; 1 if it is faithful."""
    multiplicities: Float[Tensor, " irreps"]
    """How often each of them occurs among the operators."""
    displacement: Float[Tensor, " letters_after"]
    """Share of a displacement towards another element that is left after 0, 1, 2, ... letters, relative to the
    distance between the two; it falls to 0 if the network corrects errors, or forgets. Measured on drawn words."""
    displacement_interval: Float[Tensor, "2 letters_after"]
    """Lower and upper edge of its 95% interval, by the bootstrap over these words."""
    measured: Float[Tensor, " letters_of_words"]
    """Measured accuracy after 1, 2, ... letters; empty unless words were drawn."""
    words: int
    """Number of drawn words."""

    @property
    def chance(self) -> float:
        """Accuracy of guessing."""
        return 1 / self.order

    @property
    def half_time(self) -> float:
        """Length at which the accuracy is half way to chance; as `time_at`."""
        return self.time_at((1 + self.chance) / 2)

    @property
    def ninety_time(self) -> float:
        """Length at which the accuracy falls below 90%; as `time_at`."""
        return self.time_at(0.9)

    def time_at(self, level: float) -> float:
        """Return the length at which the accuracy, averaged over a period, falls below a level for good.

        It is infinite if the network is exact, NaN if beyond the last length, and 0 if the accuracy never reaches the
        level.
        """
        if self.method == "words":
            return self.measured_time(level)
        return inf if self.exact else crossing(*period_means(self.lengths, self.accuracy, self.period), level)

    def measured_time(self, level: float) -> float:
        """Return the same for the measured accuracy; NaN without drawn words."""
        return measured_crossing(self.measured, self.period, level)

    def measured_interval(self) -> Interval:
        """Return Wilson's 95% interval of the measured accuracy over words; empty without drawn words."""
        return wilson_interval(self.measured * self.words, max(self.words, 1))

    def measured_time_interval(self, level: float) -> tuple[float, float]:
        """Return the lengths at which the two edges of `measured_interval` fall below a level for good.

        The interval holds the length at which the accuracy over all words crosses the level in at least 95% of cases.
        """
        low, high = (measured_crossing(edge, self.period, level) for edge in self.measured_interval())
        return low, high

    @property
    def modulus_error(self) -> float:
        """Largest distance of an eigenvalue from the unit circle; NaN without operators."""
        return float((self.eigenvalues.abs() - 1).abs().max()) if self.eigenvalues.numel() else nan

    @property
    def clear(self) -> bool:
        """Whether the multiplicities are within 0.1 of whole numbers."""
        off = (self.multiplicities - self.multiplicities.round()).abs()
        return bool(len(off)) and bool(off.max() <= 0.1)

    def representation(self) -> str:
        """Return the irreducible representations that the operators contain, as text; "" if they are not clear."""
        if not self.clear:
            return ""
        counts = [round(count) for count in self.multiplicities.tolist()]
        parts = []
        for count, dimension, kernel in zip(counts, self.dimensions, self.kernels, strict=True):
            if count > 0:
                kind = "faithful" if kernel == 1 else "trivial" if kernel == self.order else f"kernel of {kernel}"
                parts.append(f"{f'{count} x ' if count > 1 else ''}dimension {dimension} ({kind})")
        return " + ".join(parts)

    def summary(self) -> str:
        """Return the horizon, how it was computed, and how well the letters represent the group."""
        parts = [f"Words of a group of order {self.order}, by {METHODS[self.method]}."]
        half, ninety, last = self.half_time, self.ninety_time, int(self.lengths[-1])
        if isinf(half):
            parts.append(
                "The states of each element are one point, which the letters permute: no length makes it fail."
            )
        elif isnan(half):
            parts.append(
                f"At {last} letters the accuracy is {self._accuracy_text(float(self.accuracy[-1]))}, not yet half way "
                f"to chance."
            )
        else:
            parts.append(self._failure(half, ninety))
        if self.eigenvalues.numel():
            rank = self.eigenvalues.shape[1]
            where = f"On the {rank} dimension{'s' * (rank > 1)} of the class means"
            parts.append(
                f"{where}, eigenvalues of the letters differ from modulus 1 by up to {self.modulus_error:.2g}; "
                f"|rho(x)rho(g) - rho(xg)| is at most {float(self.relations.max()):.2g}."
            )
            found = self.representation()
            parts.append(f"Representation: {found}." if found else "No clear representation.")
        parts.append(self._correction())
        if self.words and self.method != "words":
            parts.append(f"Measured on {self.words} words: half way at {self._measured_text((1 + self.chance) / 2)}.")
        return " ".join(parts)

    def _failure(self, half: float, ninety: float) -> str:
        """Return the lengths at which the accuracy falls below 90% and half way to chance, or that it never was above.

        Those of drawn words have intervals.
        """
        drawn = self.method == "words"
        name = f"accuracy measured on {self.words} words" if drawn else "predicted accuracy"
        if half == 0:
            best = float(period_means(self.lengths, self.accuracy, self.period)[1].max())
            return (
                f"The {name} is {self._accuracy_text(best)} at best, less than half way from chance "
                f"({self.chance:.3g}) to 1: the network does not follow the products of this group."
            )
        at_half, at_ninety = (
            self._measured_text(level) if drawn else f"{time:.0f}"
            for level, time in (((1 + self.chance) / 2, half), (0.9, ninety))
        )
        fails = f"falls below 90% at {at_ninety} letters" if ninety else "never reaches 90%"
        return f"The {name} {fails} and is half way to chance ({self.chance:.3g}) at {at_half}."

    def _accuracy_text(self, accuracy: float) -> str:
        """Return an accuracy, with Wilson's interval if words were drawn."""
        if self.method != "words":
            return f"{accuracy:.3f}"
        low, high = map(float, wilson_interval(accuracy * self.words, self.words))
        return f"{accuracy:.3f} (95% interval {low:.3f} to {high:.3f})"

    def _measured_text(self, level: float) -> str:
        """Return the measured length at a level, with its interval."""
        low, high = self.measured_time_interval(level)
        last = len(self.measured)
        edges = f"{_text(low, last)} to {_text(high, last)}"
        return f"{_text(self.measured_time(level), last)} (95% interval {edges})"

    def _correction(self) -> str:
        """Return whether errors are corrected, which is not known of a network that may have forgotten the word."""
        left, after = float(self.displacement[-1]), len(self.displacement) - 1
        if left >= CORRECTED:
            found = "it does not correct errors"
        elif self.half_time > after or (isnan(self.half_time) and int(self.lengths[-1]) >= after):
            found = "it corrects such errors"
        else:
            found = "whether it corrects or forgets them is not known, as it was not seen to answer at this length"
        low, high = (f"{float(edge):.0%}" for edge in self.displacement_interval[:, -1])
        share = f"{left:.0%} ({low} to {high})"
        return f"Of a displacement towards another element, {share} is left after {after} letters: {found}."


def _text(time: float, last: int) -> str:
    return f"more than {last}" if isnan(time) else f"{time:.0f}"


def crossing(lengths: Float[Tensor, " n"], accuracy: Float[Tensor, " n"], level: float) -> float:
    """Return where a curve falls below a level and stays there, by linear interpolation.

    It is NaN if the curve ends above the level, or is empty, and 0 if it is never above.

    >>> crossing(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.8, 0.4]), 0.6)
    2.5
    """
    above = (accuracy >= level).nonzero().flatten()
    if not len(above):
        return 0.0 if len(lengths) else nan
    last = int(above[-1])
    if last + 1 == len(lengths):
        return nan
    high, low = float(accuracy[last]), float(accuracy[last + 1])
    share = (high - level) / (high - low)
    return float(lengths[last] + share * (lengths[last + 1] - lengths[last]))


def period_means(
    lengths: Int[Tensor, " n"], accuracy: Float[Tensor, " n"], period: int
) -> tuple[Float[Tensor, " blocks"], Float[Tensor, " blocks"]]:
    """Return mean length and mean accuracy of each run of `period` consecutive lengths.

    >>> period_means(torch.tensor([1, 2, 3, 7, 8]), torch.tensor([1.0, 0.0, 1.0, 0.5, 0.1]), 2)[0].tolist()
    [1.5, 2.5, 7.5]
    """
    if len(lengths) < period:
        return lengths.double(), accuracy
    whole = lengths[period - 1 :] - lengths[: len(lengths) - period + 1] == period - 1
    means = (x.double().unfold(0, period, 1).mean(1)[whole] for x in (lengths, accuracy))
    return next(means), next(means)


def measured_crossing(accuracy: Float[Tensor, " n"], period: int, level: float) -> float:
    """Return where a measured curve, over lengths 1, 2, ..., falls below a level for good.

    It is averaged over periods, and over lengths within 5%.
    """
    if len(accuracy) < period:
        return nan
    lengths, means = period_means(torch.arange(1, len(accuracy) + 1), accuracy, period)
    return crossing(lengths, smoothed(means), level)


def smoothed(accuracy: Float[Tensor, " n"], width: float = 0.05) -> Float[Tensor, " n"]:
    """Return the mean of a curve over lengths within a share of each length, fewer at the end."""
    number = len(accuracy)
    total = torch.cat([accuracy.new_zeros(1), accuracy.cumsum(0)])
    lengths = torch.arange(1, number + 1)
    reach = torch.minimum((width * lengths).round().long(), number - lengths)
    low, high = lengths - 1 - reach, lengths + reach
    return (total[high] - total[low]) / (high - low)
