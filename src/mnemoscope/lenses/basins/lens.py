"""The basin lens: perturbs a network at its attractors, and counts how often it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_type, check_whole
from mnemoscope.cells import Network
from mnemoscope.lenses.attractors.composition import as_map
from mnemoscope.lenses.attractors.cycles_result import Cycles
from mnemoscope.lenses.attractors.result import Attractors, Kind
from mnemoscope.lenses.basins.result import Basins
from mnemoscope.lenses.basins.returning import BETWEEN, destinations
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints

Orbits = list[Float[Tensor, "period size"]]
"""The states of each attractor, one for a fixed point."""
NEAR_ATTRACTOR, NEAR_START = 1e-3, 0.1
"""A start has arrived within this share of the distance between two attractors, and of its first perturbation."""


@show_slow("basin")
def measure_basin(
    dynamics: Dynamics | Network,
    attractors: FixedPoints | Cycles | Attractors,
    sizes: float | Sequence[float],
    *,
    directions: Mapping[str, Tensor] | None = None,
    trials: int = 100,
    steps: int = 1000,
    dt: float | None = None,
    seed: int = 0,
) -> Basins:
    """Perturb a network at each attractor, and count from which perturbations it returns to the same one.

    Args:
        dynamics: the network at one constant input, or the network itself, without input; a flow is integrated in steps
            of `dt`.
        attractors: fixed points or cycles of this system, of which the stable ones count, or its attractors, of which
            points and cycles count. Include all that are known: a start that ends at another one is then recognised.
        sizes: length of the perturbations, or several in rising order, in units of the state.
        directions: directions (size,) by name, such as a readout or a selection vector, along which the state is also
            perturbed, with both signs. Random perturbations are uniform on the sphere of each size.
        trials: random perturbations of each size. Those of a cycle begin at random states of it.
        steps: steps within which a start must arrive, 11 or more; one that has not arrived anywhere by then is
            undecided.
        dt: length of a time step of a flow.
        seed: seed of the perturbations.

    >>> import mnemoscope as ms
    >>> wells = ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(2 * h + x), state_size=1, bounds=(-1, 1)))
    >>> found = ms.measure_basin(wells, ms.find_fixed_points(wells), [0.5, 0.9, 1.1], trials=50)
    >>> found.share[:, 0].round(decimals=1).tolist()  # beyond 0.96, one of two directions leads to the other well
    [[1.0, 1.0, 0.5...], [1.0, 1.0, 0.5...]]

    """
    dynamics = as_dynamics(dynamics)
    found = "what find_fixed_points, find_cycles or find_attractors returned"
    check_type((FixedPoints, Cycles, Attractors), found, attractors=attractors)
    sizes = [sizes] if isinstance(sizes, int | float) else sizes
    system = as_map(dynamics, dt)
    check_whole(1, trials=trials)
    check_whole(BETWEEN + 1, steps=steps)  # two looks
    lengths = torch.tensor([float(length) for length in sizes], dtype=torch.float64)
    if not len(lengths) or not bool((lengths > 0).all()) or not bool((lengths.diff() > 0).all()):
        raise ValueError(f"sizes must be one or more positive lengths that rise, but are {lengths.tolist()}.")
    orbits, numbers = _orbits(system, attractors)
    given = {name: _unit(name, direction, system) for name, direction in (directions or {}).items()}
    signed = {f"{sign}{name}": factor * unit for name, unit in given.items() for sign, factor in (("+", 1), ("-", -1))}
    generator = seeded_generator(seed)
    near = min(NEAR_ATTRACTOR * _separation(orbits), NEAR_START * float(lengths[0]))
    rows = []
    for orbit in orbits:
        groups = [_random(orbit, lengths, trials, generator)]
        groups += [orbit + (lengths.to(orbit)[:, None] * unit)[:, None] for unit in signed.values()]
        ends = [
            destinations(system, group.flatten(0, 1), orbits, near, steps).view(len(lengths), -1) for group in groups
        ]
        rows.append(ends)
    home = range(len(orbits))
    return Basins(
        sizes=lengths,
        directions=("random", *signed),
        returned=torch.stack([torch.stack([(end == own).sum(1) for end in rows[own]]) for own in home]),
        elsewhere=torch.stack([torch.stack([((end >= 0) & (end != own)).sum(1) for end in rows[own]]) for own in home]),
        trials=torch.tensor([[end.shape[1] for end in rows[own]] for own in home]),
        numbers=torch.tensor(numbers),
        periods=torch.tensor([len(orbit) for orbit in orbits]),
        states=torch.stack([orbit[0] for orbit in orbits]).cpu().double(),
        near=near,
        steps=steps,
        dt=dt,
    )


def _orbits(system: Dynamics, attractors: FixedPoints | Cycles | Attractors) -> tuple[Orbits, list[int]]:
    """Return the states of the stable points and cycles, and their numbers among the given ones."""
    if isinstance(attractors, Attractors):
        numbers = [row for row, kind in enumerate(attractors.kind) if kind in (Kind.POINT, Kind.CYCLE)]
        found = [_orbit(system, attractors.states[row], attractors.periods[row]) for row in numbers]
    else:
        numbers = [row for row, kind in enumerate(attractors.kind) if kind == "stable"]
        found = [
            attractors.orbit(row) if isinstance(attractors, Cycles) else attractors.states[row : row + 1]
            for row in numbers
        ]
    if not numbers:
        raise ValueError("None of the given points or cycles attracts, so that there is no basin to measure.")
    if found[0].shape[1] != system.size:
        raise ValueError(
            f"The attractors have {found[0].shape[1]} numbers, but the states of the system {system.size}."
        )
    return [orbit.to(system.origin) for orbit in found], numbers


@torch.no_grad()
def _orbit(system: Dynamics, state: Tensor, period: Tensor) -> Float[Tensor, "period size"]:
    states = [state.to(system.origin)[None]]
    for _ in range(int(period) - 1 if bool(period > 1) else 0):
        states.append(system(states[-1]))
    return torch.cat(states)


def _unit(name: str, direction: Any, system: Dynamics) -> Tensor:
    vector = torch.as_tensor(direction).detach().to(system.origin)
    length = float(vector.norm())
    if vector.shape != (system.size,) or not 0 < length < float("inf"):
        raise ValueError(
            f"The direction {name!r} must be {system.size} numbers of a finite length above 0, but its shape is "
            f"{tuple(vector.shape)} and its length {length:g}."
        )
    return vector / length


def _random(orbit: Tensor, lengths: Tensor, trials: int, generator: torch.Generator) -> Float[Tensor, "sizes trials n"]:
    """Return states of the orbit with a random perturbation of each length."""
    drawn = torch.randn(len(lengths), trials, orbit.shape[1], generator=generator, dtype=torch.float64).to(orbit)
    begin = orbit[torch.randint(len(orbit), (len(lengths), trials), generator=generator).to(orbit.device)]
    return begin + lengths.to(orbit)[:, None, None] * drawn / drawn.norm(dim=2, keepdim=True)


def _separation(orbits: Orbits) -> float:
    """Return the smallest distance between states of two attractors; infinite for a single one."""
    pairs = [(a, b) for number, a in enumerate(orbits) for b in orbits[:number]]
    return min((float(torch.cdist(a, b).min()) for a, b in pairs), default=float("inf"))
