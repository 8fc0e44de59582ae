"""The energy as a surface over two directions, and how it moves with V_d."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EpisodicMap, EpisodicMemory
from mnemoscope.lenses.energy.schedule import Schedule
from mnemoscope.lenses.energy.terms import map_energy
from mnemoscope.lenses.energy.weights import Weights
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN = 0.25
"""The grid goes beyond the trajectory by this share of its extent."""


@dataclass(frozen=True)
class EnergySurface:
    """The energy (Eq 25 of the notes; memories at rest) on a plane of V_f, for several V_d along a trajectory.

    The plane goes through the mean of the trajectory along its two principal directions. The energy is that of points
    on the plane itself; states are drawn where they project to.
    """

    energy: Float[Tensor, "panels rows columns"]
    rows: Float[Tensor, " rows"]
    columns: Float[Tensor, " columns"]
    """Coordinates along the second and the first direction."""
    origin: Float[Tensor, " features"]
    directions: Float[Tensor, "2 features"]
    path: Float[Tensor, "time 2"]
    """The trajectory in the plane: first, second coordinate."""
    delayed: Float[Tensor, "panels features"]
    """V_d of each panel."""
    begin: Int[Tensor, " panels"]
    end: Int[Tensor, " panels"]
    """Which part of the path belongs to each panel."""
    inside: float
    """Share of the trajectory's variance that lies in the plane."""
    held: bool = True
    """Whether V_d stays as it is during each panel's part of the path; else it is that of the part's first state."""

    def __len__(self) -> int:
        """Panels."""
        return len(self.energy)

    @property
    def minima(self) -> Float[Tensor, "panels 2"]:
        """Where on the grid the energy of each panel is lowest: first, second coordinate."""
        at = self.energy.flatten(1).argmin(1)
        width = len(self.columns)
        return torch.stack([self.columns[at % width], self.rows[at // width]], 1)

    @property
    def at_edge(self) -> Bool[Tensor, " panels"]:
        """Whether that point is on the grid's edge: it is no minimum then, and the energy may be lower beyond."""
        first, second = self.minima.T
        (left, right), (low, high) = self.columns[[0, -1]], self.rows[[0, -1]]
        return (first == left) | (first == right) | (second == low) | (second == high)

    def summary(self) -> str:
        """The result in words."""
        edge, moves = self.at_edge, self.minima.diff(dim=0).norm(dim=1)
        known = ~(edge[1:] | edge[:-1])
        steps = ", ".join(f"{move:.3g}" if sure else "?" for move, sure in zip(moves.tolist(), known, strict=True))
        told = f" From one to the next, the lowest point moves by {steps}." if bool(known.any()) else ""
        if bool(edge.any()):
            told += (
                f" In {int(edge.sum())} of {len(self)} it is on the grid's edge, and the energy may be lower beyond."
            )
        if not self.held:
            told += " V_d moves meanwhile: each surface is that of the first state of its part."
        return (
            f"The energy on the plane of the two principal directions of V_f, which holds {self.inside:.0%} of the "
            f"trajectory's variance, for {len(self)} values of V_d.{told}"
        )

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `EnergySurface.load` reads it back."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        flags = {name: parts.pop(name) for name in ("inside", "held")}
        save_result(path, "EnergySurface", {name: part.clone() for name, part in parts.items()}, flags)

    @classmethod
    def load(cls, path: str | Path) -> EnergySurface:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "EnergySurface", "an energy surface")
        return cls(**tensors, **flags)

    def figure(self) -> Figure:
        """A panel for each V_d: the surface, the trajectory, and where it is (needs the `report` extra)."""
        from mnemoscope.lenses.energy.figure import draw_surface

        return draw_surface(self)


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
    """The energy over the two principal directions of a trajectory of V_f, moving with V_d.

    Args:
        memory: an episodic memory, or one of its maps.
        trajectory: V_f over time; by default sequence recall from the first memory: V_d takes the rates of the features
            after every `hold` steps. The states of a conjugate map are rates, and are refused.
        delayed: V_d over time, beside a trajectory; by default it takes the rates after every `hold` steps.
        panels: values of V_d, each with its part of the trajectory.
        hold: steps for which V_d stays.
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
            f"An energy surface is of an EpisodicMemory or an EpisodicMap, not of a {type(memory).__name__}."
        )
    weights = Weights.of_memory(source, input)
    schedule = Schedule(weights, hold=hold)
    if trajectory is None:
        if delayed is not None:
            raise ValueError("delayed belongs to a trajectory; give both, or neither.")
        trajectory = _recall(schedule, panels * hold)
    elif isinstance(memory, EpisodicMap) and memory.conjugate:
        raise ValueError(
            "The states of a conjugate map are rates, but a surface is one over V_f: give V_f, with memory.discrete()."
        )
    V_f = _checked(trajectory, "trajectory", weights.features)
    if delayed is None:
        V_d = schedule.delayed(weights.sigma_f(V_f)[:, None])[:, 0]
        begin = torch.arange(0, len(V_f) - 1, hold)
        begin = begin[torch.linspace(0, len(begin) - 1, min(panels, len(begin))).round().long()]
        end = (begin + hold).clamp_max(len(V_f) - 1)
    else:
        V_d = _checked(delayed, "delayed", weights.features)
        if len(V_d) != len(V_f):
            raise ValueError(f"V_f has {len(V_f)} times, but V_d has {len(V_d)}.")
        edges = torch.linspace(0, len(V_f) - 1, min(panels, len(V_f) - 1) + 1).round().long()
        begin, end = edges[:-1], edges[1:]
    return _surface(weights, V_f, V_d, begin, end, grid)


def _recall(schedule: Schedule, steps: int) -> Tensor:
    """V_f from the first memory on."""
    weights = schedule.weights
    x = weights.alpha_s**0.5 * weights.Xi[:, 0] * weights.Xi[:, 0].norm()
    path, y = [x], weights.sigma_f(x)
    for t in range(steps):
        g = weights.sigma_f(path[-1])
        y = g if t % schedule.hold == 0 else y
        path.append(schedule.field(g, y))
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


def _checked(given: Tensor, name: str, features: int) -> Tensor:
    if given.dim() != 2 or given.shape[1] != features or len(given) < 3:
        raise ValueError(f"{name} must be (time, {features}), with three times or more, but is {tuple(given.shape)}.")
    if not torch.isfinite(given).all():
        raise ValueError(f"{name} contains NaN or infinite values.")
    return given.detach().cpu().double()
