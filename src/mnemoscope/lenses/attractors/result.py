"""The result of the attractor lens: what a system settles to, in numbers and in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.described_enum import DescribedEnum
from mnemoscope.lenses.result import Flags, Result

UNDEFINED = "a step gives NaN"
"""The note on starts without a next state, which need not have left to infinity."""
MAX_SENTENCES = 8
"""Attractors that are described individually in a summary."""


class Kind(DescribedEnum):
    """Kinds of long-term behaviour, each with its English name."""

    POINT = 0, "point attractor"
    CONTINUOUS = 1, "continuous attractor"
    CYCLE = 2, "cycle"
    CIRCLE = 3, "invariant circle"
    TORUS = 4, "torus"
    CHAOS = 5, "chaos"
    SLOW = 6, "slow manifold"
    DIVERGED = 7, "divergence"
    UNDECIDED = 8, "undecided"


@dataclass(frozen=True, repr=False)
class Attractors(Result):
    """Attractors that a system settles to from many starts.

    >>> import mnemoscope as ms
    >>> double_well = ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(2 * h + x), state_size=1, bounds=(-1, 1)))
    >>> attractors = ms.find_attractors(double_well, 20)
    >>> [kind.description for kind in attractors.kind], attractors.shares.sum().item()
    (['point attractor', 'point attractor'], 1.0)
    >>> print(attractors.verdict)
    Left alone, the system comes to rest at one of 2 stable fixed points (all of 20 starts).
    """

    noun: ClassVar[str] = "attractors"
    drawn_by: ClassVar[str] = "draw_attractors"

    kinds: Int[Tensor, " attractors"]
    """Values of `Kind`. Starts that are undecided for one reason form one entry, and so do those that left to infinity
    and those that became undefined (NaN); the last two are both divergence, and `notes` distinguishes them."""
    member: Int[Tensor, " starts"]
    """The attractor of each start."""
    states: Float[Tensor, "attractors size"]
    """One state of each attractor: the fixed point, a state of the cycle, otherwise the last state of one start."""
    periods: Float[Tensor, " attractors"]
    """Period of a cycle in steps; approximate return time of an invariant circle; otherwise NaN."""
    dimensions: Float[Tensor, " attractors"]
    """0 for a point or cycle, 1 for a circle, the number of neutral directions for a torus or continuous attractor, the
    Kaplan-Yorke dimension for chaos (NaN if it takes more exponents than were computed); otherwise NaN."""
    exponents: Float[Tensor, "attractors count"]
    """Leading Lyapunov exponents; those of points and cycles come from eigenvalues; NaN if none were computed."""
    errors: Float[Tensor, "attractors count"]
    """Standard errors of `exponents`."""
    notes: tuple[str, ...]
    """The reason why an entry is undecided, or another remark; may be empty."""
    paths: Float[Tensor, "attractors time dims"]
    """Path from a state of each attractor, in two or three coordinates, for the figure."""
    labels: tuple[str, ...]
    """Names of these coordinates."""
    steps: int
    """Steps in the simulated window."""
    dt: float | None = None
    """Length of a time step of a flow; None for a map."""
    max_period: int | None = None
    """Longest period of a cycle that was searched, in steps; None if unknown."""

    def __len__(self) -> int:
        return self.kinds.shape[0]

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> Attractors:
        """Make a result from saved parts; earlier versions named the longest period `longest`."""
        return super().unpack(tensors, {"max_period": flags.get("longest"), **flags})

    @property
    def kind(self) -> list[Kind]:
        """Kind of each attractor."""
        return [Kind(kind) for kind in self.kinds.tolist()]

    @property
    def kind_of_starts(self) -> list[Kind]:
        """Kind of the attractor of each start."""
        return [Kind(kind) for kind in self.kinds[self.member].tolist()]

    @property
    def shares(self) -> Float[Tensor, " attractors"]:
        """Share of the starts in the basin of each attractor."""
        return torch.bincount(self.member, minlength=len(self)).double() / len(self.member)

    @property
    def time_constants(self) -> Float[Tensor, " attractors"]:
        """Time in which a perturbation decays by a factor e in the slowest direction; NaN if not, or if unknown."""
        slowest = []
        for kind, values, dimension in zip(self.kind, self.exponents.tolist(), self.dimensions.tolist(), strict=True):
            attracts = kind <= Kind.TORUS
            # The neutral exponents come first, as many as the attractor has dimensions.
            value = values[int(dimension)] if attracts and int(dimension) < len(values) else float("nan")
            slowest.append(-1 / value if value < 0 else float("nan"))
        return torch.tensor(slowest, dtype=torch.float64)

    @property
    def verdict(self) -> str:
        """One sentence on the long-term behaviour of the system."""
        parts, starts = [], len(self.member)
        for kind in (kind for kind in Kind if kind in self.kind):
            every = [row for row, other in enumerate(self.kind) if other == kind]
            undefined = [row for row in every if self.notes[row] == UNDEFINED]
            for rows in ([row for row in every if row not in undefined], undefined):
                if rows:
                    number = round(float(self.shares[rows].sum()) * starts)
                    share = f"all of {starts} starts" if number == starts else f"{number} of {starts} starts"
                    parts.append(f"{_behaviour(self, kind, rows)} ({share})")
        return f"Left alone, the system {'; '.join(parts)}."

    def summary(self) -> str:
        """Return the verdict, and a sentence on each attractor."""
        return " ".join([self.verdict, *_sentences(self)])


def _behaviour(attractors: Attractors, kind: Kind, rows: list[int]) -> str:
    """Return a predicate that describes the attractors of one kind."""
    number, first = len(rows), rows[0]
    if kind == Kind.POINT:
        return (
            f"comes to rest at one of {number} stable fixed points" if number > 1 else "comes to rest at a fixed point"
        )
    if kind == Kind.CONTINUOUS:
        shapes = {({1.0: "line", 2.0: "surface"}.get(float(attractors.dimensions[row]), "manifold")) for row in rows}
        shape = shapes.pop() if len(shapes) == 1 else "manifold"
        if number > 1:
            return f"comes to rest anywhere on one of {number} continuous attractors, {shape}s of marginal points"
        return f"comes to rest anywhere on a continuous attractor, a {shape} of marginal points"
    if kind == Kind.CYCLE:
        periods = sorted({int(period) for period in attractors.periods[rows].tolist()})
        which = f"one of {number} cycles" if number > 1 else "a cycle"
        return f"settles to {which} of period{'s' * (len(periods) > 1)} {', '.join(map(str, periods))}"
    if kind == Kind.CIRCLE:
        which = f"one of {number} closed curves" if number > 1 else "a closed curve"
        tested = "that was tested" if attractors.max_period is None else f"of up to {attractors.max_period} steps"
        return f"moves on {which}" + ("" if attractors.dt else f" without a period {tested}")
    if kind == Kind.TORUS:
        which = "a torus" if number == 1 else f"one of {number} tori"
        return f"moves on {which} with several incommensurate frequencies"
    if kind == Kind.CHAOS:
        value, error = float(attractors.exponents[first, 0]), float(attractors.errors[first, 0])
        which = f", on {number} attractors" if number > 1 else ""
        unit = "per step" if attractors.dt is None else "per unit of time"
        return f"is chaotic{which}: differences grow at {value:.3g} ± {error:.1g} {unit}"
    if kind == Kind.SLOW:
        return "drifts along a slow manifold, far more slowly than it typically moves, and has not come to rest"
    if kind == Kind.DIVERGED:
        return "becomes undefined (NaN)" if attractors.notes[first] == UNDEFINED else "leaves to infinity"
    reasons = dict.fromkeys(attractors.notes[row] for row in rows)
    return f"cannot be classified: {', or '.join(reasons)}"


def _sentences(attractors: Attractors) -> Iterator[str]:
    time = "steps" if attractors.dt is None else "units of time"
    for row, (kind, share, slowest) in enumerate(
        zip(attractors.kind, attractors.shares.tolist(), attractors.time_constants.tolist(), strict=True)
    ):
        if row == MAX_SENTENCES:
            yield f"{len(attractors) - row} more."
            return
        details = []
        if kind == Kind.CYCLE:
            details.append(f"period {attractors.periods[row]:.0f}")
        if kind == Kind.CIRCLE and float(attractors.periods[row]) > 0:
            name = "period" if attractors.dt else "return time"
            details.append(f"{name} of about {attractors.periods[row]:.3g} {time}")
        if kind == Kind.CHAOS:
            dimension = float(attractors.dimensions[row])
            known = dimension == dimension
            details.append(f"Kaplan-Yorke dimension {dimension:.3g}" if known else "high-dimensional")
        if kind in (Kind.TORUS, Kind.CONTINUOUS):
            details.append(f"dimension {attractors.dimensions[row]:.0f}")
        if slowest == slowest:
            details.append(f"a perturbation decays by a factor e in {slowest:.3g} {time}")
        if attractors.notes[row] and kind != Kind.UNDECIDED:
            details.append(attractors.notes[row])
        name = kind.description[0].upper() + kind.description[1:]
        yield f"{name}{f' ({share:.0%} of starts)'}{': ' if details else ''}{', '.join(details)}."
