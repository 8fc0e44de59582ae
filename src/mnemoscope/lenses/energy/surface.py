"""The energy as a surface over two directions of V_f, and how it moves with V_d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EpisodicMap, EpisodicMemory
from mnemoscope.lenses.energy.schedule import Schedule
from mnemoscope.lenses.energy.terms import map_energy
from mnemoscope.lenses.energy.trajectories import FAR
from mnemoscope.lenses.energy.weights import Weights
from mnemoscope.lenses.result import Result

MARGIN = 0.25
"""Margin of the grid around the trajectory, as a share of its extent."""


@dataclass(frozen=True, repr=False)
class EnergySurface(Result):
    """The energy (Eq 25 of the notes; memories at rest) on a plane of V_f, for several V_d along a trajectory.

    The plane contains the mean of the trajectory and its two principal directions. The energy is that of points on the
    plane; states are projected onto it.
    """

    noun: ClassVar[str] = "an energy surface"
    drawn_by: ClassVar[str] = "draw_surface"

    energy: Float[Tensor, "panels rows columns"]
    rows: Float[Tensor, " rows"]
    """Coordinates along the second direction."""
    columns: Float[Tensor, " columns"]
    """Coordinates along the first direction."""
    origin: Float[Tensor, " features"]
    directions: Float[Tensor, "2 features"]
    path: Float[Tensor, "time 2"]
    """The trajectory projected onto the plane."""
    delayed: Float[Tensor, "panels features"]
    """V_d of each panel."""
    begin: Int[Tensor, " panels"]
    """First index of the part of the path that belongs to each panel."""
    end: Int[Tensor, " panels"]
    """Last index of that part."""
    inside: float
    """Share of the variance of the trajectory that lies in the plane."""
    held: bool = True
    """Whether V_d is constant during the part of each panel; else `delayed` is V_d at its first state."""

    def __len__(self) -> int:
        """Number of panels."""
        return len(self.energy)

    @property
    def minima(self) -> Float[Tensor, "panels 2"]:
        """Coordinates of the grid point with the lowest energy of each panel."""
        at = self.energy.flatten(1).argmin(1)
        width = len(self.columns)
        return torch.stack([self.columns[at % width], self.rows[at // width]], 1)

    @property
    def at_edge(self) -> Bool[Tensor, " panels"]:
        """Whether the lowest point is on the edge of the grid, so that the energy may be lower beyond it."""
        first, second = self.minima.T
        (left, right), (low, high) = self.columns[[0, -1]], self.rows[[0, -1]]
        return (first == left) | (first == right) | (second == low) | (second == high)

    def summary(self) -> str:
        edge, moves = self.at_edge, self.minima.diff(dim=0).norm(dim=1)
        known = ~(edge[1:] | edge[:-1])
        distances = ", ".join(f"{move:.3g}" if sure else "?" for move, sure in zip(moves.tolist(), known, strict=True))
        sentences = [
            f"The energy on the plane of the two principal directions of V_f, which holds {self.inside:.0%} of the "
            f"variance of the trajectory, for {len(self)} values of V_d."
        ]
        if bool(known.any()):
            sentences.append(f"From one to the next, the lowest point moves by {distances}.")
        if bool(edge.any()):
            panels = f"{int(edge.sum())} of {len(self)}"
            sentences.append(f"In {panels} it is on the edge of the grid, and the energy may be lower beyond.")
        if not self.held:
            sentences.append("V_d moves meanwhile: each surface belongs to the first state of its part.")
        return " ".join(sentences)


@show_slow("energy")
def energy_surface(
    memory: EpisodicMemory | EpisodicMap,
    trajectory: Float[Tensor, "time features"] | None = None,
    delayed: Float[Tensor, "time features"] | None = None,
    *,
    panels: int = 4,
    hold: int = 10,
    grid: int = 81,
    input: Float[Tensor, " features"] | None = None,
) -> EnergySurface:
    """Compute the energy over the two principal directions of a trajectory of V_f, for several values of V_d.

    Args:
        memory: an episodic memory, or one of its maps.
        trajectory: V_f over time; by default sequence recall from the first memory, with V_d set to the rates after
            every `hold` steps. The states of a conjugate map are rates, and are refused.
        delayed: V_d over time, for a given trajectory; by default it is set to the rates after every `hold` steps.
        panels: number of values of V_d, each with its part of the trajectory.
        hold: number of steps between updates of V_d.
        grid: points along each direction.
        input: constant current into V_f.

    >>> from mnemoscope.cells import EpisodicMemory
    >>> memories = torch.linalg.qr(torch.randn(20, 3, dtype=torch.float64))[0] * 4
    >>> surface = energy_surface(EpisodicMemory(memories, torch.eye(3).roll(1, 1).double()))  # each calls for the next
    >>> surface.energy.shape
    torch.Size([4, 81, 81])

    """
    check_whole(1, panels=panels, hold=hold)
    check_whole(2, grid=grid)
    source: Any = memory.memory if isinstance(memory, EpisodicMap) else memory
    if not isinstance(source, EpisodicMemory):
        raise TypeError(
            f"An energy surface needs an EpisodicMemory or an EpisodicMap, but a {type(memory).__name__} was given."
        )
    weights = Weights.from_memory(source, input)
    schedule = Schedule(weights, hold=hold)
    if trajectory is None:
        if delayed is not None:
            raise ValueError("delayed belongs to a trajectory; pass both, or neither.")
        trajectory = _recall(schedule, panels * hold)
    elif isinstance(memory, EpisodicMap) and memory.conjugate:
        raise ValueError(
            "The states of a conjugate map are rates, but a surface is over V_f: pass V_f, with memory.discrete()."
        )
    V_f = _check_path(trajectory, "trajectory", weights.features)
    if delayed is None:
        V_d = schedule.delayed(weights.sigma_f(V_f))
        begin = torch.arange(0, len(V_f) - 1, hold)
        begin = begin[torch.linspace(0, len(begin) - 1, min(panels, len(begin))).round().long()]
        end = (begin + hold).clamp_max(len(V_f) - 1)
    else:
        V_d = _check_path(delayed, "delayed", weights.features)
        if len(V_d) != len(V_f):
            raise ValueError(f"V_f has {len(V_f)} times, but V_d has {len(V_d)}.")
        edges = torch.linspace(0, len(V_f) - 1, min(panels, len(V_f) - 1) + 1).round().long()
        begin, end = edges[:-1], edges[1:]
    return _surface(weights, V_f, V_d, begin, end, grid)


def _recall(schedule: Schedule, steps: int) -> Tensor:
    """Return V_f over time, from the first memory on."""
    weights = schedule.weights
    x = weights.alpha_s**0.5 * weights.Xi[:, 0] * weights.Xi[:, 0].norm()
    path, y = [x], weights.sigma_f(x)
    for t in range(steps):
        g = weights.sigma_f(path[-1])
        y = g if t % schedule.hold == 0 else y
        path.append(weights.field(g, y))
        if not bool((path[-1].abs() < FAR).all()):
            raise ValueError(
                f"Sequence recall diverges: V_f exceeds {FAR:.0e} after {t + 1} of {steps} steps, so it has no "
                f"surface. Use a bounded nonlinearity, lower alpha_s or alpha_c, or pass a trajectory."
            )
    return torch.stack(path)


def _surface(weights: Weights, V_f: Tensor, V_d: Tensor, begin: Tensor, end: Tensor, grid: int) -> EnergySurface:
    origin = V_f.mean(0)
    _, singular, axes = torch.linalg.svd(V_f - origin, full_matrices=False)
    if len(singular) < 2 or singular[1] <= 1e-9 * singular[0] or singular[0] == 0:
        raise ValueError("The trajectory does not span a plane: its states lie on a line, or do not move.")
    directions = axes[:2]
    path = (V_f - origin) @ directions.mT
    low, high = path.min(0).values, path.max(0).values
    reach = MARGIN * (high - low).max()
    columns, rows = (
        torch.linspace(float(a - reach), float(b + reach), grid).double() for a, b in zip(low, high, strict=True)
    )
    points = origin + columns[None, :, None] * directions[0] + rows[:, None, None] * directions[1]
    chosen = V_d[begin]
    energy = torch.stack([map_energy(weights, points, y.expand_as(points)).total for y in chosen])
    inside = float(singular[:2].square().sum() / singular.square().sum())
    held = all(bool((V_d[a:b] == V_d[a]).all()) for a, b in zip(begin.tolist(), end.tolist(), strict=True))
    return EnergySurface(energy, rows, columns, origin, directions, path, chosen, begin, end, inside, held)


def _check_path(given: Tensor, name: str, features: int) -> Tensor:
    if given.dim() != 2 or given.shape[1] != features or len(given) < 3:
        raise ValueError(f"{name} must be (time, {features}), with three times or more, but is {tuple(given.shape)}.")
    if not torch.isfinite(given).all():
        raise ValueError(f"{name} contains NaN or infinite values.")
    return given.detach().cpu().double()
