"""The Lyapunov lens: how fast small differences grow along trajectories, direction by direction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LyapunovSpectrum:
    """Lyapunov exponents along several trajectories, per step of a map, per unit of time of a flow.

    >>> import mnemoscope as ms
    >>> tent = ms.adapt(lambda x, h: 4 * h * (1 - h), state_size=1)  # its exponent is log 2
    >>> seen = ms.lyapunov_spectrum(ms.Dynamics(tent, bounds=(0, 1)), steps=2000)
    >>> round(seen.leading, 2)
    0.69
    """

    blocks: Float[Tensor, "starts blocks count"]
    """Mean growth of each direction in each block of steps; NaN of a start that left to infinity or became
    undefined."""
    steps: int
    """Steps that were averaged over."""
    size: int
    """Numbers of the state: the length of the whole spectrum."""
    dt: float | None = None
    """Length of a step of a flow; None of a map."""
    driven: bool = False
    """Whether a sequence of inputs drove the network: the exponents are then those given the inputs."""

    @property
    def count(self) -> int:
        """How many exponents there are of each start."""
        return self.blocks.shape[2]

    @property
    def alive(self) -> Bool[Tensor, " starts"]:
        """Which starts did not leave to infinity, nor become undefined (NaN)."""
        return ~self.blocks.isnan().flatten(1).any(1)

    @property
    def exponents(self) -> Float[Tensor, "starts count"]:
        """Of each start, largest first; minus infinity where a direction is lost at once.

        A direction that shrinks in one orthonormalisation below the rounding of the others ends there: exponents lower
        than the largest one by more than about 36 / every are rounding.
        """
        return self.blocks.mean(1).gather(1, self._order)

    @property
    def errors(self) -> Float[Tensor, "starts count"]:
        """Standard error of each exponent, from the scatter of its blocks; of a single start."""
        scatter = self.blocks.std(1) / self.blocks.shape[1] ** 0.5
        lost = self.blocks.mean(1).isneginf()
        return scatter.masked_fill(lost, 0).gather(1, self._order)

    @property
    def _order(self) -> Tensor:
        return self.blocks.mean(1).argsort(dim=1, descending=True, stable=True)

    @property
    def convergence(self) -> Float[Tensor, "starts blocks count"]:
        """The exponents as they stood after each block."""
        number = torch.arange(1, self.blocks.shape[1] + 1, dtype=self.blocks.dtype)
        running = self.blocks.cumsum(1) / number[:, None]
        return running.gather(2, self._order[:, None, :].expand_as(running))

    @property
    def mean(self) -> Float[Tensor, " count"]:
        """Mean over the starts that stayed finite: the spectrum of the system where they share one attractor."""
        return self.exponents[self.alive].mean(0)

    @property
    def mean_errors(self) -> Float[Tensor, " count"]:
        """Standard error of `mean`: from the scatter of starts, or from blocks where that is larger (few starts)."""
        alive = int(self.alive.sum())
        within = self.errors[self.alive].square().sum(0).sqrt() / max(alive, 1)
        if alive < 2:
            return within
        values = self.exponents[self.alive]
        across = (values.std(0) / alive**0.5).masked_fill(values.isneginf().any(0), 0)
        return torch.maximum(within, across)

    @property
    def leading(self) -> float:
        """The largest exponent, mean over the starts."""
        return float(self.mean[0])

    @property
    def dimension(self) -> float:
        """Kaplan-Yorke dimension j + (l_1 + ... + l_j) / |l_(j+1)| of `mean`, with the largest j whose sum is not below
        0; NaN where that takes more exponents than were computed.
        """
        return kaplan_yorke(self.mean, self.size)

    @property
    def entropy(self) -> float:
        """Sum of the positive exponents of `mean`, a bound of the entropy rate (Ruelle's inequality), in nats; a lower
        bound of the sum where all exponents computed are positive and more exist.
        """
        return float(self.mean.clamp_min(0).sum())

    @property
    def forgets(self) -> bool:
        """Whether the largest exponent of every start lies two standard errors below 0: nearby states come together, so
        that driven long enough the state depends on the inputs alone (echo state property, as far as starts tell).
        """
        largest = self.exponents[:, 0] + 2 * self.errors[:, 0]
        return bool(self.alive.all() and (largest < 0).all())

    def summary(self) -> str:
        """The result in words."""
        return " ".join(_sentences(self))

    def __repr__(self) -> str:
        return f"LyapunovSpectrum({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `LyapunovSpectrum.load` reads it back."""
        flags = {"steps": self.steps, "size": self.size, "dt": self.dt, "driven": self.driven}
        save_result(path, "LyapunovSpectrum", {"blocks": self.blocks}, flags)

    @classmethod
    def load(cls, path: str | Path) -> LyapunovSpectrum:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "LyapunovSpectrum", "a Lyapunov spectrum")
        return cls(**tensors, **flags)

    def figure(self) -> Figure:
        """Exponents with their errors, and how they converged (needs the `report` extra)."""
        from mnemoscope.lenses.attractors.figure import draw_exponents

        return draw_exponents(self)


def kaplan_yorke(exponents: Float[Tensor, " count"], size: int) -> float:
    """The Kaplan-Yorke dimension of exponents in descending order, of a state of `size` numbers; NaN if too few."""
    values = exponents.tolist()
    if not values or values[0] != values[0]:
        return float("nan")
    total = 0.0
    for index, value in enumerate(values):
        if total + value < 0:
            return index + total / -value
        total += value
    return float(size) if len(values) == size else float("nan")


def _sentences(seen: LyapunovSpectrum) -> Iterator[str]:
    alive, starts = int(seen.alive.sum()), seen.blocks.shape[0]
    unit = "per step" if seen.dt is None else "per unit of time"
    if alive < starts:
        yield f"{starts - alive} of {starts} starts left to infinity or became undefined (NaN)."
    if not alive:
        return
    pairs = list(zip(seen.mean.tolist(), seen.mean_errors.tolist(), strict=True))[:4]
    shown = ", ".join(f"{value:.4g} ± {error:.1g}" for value, error in pairs)
    what = "exponents given the inputs" if seen.driven else "Lyapunov exponents"
    rest = f" (the first {len(pairs)} of {seen.count})" if seen.count > len(pairs) else ""
    yield f"{what[0].upper()}{what[1:]}, {unit}{rest}: {shown}; over {seen.steps} steps from {alive} starts."
    value, error = pairs[0]
    part, meet = _signs(seen)
    if part and meet:
        yield (
            f"From {part} starts nearby states part, from {meet} they come together: these are different attractors, "
            f"and the means belong to none of them; `exponents` has each start's own."
        )
    elif value > 2 * error and value > 0:
        dimension = seen.dimension
        size = f"{dimension:.3g}" if dimension == dimension else f"beyond the {seen.count} exponents computed"
        more = "at least " if seen.count < seen.size and float(seen.mean[-1]) > 0 else ""
        yield (
            f"The largest is positive: nearby states part by e in {1 / value:.3g} {_time(seen)}; Kaplan-Yorke "
            f"dimension {size}, positive exponents {more}{seen.entropy:.3g} in sum, which bounds the entropy rate."
        )
    elif seen.forgets:
        yield "The largest is negative from every start: nearby states come together, and the start is forgotten."
    else:
        yield "The largest cannot be told from 0, or its sign differs between starts."


def _signs(seen: LyapunovSpectrum) -> tuple[int, int]:
    """From how many starts the largest exponent is positive, and negative, for certain."""
    largest, error = seen.exponents[seen.alive][:, 0], seen.errors[seen.alive][:, 0]
    return int((largest > 3 * error).sum()), int((largest < -3 * error).sum())


def _time(seen: LyapunovSpectrum) -> str:
    return "steps" if seen.dt is None else "units of time"
