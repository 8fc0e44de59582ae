"""The energy lens on a whole system: what falls along its trajectories, whether it must, and where it does not."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.lenses.energy.descent import ROUNDING
from mnemoscope.lenses.energy.summary import sentences
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class EnergyDescent:
    """An energy along trajectories, its terms, the causes of its changes, and whether it is bound to fall.

    >>> import mnemoscope as ms
    >>> network = torch.nn.RNN(3, 8)
    >>> W = network.weight_hh_l0.data
    >>> network.weight_hh_l0.data = W @ W.mT  # symmetric, and positive
    >>> report = ms.energy_descent(network)
    >>> report.guaranteed, report.kind, int(report.rises.sum())
    (True, 'one-step', 0)
    """

    system: str
    guaranteed: bool
    """Whether the energy cannot rise along any trajectory of the system, but by what rounding of its weights adds."""
    kind: str
    """Which function it is: "frozen" (V_d stays), "schedule" (V_d moves whenever it likes), "one-step", "two-step",
    "contraction", "settling" (a flow), or "none". Where it is not guaranteed, it may rise."""
    why: str
    times: Float[Tensor, " time"]
    names: tuple[str, ...]
    terms: Float[Tensor, "terms time batch"]
    causes: tuple[str, ...]
    changes: Float[Tensor, "causes steps batch"]
    """By the exact identity: of a map what each step adds, of a flow dE/dt at each time."""
    sizes: Float[Tensor, "steps batch"]
    """What rounding of each change is measured against."""
    continuous: bool
    given: bool
    """Whether the trajectory was given, or simulated."""
    precision: float
    """Unit of the last place of the states."""
    deviation: float = 0.0
    """How far the given trajectory strays from the system's own, relative to its size: in one step, or from one time
    to the next."""
    asymmetry: float = nan
    """Antisymmetric part of what should be symmetric, relative to its norm; NaN where that plays no part."""
    bound: float = nan
    """What the energy never falls below with V_d as it is; -inf: no bound exists or is known; NaN: not looked at."""
    bound_why: str = ""
    others: tuple[str, ...] = ()
    """Further functions that fall, and why."""
    rise: Float[Tensor, "states size"] | None = None
    """A counter-example: the rates before and after the step with the largest rise (of an energy of two states, three
    in a row); of a flow the state there."""
    rise_energy: Float[Tensor, " states"] | None = None
    """Energy before and after; of a flow dE/dt."""
    rise_delayed: Float[Tensor, "states size"] | None = None
    """V_d beside each of these rates, as it is when V_f moves next; None where there is none, or it is the rates."""
    orbit: Float[Tensor, "period size"] | None = None
    """Rates that return to themselves: no function of the state can fall at every step."""
    slack: Float[Tensor, "steps batch"] | None = None
    """The most that rounding of the weights can add to each change, where descent is guaranteed but for that."""

    @property
    def energy(self) -> Float[Tensor, "time batch"]:
        """The sum of the terms."""
        return self.terms.sum(0)

    @property
    def change(self) -> Float[Tensor, "steps batch"]:
        """Of a map: energy after each step minus before, as computed from the states; of a flow dE/dt."""
        return self.changes.sum(0) if self.continuous else self.energy.diff(dim=0)

    @property
    def rises(self) -> Bool[Tensor, "steps batch"]:
        """Where it rises by more than rounding."""
        rounding = ROUNDING * self.precision * self.sizes
        return self.change > (rounding if self.slack is None else rounding + self.slack)

    @property
    def strays(self) -> bool:
        """Whether the given trajectory is none of this system: by more than rounding, or an integrator's errors."""
        return self.deviation > (INTEGRATED if self.continuous else 1e3 * self.precision)

    @property
    def largest_rise(self) -> float:
        """The largest rise beyond rounding; 0 where there is none."""
        risen = self.change[self.rises]
        return float(risen.max()) if risen.numel() else 0.0

    @property
    def error(self) -> float:
        """How well the identity holds on these steps, relative to the terms; NaN for a flow, where it is the rate, and
        for a distance, of which no identity is known.
        """
        if self.continuous or self.kind == "contraction" or not self.sizes.numel():
            return nan
        off = (self.change - self.changes.sum(0)).abs() / self.sizes.clamp_min(torch.finfo(self.sizes.dtype).tiny)
        known = off[torch.isfinite(off)]  # rates outside the range of the nonlinearity have an infinite energy
        return float(known.max()) if known.numel() else nan

    def summary(self) -> str:
        """The result in words."""
        return " ".join(sentences(self))

    def __repr__(self) -> str:
        return f"EnergyDescent({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `EnergyDescent.load` reads it back."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        tensors = {name: part.clone() for name, part in parts.items() if isinstance(part, Tensor)}
        flags = {name: _plain(part) for name, part in parts.items() if name not in tensors}
        save_result(path, "EnergyReport", tensors, flags)

    @classmethod
    def load(cls, path: str | Path) -> EnergyDescent:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "EnergyReport", "an energy report")
        lists = {name: tuple(part) for name, part in flags.items() if isinstance(part, list)}
        numbers = {name: float(flags[name]) for name in _NUMBERS}
        return cls(**{**flags, **tensors, **lists, **numbers})

    def figure(self) -> Figure:
        """The energy along the trajectories, its terms, and what moves it (needs the `report` extra)."""
        from mnemoscope.lenses.energy.figure import draw_report

        return draw_report(self)


INTEGRATED = 1e-4
"""A given flow may be off by this share of its size from one time to the next: what its integrator left."""
_NUMBERS = ("precision", "deviation", "asymmetry", "bound")


def _plain(part: Any) -> Any:
    return str(part) if isinstance(part, float) else part  # JSON has no infinity, and no NaN
