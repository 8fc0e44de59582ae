"""What has been found about the starts so far, and which are still to be judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.lenses.attractors.verdict import Kind
from mnemoscope.lenses.attractors.watching import Watched
from mnemoscope.lenses.dynamics import Dynamics

NEAR = 0.05
"""A start is at an attractor that Newton's method finds within this share of the extent of all states."""
AT_REST = 1e-6
"""It is there already, and need not be seen to come nearer, within this share."""


@dataclass
class Found:
    """One attractor, as it is put together."""

    kind: Kind
    state: Float[Tensor, " size"]
    starts: list[int]
    period: float = float("nan")
    dimension: float = float("nan")
    exponents: list[list[float]] = field(default_factory=list)
    errors: list[list[float]] = field(default_factory=list)
    note: str = ""


@dataclass
class Judgement:
    """Starts are taken one kind after the other; what is left in the end is undecided."""

    dynamics: Dynamics
    """What was asked about: a map or a flow."""
    system: Dynamics
    """The map that was watched: `dynamics` itself, or a step of the flow."""
    seen: Watched
    longest: int
    """The longest period of a cycle that is looked for."""
    count: int
    """How many exponents."""
    dt: float | None
    seed: int
    found: list[Found] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    """Starts that are not judged yet."""

    def __post_init__(self) -> None:
        self.left = list(range(len(self.seen.states)))

    @property
    def steps(self) -> int:
        """For how many steps the starts were watched."""
        return len(self.seen.path) - 1

    def of(self, *kinds: Kind) -> Iterable[Found]:
        """What has been found of these kinds."""
        return (one for one in self.found if one.kind in kinds)

    def take(self, kind: Kind, rows: list[int], state: Tensor | None = None, **known: Any) -> None:
        """Starts that come to an attractor of their own; its state is the last one of the first unless given."""
        if rows:
            self.found.append(Found(kind, self.seen.states[rows[0]] if state is None else state, [], **known))
            self.join(self.found[-1], rows)

    def join(self, one: Found, rows: list[int]) -> None:
        """Starts that come to an attractor that is known."""
        one.starts += rows
        self.left = [row for row in self.left if row not in rows]

    def undecided(self, rows: list[int], note: str) -> None:
        """Starts that cannot be judged, and why."""
        same = next((one for one in self.of(Kind.UNDECIDED) if one.note == note), None)
        if same is None:
            self.take(Kind.UNDECIDED, rows, note=note)
        else:
            self.join(same, rows)


def eigenvalues(J: Float[Tensor, "size size"]) -> Complex[Tensor, " size"]:
    """By modulus, largest first."""
    values = np.linalg.eigvals(J.cpu().double().numpy())
    return torch.from_numpy(values[np.argsort(-np.abs(values), kind="stable")].astype(complex))
