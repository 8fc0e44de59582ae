"""The cycle lens: fixed points of the k-fold maps from the fixed-point lens, joined to orbits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import is_whole
from mnemoscope.cells import Network, State
from mnemoscope.lenses.attractors.composition import iterated_map
from mnemoscope.lenses.attractors.cycle_families import family_periods
from mnemoscope.lenses.attractors.cycles_result import Cycles
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.composite_starts import Adaptive
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude
from mnemoscope.lenses.fixed_points.outcomes import Status
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.solvers import Solver
from mnemoscope.lenses.fixed_points.starts import StartStrategy, as_starts

ROUNDS = 6
"""Largest number of repeated searches from shifted states of known orbits."""
SAME = 10.0
"""The image of a root is another root if they are within this many merge distances: one step may stretch its error."""

NO_INDEX = "Roots in a continuum have no index, so the index sum proves nothing."

Search = Callable[[Dynamics, "State | StartStrategy | str"], FixedPoints]
"""A search for fixed points of a system from given starts."""


@show_slow("cycles")
def find_cycles(
    dynamics: Dynamics | Network,
    periods: int | Iterable[int] = (1, 2, 3, 4),
    starts: State | StartStrategy | Literal["adaptive"] = "adaptive",
    *,
    solver: Solver | None = None,
    merge_distance: float = 1e-6,
    seed: int = 0,
    progress: bool = False,
) -> Cycles:
    """Find all cycles of a map that can be reached from `starts`, whatever their stability.

    A state of period k is a fixed point of the k-fold map, and that is a cell like any other: the search, the merging
    and the index sum are those of `find_fixed_points`. Partial orbits are completed by stepping the map. Roots of a
    lower period are recognised and not counted again. If cycles form a continuum, as when an amplitude is free,
    `families` lists their periods, and the summary reports the continuum instead of a count.

    Newton's method costs k times as much on the k-fold map as on the map, and the number of cycles may grow
    exponentially with k: networks of more than some hundred units are expensive to search beyond their fixed points.

    Args:
        dynamics: a map, at its constant input; or a network, without input.
        periods: the number of steps k, or several; the result includes cycles of their divisors.
        starts: as in `find_fixed_points`.
        solver: as in `find_fixed_points`.
        merge_distance: root-mean-square distance below which two converged states are the same.
        seed: seed of the strategies that draw at random.
        progress: show a progress bar for each period.

    >>> import mnemoscope as ms
    >>> swap = ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(2 * h.flip(1)), state_size=2, bounds=(-1, 1)))
    >>> cycles = find_cycles(swap, periods=2)
    >>> [len(cycles.of_period(1)), len(cycles.of_period(2))], cycles.index_sums.tolist()  # 3 and 3 x 2 of 9 states
    ([3, 3], [1])

    """
    dynamics = as_dynamics(dynamics, starts)
    wanted, generator = _checked_periods(dynamics, periods), seeded_generator(seed)
    # Starts are drawn with the map itself: the k-fold map would hold each input for k steps.
    if isinstance(starts, Adaptive) and starts.initial is not None:
        starts = replace(starts, initial=as_starts(dynamics, starts.initial, generator))
    elif not isinstance(starts, Adaptive | str):
        starts = as_starts(dynamics, starts, generator)

    def search(k_fold: Dynamics, search_starts: State | StartStrategy | str) -> FixedPoints:
        return find_fixed_points(
            k_fold, search_starts, solver=solver, merge_distance=merge_distance, seed=seed, progress=progress
        )

    collection = _OrbitCollection(dynamics, SAME * merge_distance)
    k_folds = {k: iterated_map(dynamics, k) for k in wanted}
    roots: dict[int, FixedPoints] = {}
    for k in wanted:
        roots[k] = _search_with_shifts(dynamics, k_folds[k], k, starts, search, collection.distance)
        collection.add(roots[k].states.to(dynamics.origin))
    for k in wanted:  # orbits found by the search for another period belong to this one too
        known = [orbit for orbit in collection.orbits if k % len(orbit) == 0]
        states = roots[k].states.to(dynamics.origin)
        missed = [orbit for orbit in known if not bool(nearest(orbit[:1], states, collection.distance)[1].all())]
        if missed:
            roots[k] = search(k_folds[k], torch.cat([states, *missed]))
    families = {k: family_periods(dynamics, k_folds[k], k, roots[k]) for k in wanted}
    return _result(collection, roots, search, families)


def nearest(
    states: Float[Tensor, "some size"], others: Float[Tensor, "others size"], distance: float
) -> tuple[Int[Tensor, " some"], Bool[Tensor, " some"]]:
    """Return the nearest other state to each state, and whether it is within `distance` (rms, relative if above 1)."""
    if not len(others):
        return torch.zeros(len(states), dtype=torch.int64), torch.zeros(len(states), dtype=torch.bool)
    apart = torch.cdist(states, others, compute_mode="donot_use_mm_for_euclid_dist")  # exact for near points
    least, which = apart.min(1)
    return which, least <= distance * magnitude(states)


@dataclass
class _OrbitCollection:
    """The distinct orbits of all searches."""

    dynamics: Dynamics
    distance: float
    orbits: list[Tensor] = field(default_factory=list)
    open_ends: int = 0

    def add(self, roots: Float[Tensor, "roots size"]) -> None:
        """Join the roots of a k-fold map to orbits, and keep the new ones."""
        with torch.no_grad():
            following, known = nearest(self.dynamics(roots), roots, self.distance)
        following, known = following.tolist(), known.tolist()
        visited: set[int] = set()
        for first in range(len(roots)):
            if first in visited:
                continue
            orbit, now = [first], first
            while known[now] and following[now] not in orbit:
                now = following[now]
                orbit.append(now)
            visited.update(orbit)
            if not known[now] or following[now] != first:
                self.open_ends += 1
            elif not any(
                len(old) == len(orbit) and bool(nearest(roots[orbit[:1]], old, self.distance)[1]) for old in self.orbits
            ):
                self.orbits.append(roots[orbit])


def _search_with_shifts(
    dynamics: Dynamics, k_fold: Dynamics, k: int, starts: State | StartStrategy | str, search: Search, distance: float
) -> FixedPoints:
    """Search the roots of the k-fold map, and again from the other states of each orbit found."""
    found = search(k_fold, starts)
    adaptive = isinstance(starts, Adaptive | str)
    for _ in range(ROUNDS if k > 1 else 0):
        states = found.states.to(dynamics.origin)
        image, shifts = states, []
        with torch.no_grad():
            for _ in range(k - 1):
                image = dynamics(image)
                shifts.append(image[~nearest(image, states, distance)[1]])
        new = torch.cat(shifts) if shifts else states[:0]
        if not len(new):
            break
        more_starts = torch.cat([states, new])
        again = search(k_fold, Adaptive(more_starts) if adaptive else more_starts)
        if len(again) <= len(found):  # a degenerate set is never complete
            break
        found = again
    return found


def _result(
    collection: _OrbitCollection, roots: dict[int, FixedPoints], search: Search, families: dict[int, set[int]]
) -> Cycles:
    dynamics, orbits = collection.dynamics, sorted(collection.orbits, key=len)
    kept: list[Tensor] = []
    parts = [next(iter(roots.values()))[[]]]  # no point, so that there is something to join even without a cycle
    for period in sorted({len(orbit) for orbit in orbits}):
        of_period = [orbit for orbit in orbits if len(orbit) == period]
        fp = search(iterated_map(dynamics, period), torch.stack([orbit[0] for orbit in of_period]))
        assert fp.starts is not None
        used: set[int] = set()
        for orbit, row, status in zip(of_period, fp.starts.point.tolist(), fp.starts.status.tolist(), strict=True):
            if status != Status.FIXED or row in used:
                collection.open_ends += 1
                continue
            used.add(row)
            kept.append(orbit)
            reached = sum(_reached(points, orbit, collection.distance) for points in roots.values())
            parts.append(replace(fp[row], states=orbit[:1].cpu(), reached=torch.tensor([reached])))
    names = ("states", "q", "jacobians", "reached", "regular")
    joined: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
    return Cycles(
        periods=torch.tensor([len(orbit) for orbit in kept], dtype=torch.int64),
        states=(torch.cat(kept) if kept else dynamics.origin[:0]).cpu(),
        points=FixedPoints(**joined, continuous=False, bounded=False),
        searched=torch.tensor(list(roots), dtype=torch.int64),
        index_sums=torch.tensor([fp.index_sum for fp in roots.values()], dtype=torch.int64),
        completeness=tuple(NO_INDEX if families[k] else fp.completeness for k, fp in roots.items()),
        open_ends=collection.open_ends,
        families=tuple(sorted(set().union(*families.values()))),
    )


def _reached(fp: FixedPoints, orbit: Tensor, distance: float) -> int:
    """Return how many starts of a search ended at states of this orbit."""
    return int(fp.reached[nearest(fp.states, orbit.cpu(), distance)[1]].sum())


def _checked_periods(dynamics: Dynamics, periods: int | Iterable[int]) -> list[int]:
    """Return the requested periods in increasing order; raise if they or the system are unsuitable."""
    if dynamics.continuous:
        raise ValueError(
            "A flow takes no steps, so its cycles have no period in steps. Use find_attractors(dynamics, dt=...), "
            "which integrates the flow and reports whether it settles to a closed orbit."
        )
    requested = list(periods) if isinstance(periods, Iterable) else [periods]
    if not requested or not all(is_whole(k, 1) for k in requested):
        raise ValueError(
            f"periods must be a whole number of steps, 1 or more, or several of them (at least one) as in "
            f"periods=(1, 2, 3), but is {periods!r}."
        )
    return sorted({int(k) for k in requested})
