"""The answer of the evolution lens: branches of fixed points over a parameter, and what happens to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float, Int
from mnemoscope.lenses.fixed_points.result import MARGIN
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CLOSE = 4.0
"""An event is located where it is known to so many tolerances: brackets of partners may lie side by side."""


@dataclass(frozen=True)
class Event:
    """A bifurcation: where it happens, what crosses, and which branches take part."""

    change: str
    """One of "appeared", "vanished", "changed stability"."""
    name: str
    """One of "saddle-node", "pitchfork", "transcritical", "multiple" (several of them at one point), "flip",
    "Neimark-Sacker", "Hopf", "double" (two eigenvalues cross together), "unknown"."""
    crossing: str
    """What an eigenvalue crosses: "+1", "-1", "complex pair", ... ; "0" and "imaginary pair" of a flow."""
    low: float
    high: float
    """It happens between these."""
    branches: tuple[int, ...]
    sentence: str

    @property
    def at(self) -> float:
        """The middle of the interval."""
        return 0.5 * (self.low + self.high)


@dataclass(frozen=True)
class Branch:
    """One fixed point as the parameter changes, in order; between snapshots there are places where steps were short."""

    at: Float[Tensor, " places"]
    states: Float[Tensor, "places size"]
    unstable: Int[Tensor, " places"]
    """Unstable directions; -1 where they were not counted."""
    index: Int[Tensor, " places"]
    """Sign det(I - J) of a map, sign det(-J) of a flow; 0 where it cannot be told."""
    eigenvalues: Complex[Tensor, "places leading"]
    """The least stable ones; NaN where they were not computed."""
    snapshot: Int[Tensor, " places"]
    """Which of the snapshots, or -1."""

    def __len__(self) -> int:
        return self.at.shape[0]


@dataclass(frozen=True)
class BifurcationDiagram:
    """Fixed points of a family of systems, followed over its parameter (Jang, section 6.1 and Fig 7).

    >>> import mnemoscope as ms
    >>> def family(mu):  # x' = x + mu - x^2 has two points from mu = 0 on
    ...     return ms.Dynamics(ms.adapt(lambda x, h: h + mu - h**2, state_size=1), bounds=None)
    >>> seen = ms.track_fixed_points(family, [-0.2, 0.3], starts=torch.linspace(-1, 1, 9)[:, None], tolerance=1e-6)
    >>> event, = seen.events
    >>> event.name, event.low <= 0 <= event.high, seen.count(0), seen.count(1)
    ('saddle-node', True, 0, 2)
    """

    snapshots: Float[Tensor, " snapshots"]
    at: Float[Tensor, " places"]
    states: Float[Tensor, "places size"]
    branch: Int[Tensor, " places"]
    """Which branch each place is on; places are ordered by branch and parameter."""
    snapshot: Int[Tensor, " places"]
    """Which snapshot each place is at, or -1 for those between two."""
    index: Int[Tensor, " places"]
    unstable: Int[Tensor, " places"]
    """-1 where they were not counted."""
    eigenvalues: Complex[Tensor, "places leading"]
    q: Float[Tensor, " places"]
    bounded: Bool[Tensor, " snapshots"]
    """Whether the system is known to map a box into itself, so that the index sum must be 1."""
    events: tuple[Event, ...]
    notes: tuple[str, ...]
    """What is not known, in sentences."""
    tolerance: float
    """How closely births, deaths and crossings are located in the parameter."""
    continuous: bool
    symmetric: bool
    """Whether F(-x) = -F(x), as far as some states tell: then points other than the origin come in pairs."""
    rate: float = 1.0
    about: str = ""
    """Whatever its maker wants to be kept with it, to know it again: settings, for example."""

    def __len__(self) -> int:
        """Branches."""
        return int(self.branch.max()) + 1 if len(self.branch) else 0

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        return tuple(self._branch(number) for number in range(len(self)))

    def _branch(self, number: int) -> Branch:
        own = self.branch == number
        parts = (self.at, self.states, self.unstable, self.index, self.eigenvalues, self.snapshot)
        return Branch(*(part[own] for part in parts))

    def points(self, snapshot: int) -> Int[Tensor, " points"]:
        """The places at a snapshot: indices into `states` and the like."""
        count = len(self.snapshots)
        if not -count <= snapshot < count:
            raise IndexError(f"There are {count} snapshots, but number {snapshot} was asked for.")
        return (self.snapshot == snapshot % count).nonzero()[:, 0]

    def count(self, snapshot: int) -> int:
        """How many points a snapshot has."""
        return len(self.points(snapshot))

    @cached_property
    def index_sum(self) -> Int[Tensor, " snapshots"]:
        """Of the points of each snapshot: 1 for the complete set of a map of a ball into itself."""
        sums = [self.index[self.points(snapshot)].sum() for snapshot in range(len(self.snapshots))]
        return torch.stack(sums)

    @cached_property
    def kind(self) -> list[str]:
        """Keys of `drawing.PALETTE`: stable, saddle-1, -2, -3 (or more), unstable, marginal; "" where not counted."""
        size = self.states.shape[1]
        growth = self.eigenvalues.real if self.continuous else self.eigenvalues.abs().log()
        marginal = (growth.abs() <= MARGIN * self.rate).any(1).tolist()
        kinds = []
        for up, on_edge in zip(self.unstable.tolist(), marginal, strict=True):
            inner = "stable" if up == 0 else "unstable" if up == size else f"saddle-{min(up, 3)}"
            kinds.append("" if up < 0 else "marginal" if on_edge else inner)
        return kinds

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """What the index sums say is missing, in sentences."""
        said = []
        for snapshot, (at, total) in enumerate(zip(self.snapshots.tolist(), self.index_sum.tolist(), strict=True)):
            own = self.points(snapshot)
            if bool(self.bounded[snapshot]) and bool((self.index[own] != 0).all()) and total != 1:
                less = abs(1 - total)
                said.append(
                    f"At {at:g} the index sum is {total} and must be 1: at least {less} "
                    f"point{'s' * (less > 1)} of index {'+1' if total < 1 else '-1'} missing."
                )
        return tuple(said)

    @cached_property
    def located(self) -> tuple[Event, ...]:
        """The events that are explained and lie within a few tolerances."""
        return tuple(
            one for one in self.events if one.name != "unknown" and one.high - one.low <= CLOSE * self.tolerance
        )

    @property
    def how_located(self) -> str:
        """How many events are located how closely, and how many are not, in a sentence."""
        known, unknown = len(self.located), sum(event.name == "unknown" for event in self.events)
        said = f"{known} bifurcation{'s are' if known != 1 else ' is'} located to {self.tolerance:.2g}"
        if unknown:
            said += f", {unknown} {'are' if unknown > 1 else 'is'} unknown: points that must take part were not found"
        wide = len(self.events) - known - unknown
        if wide:
            said += f"; of {wide} only a wider interval is known"
        return f"{said}."

    def summary(self) -> str:
        """The result in words."""
        first, last = float(self.snapshots[0]), float(self.snapshots[-1])
        said = [
            f"{len(self)} branch{'es' * (len(self) != 1)} of fixed points from {first:g} to {last:g}, over "
            f"{len(self.snapshots)} snapshots: {self.count(0)} at the first, {self.count(-1)} at the last."
        ]
        said += [event.sentence for event in self.events]
        if not self.events:
            said.append("No bifurcation was found.")
        if not bool(self.bounded.all()):
            said.append("No set is known that every system maps into itself, so that index sums prove nothing.")
        elif not self.missing:
            said.append("The index sum is 1 at every snapshot where all points have one: no sign of a missing point.")
        said += [*self.missing, *self.notes]
        said += [self.how_located, "What appears and vanishes between two snapshots is not seen."]
        return " ".join(said)

    def __repr__(self) -> str:
        return f"BifurcationDiagram({self.summary()})"

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headings and rows, one for each event, as texts."""
        headings = ("From", "To", "What", "Bifurcation", "Crosses", "Branches")
        return headings, [
            (f"{one.low:.8g}", f"{one.high:.8g}", one.change, one.name, one.crossing, ", ".join(map(str, one.branches)))
            for one in self.events
        ]

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `BifurcationDiagram.load` reads it back."""
        flags: dict[str, Any] = {name: getattr(self, name) for name in _FLAGS}
        flags |= {"events": json.dumps([asdict(event) for event in self.events]), "notes": json.dumps(self.notes)}
        save_result(path, "Evolution", {name: getattr(self, name) for name in _TENSORS}, flags)

    @classmethod
    def load(cls, path: str | Path) -> BifurcationDiagram:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Evolution", "an evolution of fixed points")
        events = tuple(Event(**{**one, "branches": tuple(one["branches"])}) for one in json.loads(flags["events"]))
        plain = {name: flags[name] for name in _FLAGS if name in flags}  # older files say nothing about themselves
        return cls(**tensors, **plain, events=events, notes=tuple(json.loads(flags["notes"])))

    def figure(self, projection: Float[Tensor, " size"] | Sequence[float] | None = None) -> Figure:
        """Bifurcation diagram: states along one direction over the parameter (needs the `report` extra).

        The direction is the first principal component of all points by default.
        """
        from mnemoscope.lenses.bifurcations.figure import draw_evolution

        return draw_evolution(self, projection)


_TENSORS = (
    "snapshots", "at", "states", "branch", "snapshot", "index", "unstable", "eigenvalues", "q", "bounded",
)  # fmt: skip
_FLAGS = ("tolerance", "continuous", "symmetric", "rate", "about")
