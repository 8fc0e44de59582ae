"""The result of the bifurcation lens: branches of fixed points over a parameter, and their bifurcations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float, Int
from mnemoscope.lenses.fixed_points.result import MARGIN
from mnemoscope.lenses.result import Flags, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CLOSE = 4.0
"""An event counts as located if its bracket is at most this many tolerances wide: those of partners may adjoin."""


@dataclass(frozen=True)
class Event:
    """A bifurcation: where it happens, what crosses, and which branches take part."""

    change: str
    """One of "appeared", "vanished", "changed stability"."""
    name: str
    """One of "saddle-node", "pitchfork", "transcritical", "multiple" (several of them at one point), "flip",
    "Neimark-Sacker", "Hopf", "double" (two eigenvalues cross together), "unknown"."""
    crossing: str
    """The value that an eigenvalue crosses: "+1", "-1", "complex pair", ... ; "0" and "imaginary pair" in a flow."""
    low: float
    """Lower end of the bracket in the parameter."""
    high: float
    """Upper end of the bracket."""
    branches: tuple[int, ...]
    """Numbers of the branches that take part."""
    sentence: str
    """A sentence that describes the event."""

    @property
    def at(self) -> float:
        """The middle of the bracket."""
        return 0.5 * (self.low + self.high)


@dataclass(frozen=True)
class Branch:
    """One fixed point as the parameter changes: its points at the snapshots, and between them where steps were short.

    The points are in the order of the parameter. The fields are those of `BifurcationDiagram`, of this branch alone.
    """

    at: Float[Tensor, " points"]
    states: Float[Tensor, "points size"]
    unstable: Int[Tensor, " points"]
    index: Int[Tensor, " points"]
    eigenvalues: Complex[Tensor, "points leading"]
    snapshot: Int[Tensor, " points"]

    def __len__(self) -> int:
        return self.at.shape[0]


@dataclass(frozen=True, repr=False)
class BifurcationDiagram(Result):
    """Fixed points of a family of systems, tracked over its parameter (Jang, section 6.1 and Fig 7).

    >>> import mnemoscope as ms
    >>> def family(mu):  # x' = x + mu - x^2 has two points from mu = 0 on
    ...     return ms.Dynamics(ms.adapt(lambda x, h: h + mu - h**2, state_size=1), bounds=None)
    >>> diagram = ms.track_fixed_points(family, [-0.2, 0.3], starts=torch.linspace(-1, 1, 9)[:, None], tolerance=1e-6)
    >>> event, = diagram.events
    >>> event.name, event.low <= 0 <= event.high, diagram.count(0), diagram.count(1)
    ('saddle-node', True, 0, 2)
    """

    noun: ClassVar[str] = "a bifurcation diagram"
    drawn_by: ClassVar[str] = "draw_bifurcation_diagram"
    former_kinds: ClassVar[tuple[str, ...]] = ("Evolution",)

    snapshots: Float[Tensor, " snapshots"]
    """Parameters of the snapshots."""
    at: Float[Tensor, " points"]
    """The parameter of each point; points are ordered by branch and parameter."""
    states: Float[Tensor, "points size"]
    branch: Int[Tensor, " points"]
    """Number of the branch of each point."""
    snapshot: Int[Tensor, " points"]
    """Number of the snapshot of each point, or -1 between two."""
    index: Int[Tensor, " points"]
    """Sign det(I - J) for a map, sign det(-J) for a flow; 0 if not known."""
    unstable: Int[Tensor, " points"]
    """Number of unstable directions; -1 if not counted."""
    eigenvalues: Complex[Tensor, "points leading"]
    """The least stable eigenvalues; NaN if not computed."""
    q: Float[Tensor, " points"]
    """1/2 |residual|^2."""
    bounded: Bool[Tensor, " snapshots"]
    """Whether the system is known to map a box into itself, so that the index sum must be 1."""
    events: tuple[Event, ...]
    """The bifurcations, in the order of the parameter."""
    notes: tuple[str, ...]
    """Sentences on open questions."""
    tolerance: float
    """How precisely births, deaths and crossings are located in the parameter."""
    continuous: bool
    """Whether the systems are flows."""
    symmetric: bool
    """Whether F(-x) = -F(x) at some random states: then points other than the origin come in pairs."""
    rate: float = 1.0
    """Rate of a flow, in which marginal growth is measured; 1 for a map."""
    about: str = ""
    """A text of the caller that is saved along, such as settings."""
    parameter: str = "parameter"
    """Name of the parameter: "gain", "training step"."""

    def __len__(self) -> int:
        """Return the number of branches."""
        return int(self.branch.max()) + 1 if len(self.branch) else 0

    def pack(self) -> tuple[dict[str, Tensor], Flags]:
        """Return the tensors and the other fields, with the events as dictionaries."""
        tensors, flags = Result.pack(replace(self, events=()))
        return tensors, {**flags, "events": [asdict(event) for event in self.events]}

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> BifurcationDiagram:
        """Make a result from saved parts; earlier versions saved events and notes as JSON."""
        events, notes = (
            json.loads(flags[name]) if isinstance(flags[name], str) else flags[name] for name in ("events", "notes")
        )
        diagram = super().unpack(tensors, {**flags, "events": [], "notes": notes})
        restored = [Event(**dict[str, Any](event, branches=tuple(event["branches"]))) for event in events]
        return replace(diagram, events=tuple(restored))

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """The branches, by their number."""
        parts = (self.at, self.states, self.unstable, self.index, self.eigenvalues, self.snapshot)
        return tuple(Branch(*(part[self.branch == number] for part in parts)) for number in range(len(self)))

    def points(self, snapshot: int) -> Int[Tensor, " points"]:
        """Return the points at a snapshot, as indices into `states` and the like."""
        count = len(self.snapshots)
        if not -count <= snapshot < count:
            raise IndexError(f"There are {count} snapshots, but number {snapshot} was asked for.")
        return (self.snapshot == snapshot % count).nonzero()[:, 0]

    def count(self, snapshot: int) -> int:
        """Return the number of points at a snapshot."""
        return len(self.points(snapshot))

    @cached_property
    def index_sum(self) -> Int[Tensor, " snapshots"]:
        """Index sum of the points at each snapshot: 1 for the complete set if a ball is mapped into itself."""
        return torch.stack([self.index[self.points(snapshot)].sum() for snapshot in range(len(self.snapshots))])

    @cached_property
    def kind(self) -> list[str]:
        """Kind of each point: stable, saddle-1, saddle-2, saddle-3 (or more), unstable, marginal; "" if not counted."""
        size = self.states.shape[1]
        growth = self.eigenvalues.real if self.continuous else self.eigenvalues.abs().log()
        marginal = (growth.abs() <= MARGIN * self.rate).any(1).tolist()
        kinds = []
        for unstable, is_marginal in zip(self.unstable.tolist(), marginal, strict=True):
            kind = "stable" if unstable == 0 else "unstable" if unstable == size else f"saddle-{min(unstable, 3)}"
            kinds.append("" if unstable < 0 else "marginal" if is_marginal else kind)
        return kinds

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Sentences on the points that are missing according to the index sums."""
        sentences = []
        for snapshot, (at, total) in enumerate(zip(self.snapshots.tolist(), self.index_sum.tolist(), strict=True)):
            points = self.points(snapshot)
            if bool(self.bounded[snapshot]) and bool((self.index[points] != 0).all()) and total != 1:
                number = abs(1 - total)
                sentences.append(
                    f"At {at:g} the index sum is {total} and must be 1: at least {number} "
                    f"point{'s' * (number > 1)} of index {'+1' if total < 1 else '-1'} missing."
                )
        return tuple(sentences)

    @cached_property
    def located(self) -> tuple[Event, ...]:
        """The events that are explained and known to within a few tolerances."""
        explained = (event for event in self.events if event.name != "unknown")
        return tuple(event for event in explained if event.high - event.low <= CLOSE * self.tolerance)

    @property
    def how_located(self) -> str:
        """A sentence on the number of located events, their precision, and the events that are not located."""
        known, unknown = len(self.located), sum(event.name == "unknown" for event in self.events)
        sentence = f"{known} bifurcation{'s are' if known != 1 else ' is'} located to {self.tolerance:.2g}"
        if unknown:
            verb = "are" if unknown > 1 else "is"
            sentence += f", {unknown} {verb} unknown: points that must take part were not found"
        wide = len(self.events) - known - unknown
        if wide:
            sentence += f"; {wide} {'are' if wide > 1 else 'is'} known only to a wider interval"
        return f"{sentence}."

    def summary(self) -> str:
        """Return the result in sentences."""
        first, last = float(self.snapshots[0]), float(self.snapshots[-1])
        sentences = [
            f"{len(self)} branch{'es' * (len(self) != 1)} of fixed points from {first:g} to {last:g}, over "
            f"{len(self.snapshots)} snapshots: {self.count(0)} at the first, {self.count(-1)} at the last."
        ]
        sentences += [event.sentence for event in self.events]
        if not self.events:
            sentences.append("No bifurcation was found.")
        if not bool(self.bounded.all()):
            sentences.append("No set is known that every system maps into itself, so the index sums prove nothing.")
        elif not self.missing:
            sentences.append(
                "The index sum is 1 at every snapshot where all points have an index: no sign of a missing point."
            )
        sentences += [*self.missing, *self.notes]
        sentences += [self.how_located, "Points that appear and vanish between two snapshots are missed."]
        return " ".join(sentences)

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return headings and one row of texts for each event."""
        headings = ("From", "To", "What", "Bifurcation", "Crosses", "Branches")
        rows = []
        for event in self.events:
            branches = ", ".join(map(str, event.branches))
            rows.append((f"{event.low:.8g}", f"{event.high:.8g}", event.change, event.name, event.crossing, branches))
        return headings, rows

    def figure(self, projection: Float[Tensor, " size"] | Sequence[float] | None = None) -> Figure:
        """Draw the states along one direction over the parameter (needs the `report` extra).

        The direction is the first principal component of all points by default.
        """
        return super().figure(projection)
