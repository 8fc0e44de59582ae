"""State of the classification: the attractors found, and the starts that are not classified yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.lenses.attractors.result import Kind
from mnemoscope.lenses.attractors.simulation import Trajectories
from mnemoscope.lenses.dynamics import Dynamics

NEAR = 0.05
"""A start belongs to an attractor that Newton's method finds within this share of the extent of all states."""
AT_REST = 1e-6
"""Within this share of the extent, a start has arrived, and its approach is not tested."""


@dataclass
class FoundAttractor:
    """One attractor while it is assembled."""

    kind: Kind
    state: Float[Tensor, " size"]
    starts: list[int]
    period: float = float("nan")
    dimension: float = float("nan")
    exponents: list[list[float]] = field(default_factory=list)
    errors: list[list[float]] = field(default_factory=list)
    note: str = ""
    orbit: Float[Tensor, "period size"] | None = None
    """All states of a cycle that attracts."""


@dataclass
class Classification:
    """Starts are classified one kind after the other; whatever remains at the end is undecided."""

    dynamics: Dynamics
    """The system under study: a map or a flow."""
    system: Dynamics
    """The simulated map: `dynamics` itself, or one time step of the flow."""
    trajectories: Trajectories
    max_period: int
    """Longest period of a cycle that is searched, in steps."""
    count: int
    """Number of Lyapunov exponents."""
    dt: float | None
    seed: int
    progress: bool = False
    """Whether to show a bar for exponents that take long."""
    found: list[FoundAttractor] = field(default_factory=list)
    remaining: list[int] = field(default_factory=list)
    """Starts that are not classified yet."""

    def __post_init__(self) -> None:
        self.remaining = list(range(len(self.trajectories.states)))

    @property
    def steps(self) -> int:
        """Number of steps in the simulated window."""
        return len(self.trajectories.path) - 1

    def of_kind(self, *kinds: Kind) -> Iterable[FoundAttractor]:
        """Return the attractors of these kinds."""
        return (attractor for attractor in self.found if attractor.kind in kinds)

    def add(
        self, kind: Kind, rows: list[int], state: Tensor | None = None, growth: Tensor | None = None, **properties: Any
    ) -> None:
        """Add an attractor; its state is by default the last one of its first start. `growth`: exact exponents."""
        if growth is not None:
            exponents = growth[: self.count].tolist()
            properties |= {"exponents": [exponents], "errors": [[0.0] * len(exponents)]}
        if rows:
            state = self.trajectories.states[rows[0]] if state is None else state
            self.found.append(FoundAttractor(kind, state, [], **properties))
            self.assign(self.found[-1], rows)

    def assign(self, attractor: FoundAttractor, rows: list[int]) -> None:
        """Assign starts to a known attractor."""
        attractor.starts += rows
        self.remaining = [row for row in self.remaining if row not in rows]

    def mark_undecided(self, rows: list[int], reason: str) -> None:
        """Record starts that cannot be classified, with the reason."""
        same = next((attractor for attractor in self.of_kind(Kind.UNDECIDED) if attractor.note == reason), None)
        if same is None:
            self.add(Kind.UNDECIDED, rows, note=reason)
        else:
            self.assign(same, rows)


def sorted_eigenvalues(J: Float[Tensor, "size size"]) -> Complex[Tensor, " size"]:
    """Return the eigenvalues by modulus, largest first."""
    values = np.linalg.eigvals(J.cpu().double().numpy())
    return torch.from_numpy(values[np.argsort(-np.abs(values), kind="stable")].astype(complex))
