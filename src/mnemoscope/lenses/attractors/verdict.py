"""The answer of the attractor lens: where a system goes if it is left alone, in numbers and in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


UNDEFINED = "a step gives NaN"
"""The note on starts that have no next state, which is not known to be infinity."""


class Kind(IntEnum):
    """What a start comes to."""

    POINT = 0
    CONTINUOUS = 1
    CYCLE = 2
    CIRCLE = 3
    TORUS = 4
    CHAOS = 5
    SLOW = 6
    DIVERGED = 7
    UNDECIDED = 8

    @property
    def words(self) -> str:
        return {
            Kind.POINT: "point attractor",
            Kind.CONTINUOUS: "continuous attractor",
            Kind.CYCLE: "cycle",
            Kind.CIRCLE: "invariant circle",
            Kind.TORUS: "torus",
            Kind.CHAOS: "chaos",
            Kind.SLOW: "slow manifold",
            Kind.DIVERGED: "divergence",
            Kind.UNDECIDED: "undecided",
        }[self]


@dataclass(frozen=True)
class Attractors:
    """Where a system goes from many starts.

    >>> import mnemoscope as ms
    >>> double_well = ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(2 * h + x), state_size=1, bounds=(-1, 1)))
    >>> seen = ms.find_attractors(double_well, 20)
    >>> [kind.words for kind in seen.kind], seen.shares.sum().item()
    (['point attractor', 'point attractor'], 1.0)
    >>> print(seen.verdict)
    Left alone, the system comes to rest at one of 2 stable fixed points (all of 20 starts).
    """

    kinds: Int[Tensor, " attractors"]
    """Values of `Kind`; starts that are undecided for one reason, have left to infinity, or have become
    undefined (NaN), stand together; the last two are both divergence, and `notes` tells them apart."""
    member: Int[Tensor, " starts"]
    """Which of these each start comes to."""
    states: Float[Tensor, "attractors size"]
    """A state of each: the fixed point, one of a cycle's, else the last state of one start."""
    periods: Float[Tensor, " attractors"]
    """Of a cycle its period in steps; of an invariant circle about the time of a return; else NaN."""
    dimensions: Float[Tensor, " attractors"]
    """Of a point or cycle 0, a circle 1, a torus or continuous attractor the number of its neutral directions, of chaos
    the Kaplan-Yorke dimension (NaN beyond the exponents computed); else NaN."""
    exponents: Float[Tensor, "attractors count"]
    """Leading Lyapunov exponents, of points and cycles from eigenvalues; NaN where none were computed."""
    errors: Float[Tensor, "attractors count"]
    """Their standard errors."""
    notes: tuple[str, ...]
    """Of each, why it is undecided or what else should be known; empty where nothing."""
    paths: Float[Tensor, "attractors time dims"]
    """The way on from a state of each, in two or three coordinates, for the figure."""
    labels: tuple[str, ...]
    """Names of these coordinates."""
    steps: int
    """Steps after which the system was looked at, and for as many it was."""
    dt: float | None = None
    """Length of a step of a flow; None of a map."""
    longest: int | None = None
    """The longest period of a cycle that was looked for; None where that is not known."""

    def __len__(self) -> int:
        return self.kinds.shape[0]

    @property
    def kind(self) -> list[Kind]:
        """Of each attractor."""
        return [Kind(kind) for kind in self.kinds.tolist()]

    @property
    def kind_of_starts(self) -> list[Kind]:
        """Of each start."""
        return [Kind(kind) for kind in self.kinds[self.member].tolist()]

    @property
    def shares(self) -> Float[Tensor, " attractors"]:
        """Share of the starts that come to each: how large its basin is among states drawn as the starts were."""
        return torch.bincount(self.member, minlength=len(self)).double() / len(self.member)

    @property
    def time_constants(self) -> Float[Tensor, " attractors"]:
        """In which time a small push off the attractor shrinks by e, in the slowest direction; NaN where it does not,
        or is not known.
        """
        slowest = []
        for kind, own, dimension in zip(self.kind, self.exponents.tolist(), self.dimensions.tolist(), strict=True):
            attracts = kind <= Kind.TORUS  # behind as many neutral exponents as the attractor has dimensions
            value = own[int(dimension)] if attracts and int(dimension) < len(own) else float("nan")
            slowest.append(-1 / value if value < 0 else float("nan"))
        return torch.tensor(slowest, dtype=torch.float64)

    @property
    def verdict(self) -> str:
        """One sentence."""
        return _verdict(self)

    def summary(self) -> str:
        """The verdict, and a sentence on each attractor."""
        return " ".join([self.verdict, *_sentences(self)])

    def __repr__(self) -> str:
        return f"Attractors({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Attractors.load` reads it back."""
        tensors = {name: getattr(self, name) for name in _TENSORS}
        flags = {"notes": list(self.notes), "labels": list(self.labels)}
        flags |= {name: getattr(self, name) for name in ("steps", "dt", "longest")}
        save_result(path, "Attractors", tensors, flags)

    @classmethod
    def load(cls, path: str | Path) -> Attractors:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Attractors", "attractors")
        notes, labels = tuple(flags.pop("notes")), tuple(flags.pop("labels"))
        everything: dict[str, Any] = {**tensors, **flags}
        return cls(**everything, notes=notes, labels=labels)

    def figure(self) -> Figure:
        """The attractors in the state space, and the share of the starts that come to each (needs `report`)."""
        from mnemoscope.lenses.attractors.figure import draw_attractors

        return draw_attractors(self)


_TENSORS = ("kinds", "member", "states", "periods", "dimensions", "exponents", "errors", "paths")


def _verdict(seen: Attractors) -> str:
    parts = []
    order = [kind for kind in Kind if kind in seen.kind]
    starts = len(seen.member)
    for kind in order:
        every = [row for row, own in enumerate(seen.kind) if own == kind]
        undefined = [row for row in every if seen.notes[row] == UNDEFINED]
        for rows in ([row for row in every if row not in undefined], undefined):
            if rows:
                number = round(float(seen.shares[rows].sum()) * starts)
                share = f"all of {starts} starts" if number == starts else f"{number} of {starts} starts"
                parts.append(f"{_does(seen, kind, rows)} ({share})")
    return f"Left alone, the system {'; '.join(parts)}."


def _does(seen: Attractors, kind: Kind, rows: list[int]) -> str:
    """What the system does that has attractors of this kind."""
    number, first = len(rows), rows[0]
    if kind == Kind.POINT:
        return (
            f"comes to rest at one of {number} stable fixed points" if number > 1 else "comes to rest at a fixed point"
        )
    if kind == Kind.CONTINUOUS:
        shapes = {({1.0: "line", 2.0: "surface"}.get(float(seen.dimensions[row]), "manifold")) for row in rows}
        shape = shapes.pop() if len(shapes) == 1 else "manifold"
        if number > 1:
            return f"comes to rest anywhere on one of {number} continuous attractors, {shape}s of marginal points"
        return f"comes to rest anywhere on a continuous attractor, a {shape} of marginal points"
    if kind == Kind.CYCLE:
        periods = sorted({int(period) for period in seen.periods[rows].tolist()})
        many = f"one of {number} cycles" if number > 1 else "a cycle"
        return f"runs in {many} of period{'s' * (len(periods) > 1)} {', '.join(map(str, periods))}"
    if kind == Kind.CIRCLE:
        many = f"one of {number} closed curves" if number > 1 else "a closed curve"
        tried = "that was tried" if seen.longest is None else f"up to {seen.longest}"
        return f"runs round {many}" + ("" if seen.dt else f", which no number of steps {tried} closes")
    if kind == Kind.TORUS:
        return f"moves on {'a torus' if number == 1 else f'one of {number} tori'} of several incommensurate rhythms"
    if kind == Kind.CHAOS:
        value, error = float(seen.exponents[first, 0]), float(seen.errors[first, 0])
        many = f", on {number} attractors" if number > 1 else ""
        return f"is chaotic{many}: differences grow at {value:.3g} ± {error:.1g} {_unit(seen)}"
    if kind == Kind.SLOW:
        return "creeps along a slow manifold, far more slowly than it typically moves, and has not come to rest"
    if kind == Kind.DIVERGED:
        return "becomes undefined (NaN)" if seen.notes[first] == UNDEFINED else "leaves to infinity"
    reasons = dict.fromkeys(seen.notes[row] for row in rows)
    return f"cannot be judged: {', or '.join(reasons)}"


def _sentences(seen: Attractors) -> Iterator[str]:
    time = "steps" if seen.dt is None else "units of time"
    for row, (kind, share, slowest) in enumerate(
        zip(seen.kind, seen.shares.tolist(), seen.time_constants.tolist(), strict=True)
    ):
        if row == MOST_SENTENCES:
            yield f"{len(seen) - row} more."
            return
        details = []
        if kind == Kind.CYCLE:
            details.append(f"period {seen.periods[row]:.0f}")
        if kind == Kind.CIRCLE and float(seen.periods[row]) > 0:
            back = "once round" if seen.dt else "nearly back"
            details.append(f"{back} in about {seen.periods[row]:.3g} {time}")
        if kind == Kind.CHAOS:
            size = float(seen.dimensions[row])
            details.append(f"Kaplan-Yorke dimension {size:.3g}" if size == size else "of a high dimension")
        if kind in (Kind.TORUS, Kind.CONTINUOUS):
            details.append(f"dimension {seen.dimensions[row]:.0f}")
        if slowest == slowest:
            details.append(f"a push fades by e in {slowest:.3g} {time}")
        if seen.notes[row] and kind != Kind.UNDECIDED:
            details.append(seen.notes[row])
        words = kind.words[0].upper() + kind.words[1:]
        yield f"{words}{f' ({share:.0%} of starts)'}{': ' if details else ''}{', '.join(details)}."


MOST_SENTENCES = 8
"""Attractors that are spoken of one by one."""


def _unit(seen: Attractors) -> str:
    return "per step" if seen.dt is None else "per unit of time"
