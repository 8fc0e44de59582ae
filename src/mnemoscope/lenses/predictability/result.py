"""The result of the predictability lens: exponents along inputs, and iterations of Newton's method."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Predictability(Result):
    """Whether Newton's method over a sequence is expected to converge, with the numbers that the estimate rests on."""

    noun: ClassVar[str] = "predictability"
    drawn_by: ClassVar[str] = "draw_predictability"

    exponents: Float[Tensor, " sequences"]
    """Largest Lyapunov exponent of each sequence, per step; NaN if its states diverged."""
    errors: Float[Tensor, " sequences"]
    """Standard error of each exponent."""
    lengths: Int[Tensor, " lengths"]
    """Numbers of inputs on which iterations were counted."""
    iterations: Int[Tensor, " lengths"]
    """Iterations on each length, for all sequences together."""
    finished: bool
    """Whether the last of these counts converged; earlier ones did."""
    limit: int
    """Largest number of iterations that was allowed."""
    time: int
    """Number of all inputs."""
    steps: int
    """Inputs over which the exponents are averages."""

    @property
    def exponent(self) -> float:
        """The largest exponent of all sequences; NaN if a sequence diverged."""
        return float(self.exponents.max())

    @property
    def forgets(self) -> bool | None:
        """Whether all sequences forget their initial state: True or False at two standard errors, else None."""
        if bool(self.exponents.isnan().any()) or bool((self.exponents - 2 * self.errors > 0).any()):
            return False
        return True if bool((self.exponents + 2 * self.errors < 0).all()) else None

    @property
    def settles(self) -> bool:
        """Whether from the last length but one to the last, iterations grew by less than half as much as the length."""
        if len(self.lengths) < 2:
            return self.finished
        growth, longer = (float(counts[-1] / counts[-2]) - 1 for counts in (self.iterations, self.lengths))
        return self.finished and growth < longer / 2

    @property
    def converges(self) -> bool | None:
        """Whether few iterations are expected; None if the exponents do not decide, or if the counts contradict them.

        Exponents describe the states of the network. The first guesses are other states, at which it may expand.
        """
        return self.forgets if self.forgets is self.settles else None

    @property
    def predicted(self) -> tuple[int, int]:
        """Least and largest number of iterations expected for all inputs.

        If few are expected, they grow by the slope against the logarithm of the length that the counts show. If many
        are, they are proportional to the length. Both numbers are given if that is not decided.
        """
        slow = ceil(int(self.iterations[-1]) + self._slope() * log2(self.time / int(self.lengths[-1])))
        fast = max(slow, ceil(int(self.iterations[-1]) * self.time / int(self.lengths[-1])))
        slow, fast = min(slow, self.time), min(fast, self.time)
        low = fast if self.converges is False else slow
        return low, slow if self.converges else fast

    @property
    def depth_ratio(self) -> float:
        """Sequential operations of the loop divided by those of Newton's method, by the larger predicted number.

        An iteration takes about `2 log2(time)` of them. It bounds the gain where latency decides, and is no time.
        """
        return self._depth_ratio(self.predicted[1])

    @property
    def pays(self) -> bool | None:
        """Whether few enough iterations are expected: within the limit, and with fewer sequential operations.

        None if the exponent does not decide between the least and the largest expected number.
        """
        least, largest = (number <= self.limit and self._depth_ratio(number) > 1 for number in self.predicted)
        return largest if least == largest else None

    def summary(self) -> str:
        """Return exponent, counts and expectation in sentences."""
        worst = int(self.exponents.nan_to_num(nan=torch.inf).argmax())
        which = "largest Lyapunov exponent" + (" of all sequences" if len(self.exponents) > 1 else "")
        value = f"{float(self.exponents[worst]):.3g} +- {2 * float(self.errors[worst]):.2g} per step"
        counts = ", ".join(str(count) for count in self.iterations.tolist())
        spans = ", ".join(f"{length:,}" for length in self.lengths.tolist())
        tail = "" if self.finished else f", and did not converge on the last within the limit of {self.limit}"
        low, high = self.predicted
        number = f"about {high:,}" if low == high else f"{low:,} to {high:,}"
        return (
            f"Over {self.steps:,} of these inputs the {which} is {value}: {self._verdict()}. Newton's method took "
            f"{counts} iterations on {spans} steps{tail}; for all {self.time:,} steps {number} are expected. "
            f"The loop then has {self.depth_ratio:.2g} times as many sequential operations. This is an estimate on "
            f"these inputs, and no measurement of time."
        )

    def _verdict(self) -> str:
        if self.exponents.isnan().any():
            return "states diverged"
        small = {
            True: "the network forgets its initial state",
            False: "small differences grow",
            None: "this does not decide whether small differences grow",
        }[self.forgets]
        if self.converges is None and self.forgets is not None:
            return f"{small}, but the iterations below do not agree"
        return small

    def _depth_ratio(self, iterations: int) -> float:
        return self.time / (max(1, iterations) * 2 * max(1.0, log2(self.time)))

    def _slope(self) -> float:
        """Return by how much iterations grow if the length doubles: the mean over the lengths, at least 0."""
        if len(self.lengths) < 2:
            return 0.0
        doublings = log2(int(self.lengths[-1]) / int(self.lengths[0]))
        return max(0.0, (int(self.iterations[-1]) - int(self.iterations[0])) / doublings)
