"""The result of the Lyapunov lens: how fast small differences grow along trajectories, direction by direction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.attractors.power_growth import exceeds_power_growth
from mnemoscope.lenses.result import Result

ROUNDINGS = 64
"""Rounding errors of a step, at most, in units of the resolution of a number and the root of the size of the state."""

SLOWER = 0.75
"""Growth in the second half of the steps, relative to the first, below which the summary says that it slows down."""


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
    transient: int = 500
    """Steps before them; files of earlier versions lack it, and 500 is the default."""

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
        """Standard error of each exponent of each start: from the scatter of its blocks, or the rounding error.

        It is that of the mean growth over these steps. If states separate in proportion to time, the exponent is 0, and
        the mean growth is above 0 by more than this error, as it falls like log(time) / time: see `signs`.
        """
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
    def signs(self) -> Int[Tensor, " starts"]:
        """Sign of the largest exponent of each start, 1 or -1; 0 if it is not decided.

        It is decided if the exponent is two standard errors away from 0, and if no growth by a power of time explains
        the blocks: differences that grow as t or 1 / t have an exponent of 0.
        """
        values, errors = self.exponents[:, 0], self.errors[:, 0]
        certain = (values.abs() > 2 * errors) & self._exceeds_power_growth
        return torch.where(certain, values.nan_to_num().sign(), 0).to(torch.int64)

    @property
    def sign(self) -> int:
        """Sign of `leading`, 1 or -1; 0 if it is not decided, as in `signs`."""
        growth = self._leading_blocks[self.alive].mean(0, keepdim=True)
        if not abs(self.leading) > 2 * float(self.mean_errors[0]):
            return 0
        exceeds = exceeds_power_growth(growth, torch.tensor([self.steps]), self.transient, self.size)
        return int(exceeds) * (1 if self.leading > 0 else -1)

    @property
    def _exceeds_power_growth(self) -> Bool[Tensor, " starts"]:
        steps = torch.full((len(self.blocks),), self.steps) if self.steps_of_starts is None else self.steps_of_starts
        return exceeds_power_growth(self._leading_blocks, steps, self.transient, self.size)

    @property
    def _leading_blocks(self) -> Float[Tensor, "starts blocks"]:
        """Growth per step of the direction that grows most, in each block."""
        chosen = self._order[:, None, :1].expand(-1, self.blocks.shape[1], 1)
        return self.blocks.gather(2, chosen)[:, :, 0] * (self.dt or 1.0)

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
        """Whether the largest exponent of every start is negative, as far as `signs` decides.

        Nearby states then converge, and after a long enough drive the state depends on the inputs alone: the echo state
        property, as far as these starts show.
        """
        return bool(self.alive.all() and (self.signs == -1).all())

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
    clear = spectrum.exponents[:, 0].abs() > 3 * spectrum.errors[:, 0]
    diverging, converging = (int((clear & (spectrum.signs == sign)).sum()) for sign in (1, -1))
    if diverging and converging:
        yield (
            f"Nearby states diverge from {diverging} starts and converge from {converging}: these are different "
            f"attractors, and the means describe none of them; `exponents` has the values of each start."
        )
    elif spectrum.sign == 1:
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
    elif abs(value) > 2 * error and not spectrum.sign:
        yield _undecided_sentence(spectrum)
    elif spectrum.sign == -1:
        decided = int((spectrum.signs == -1).sum())
        yield (
            "The largest is negative from every start that stayed finite: nearby states converge there."
            if decided == alive
            else f"The largest is negative on average, but not certainly so from {alive - decided} of {alive} starts."
        )
    else:
        yield "The largest is indistinguishable from 0, or its sign differs between starts."


def _undecided_sentence(spectrum: LyapunovSpectrum) -> str:
    first, second = (float(half.mean()) for half in spectrum._leading_blocks[spectrum.alive].tensor_split(2, dim=1))
    growth, separate = ("growth", "separate") if spectrum.leading > 0 else ("decay", "approach")
    law = "time" if spectrum.leading > 0 else "a power of time"
    if abs(second) < SLOWER * abs(first):
        how = f"The {growth} slows down as it does where nearby states {separate} in proportion to {law}"
    else:
        how = f"As far as the {growth} over these steps shows, nearby states may {separate} in proportion to {law}"
    undecided = "which is an exponent of 0, so that the sign of the largest is not decided"
    return f"{how}, {undecided}. More steps decide it, unless it is 0."
