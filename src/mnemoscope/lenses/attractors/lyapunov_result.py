"""The result of the Lyapunov lens: how fast small differences grow along trajectories, direction by direction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.result import Result

ROUNDINGS = 64
"""Rounding errors of a step, at most, in units of the resolution of a number and the root of the size of the state."""


@dataclass(frozen=True, repr=False)
class LyapunovSpectrum(Result):
    """Lyapunov exponents along several trajectories, per step of a map or per unit of time of a flow.

    >>> import mnemoscope as ms
    >>> logistic = ms.adapt(lambda x, h: 4 * h * (1 - h), state_size=1)  # its exponent is log 2
    >>> spectrum = ms.lyapunov_spectrum(ms.Dynamics(logistic, bounds=(0, 1)), steps=2000)
    >>> round(spectrum.leading, 2)
    0.69
    """

    noun: ClassVar[str] = "a Lyapunov spectrum"
    drawn_by: ClassVar[str] = "draw_exponents"

    blocks: Float[Tensor, "starts blocks count"]
    """Mean growth of each direction in each block of steps; NaN for a start that left to infinity or became
    undefined."""
    steps: int
    """Steps averaged over, from the start with the most."""
    size: int
    """Numbers in the state: the length of the whole spectrum."""
    dt: float | None = None
    """Length of a time step of a flow; None for a map."""
    driven: bool = False
    """Whether a sequence of inputs drove the network: the exponents are then conditional on the inputs."""
    steps_of_starts: Int[Tensor, " starts"] | None = None
    """Steps averaged over from each start, if these differ."""

    @property
    def count(self) -> int:
        """Number of exponents of each start."""
        return self.blocks.shape[2]

    @property
    def alive(self) -> Bool[Tensor, " starts"]:
        """Whether each start stayed finite."""
        return ~self.blocks.isnan().flatten(1).any(1)

    @property
    def exponents(self) -> Float[Tensor, "starts count"]:
        """Exponents of each start, largest first; minus infinity if a direction is lost in one step.

        Between two orthonormalisations a direction can shrink below the rounding of the others; it is then lost.
        Exponents lower than the largest one by more than about 36 / every are rounding errors.
        """
        return self.blocks.mean(1).gather(1, self._order)

    @property
    def errors(self) -> Float[Tensor, "starts count"]:
        """Standard error of each exponent of each start: from the scatter of its blocks, or the rounding error."""
        scatter = (self.blocks.std(1) / self.blocks.shape[1] ** 0.5).clamp_min(self.rounding)
        lost = self.blocks.mean(1).isneginf()
        return scatter.masked_fill(lost, 0).gather(1, self._order)

    @property
    def rounding(self) -> float:
        """Size of an exponent that may be rounding alone: blocks of an orthogonal matrix scatter less than its bias."""
        return ROUNDINGS * torch.finfo(self.blocks.dtype).eps * self.size**0.5 / (self.dt or 1)

    @property
    def _order(self) -> Tensor:
        return self.blocks.mean(1).argsort(dim=1, descending=True, stable=True)

    @property
    def convergence(self) -> Float[Tensor, "starts blocks count"]:
        """Running means of the exponents after each block."""
        number = torch.arange(1, self.blocks.shape[1] + 1, dtype=self.blocks.dtype)
        running = self.blocks.cumsum(1) / number[:, None]
        return running.gather(2, self._order[:, None, :].expand_as(running))

    @property
    def mean(self) -> Float[Tensor, " count"]:
        """Mean over the starts that stayed finite: the spectrum of the system if they share one attractor."""
        return self.exponents[self.alive].mean(0)

    @property
    def mean_errors(self) -> Float[Tensor, " count"]:
        """Standard error of `mean`: from the scatter of starts, or from blocks if that is larger (few starts)."""
        alive = int(self.alive.sum())
        within = (self.errors[self.alive].square().sum(0).sqrt() / max(alive, 1)).clamp_min(self.rounding)
        if alive < 2:
            return within
        values = self.exponents[self.alive]
        across = (values.std(0) / alive**0.5).masked_fill(values.isneginf().any(0), 0)
        return torch.maximum(within, across)

    @property
    def leading(self) -> float:
        """The largest exponent, averaged over the starts."""
        return float(self.mean[0])

    @property
    def dimension(self) -> float:
        """Kaplan-Yorke dimension j + (l_1 + ... + l_j) / |l_(j+1)| of `mean`, where j is the largest number of
        exponents with a sum of at least 0; NaN if that takes more exponents than were computed. Exponents within
        `rounding` of 0 are 0.
        """
        return kaplan_yorke(self._without_rounding(), self.size)

    @property
    def entropy(self) -> float:
        """Sum of the positive exponents of `mean`, in nats: an upper bound of the entropy rate (Ruelle's inequality).

        If all computed exponents are positive and more exist, it is a lower bound of that sum.
        """
        return float(self._without_rounding().clamp_min(0).sum())

    def _without_rounding(self) -> Float[Tensor, " count"]:
        return self.mean.masked_fill(self.mean.abs() <= self.rounding, 0)

    @property
    def forgets(self) -> bool:
        """Whether the largest exponent of every start lies two standard errors below 0.

        Nearby states then converge, and after a long enough drive the state depends on the inputs alone: the echo state
        property, as far as these starts show.
        """
        largest = self.exponents[:, 0] + 2 * self.errors[:, 0]
        return bool(self.alive.all() and (largest < 0).all())

    def summary(self) -> str:
        """Return the result in sentences."""
        return " ".join(_sentences(self))


def kaplan_yorke(exponents: Float[Tensor, " count"], size: int) -> float:
    """Return the Kaplan-Yorke dimension of descending exponents, of `size` in all; NaN if it takes more than given."""
    values = exponents.tolist()
    if not values or values[0] != values[0]:
        return float("nan")
    total = 0.0
    for index, value in enumerate(values):
        if total + value < 0:
            return index + total / -value
        total += value
    return float(size) if len(values) == size else float("nan")


def _sentences(spectrum: LyapunovSpectrum) -> Iterator[str]:
    alive, starts = int(spectrum.alive.sum()), spectrum.blocks.shape[0]
    unit, time = ("per step", "steps") if spectrum.dt is None else ("per unit of time", "units of time")
    if alive < starts:
        yield f"{starts - alive} of {starts} starts left to infinity or became undefined (NaN)."
    if not alive:
        return
    pairs = list(zip(spectrum.mean.tolist(), spectrum.mean_errors.tolist(), strict=True))[:4]
    listed = ", ".join(f"{value:.4g} ± {error:.1g}" for value, error in pairs)
    name = "Conditional Lyapunov exponents" if spectrum.driven else "Lyapunov exponents"
    rest = f" (the first {len(pairs)} of {spectrum.count})" if spectrum.count > len(pairs) else ""
    fewest = "" if spectrum.steps_of_starts is None else f"{int(spectrum.steps_of_starts.min())} to "
    yield f"{name}, {unit}{rest}: {listed}; over {fewest}{spectrum.steps} steps from {alive} starts."
    value, error = pairs[0]
    largest, errors = spectrum.exponents[spectrum.alive][:, 0], spectrum.errors[spectrum.alive][:, 0]
    diverging, converging = int((largest > 3 * errors).sum()), int((largest < -3 * errors).sum())
    if diverging and converging:
        yield (
            f"Nearby states diverge from {diverging} starts and converge from {converging}: these are different "
            f"attractors, and the means describe none of them; `exponents` has the values of each start."
        )
    elif value > 2 * error and value > 0:
        dimension = spectrum.dimension
        size = f"{dimension:.3g}" if dimension == dimension else f"beyond the {spectrum.count} exponents computed"
        more = "at least " if spectrum.count < spectrum.size and float(spectrum.mean[-1]) > 0 else ""
        yield (
            f"The largest is positive: nearby states diverge by a factor e in {1 / value:.3g} {time}; Kaplan-Yorke "
            f"dimension {size}; the positive exponents sum to {more}{spectrum.entropy:.3g}, which bounds the entropy "
            f"rate."
        )
    elif spectrum.forgets:
        yield "The largest is negative from every start: nearby states converge, and the start is forgotten."
    else:
        yield "The largest is indistinguishable from 0, or its sign differs between starts."
