"""The evolution lens: fixed points of a family of systems, followed over its parameter without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import torch

from mnemoscope.base.validation import check_whole
from mnemoscope.lenses.bifurcations.bifurcations import bifurcations
from mnemoscope.lenses.bifurcations.branch_tracker import Follower
from mnemoscope.lenses.bifurcations.branches import Node
from mnemoscope.lenses.bifurcations.events import Bifurcation
from mnemoscope.lenses.bifurcations.evolution import BifurcationDiagram
from mnemoscope.lenses.bifurcations.families import Family, increasing
from mnemoscope.lenses.bifurcations.snapshots import Given
from mnemoscope.lenses.bifurcations.summary import told
from mnemoscope.lenses.bifurcations.tracing import Tracer
from mnemoscope.lenses.dynamics import Dynamics

TOLERANCE = 1e-4
"""Of the whole range of the parameter: how closely events are located by default."""


def track_fixed_points(
    family: Family,
    at: Sequence[float],
    *,
    starts: Given = "adaptive",
    tolerance: float | None = None,
    eigenvalues: int = 6,
    count_at: Sequence[float] | None = None,
    seed: int = 0,
    progress: bool = False,
) -> BifurcationDiagram:
    """All fixed points of a family as its parameter grows, and the bifurcations on the way (Jang, section 6.1).

    Points are continued from snapshot to snapshot, with steps halved where they turn or meet. At each snapshot a search
    from fresh starts looks for new ones, which are followed back to where they were born, through earlier snapshots if
    need be. Near each bifurcation the points that it must have are looked for as well. What happens and is undone
    between two snapshots leaves no trace and is not seen: a pair that appears and vanishes, a point that loses its
    stability and regains it.

    Args:
        family: a function from a parameter to the system there; `interpolate_weights(cells, at)` and
            `interpolate_inputs(cell, inputs)` make such functions.
        at: snapshots to visit, increasing. Systems between them are asked for as well.
        starts: of the search at each snapshot: states (starts, size), a strategy, "adaptive", or a function that
            yields states for a parameter (trajectories of that snapshot, say). Mid-points of what was found are added.
        tolerance: how closely events are located in the parameter; 1e-4 of the range by default.
        eigenvalues: how many of the leading ones are kept at each place; of large states as many as were needed to
            count, at least one stable one.
        count_at: the snapshots at which unstable directions are counted, where states are so large that eigenvalues
            take long (more than 300 numbers); all by default. Crossings of +1 show in the index in any case.
        seed: for the strategies that draw at random.
        progress: show a progress bar.

    >>> import mnemoscope as ms
    >>> def family(gain):
    ...     return ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(gain * h), state_size=1, bounds=(-1, 1)))
    >>> seen = ms.track_fixed_points(family, [0.5, 1.3, 2.0])
    >>> [(event.name, round(event.at, 3), event.branches) for event in seen.events]
    [('pitchfork', 1.0, (0, 1, 2))]

    """
    if not callable(family) or isinstance(family, Dynamics):
        raise TypeError(
            f"family must be a function from a parameter to a Dynamics, but is a {type(family).__name__}; "
            f"between(cells, at) makes one from snapshots of a cell."
        )
    places = increasing(at, "at")
    check_whole(1, eigenvalues=eigenvalues)
    check_whole(0, seed=seed)
    if tolerance is not None and not isinstance(tolerance, int | float):
        raise TypeError(f"tolerance must be a number in units of the parameter, or None, but is {tolerance!r}.")
    if count_at is not None and not isinstance(count_at, Sequence):
        raise TypeError(f"count_at must be a list of snapshots, or None for all, but is {count_at!r}.")
    span = places[-1] - places[0]
    tolerance = TOLERANCE * span if tolerance is None else float(tolerance)
    if not (isfinite(tolerance) and 0 < tolerance < span):
        raise ValueError(f"tolerance must be positive and below the range of {span:g}, but is {tolerance:g}.")
    if tolerance < 1e-12 * max(abs(places[0]), abs(places[-1])):
        raise ValueError(f"tolerance {tolerance:g} is below the rounding of the parameter {places[-1]:g}.")
    unknown = set(count_at or ()) - set(places)
    if unknown:
        raise ValueError(f"count_at names parameters that are no snapshots: {sorted(unknown)}.")
    counted = tuple(count_at is None or place in count_at for place in places)
    tracer = Tracer(family, tolerance)
    follower = Follower(tracer, places, starts, number=eigenvalues, counted=counted, seed=seed, progress=progress)
    if tracer.system(places[0]).dtype != torch.float64:
        raise ValueError(
            "Bifurcations are located by differences far below the rounding of float32: let the family make systems in "
            "float64, Dynamics(..., dtype=torch.float64), which is the default."
        )
    with torch.no_grad():
        symmetric = all(_is_odd(tracer.system(place)) for place in (places[0], places[-1]))
        follower.run()
        found = bifurcations(follower)
    return _answer(follower, found, symmetric)


def _answer(follower: Follower, found: list[Bifurcation], symmetric: bool) -> BifurcationDiagram:
    first = follower.tracer.system(follower.at[0])
    rows = [(number, node) for number, track in enumerate(follower.tracks) for node in _ordered(track.nodes)]
    leading = min(follower.number, first.size)
    values = torch.full((len(rows), leading), complex("nan"), dtype=torch.complex128)
    for row, (_, node) in enumerate(rows):
        if node.eigenvalues is not None:
            some = torch.from_numpy(node.eigenvalues[:leading])
            values[row, : len(some)] = some
    states = torch.stack([node.state for _, node in rows]) if rows else torch.zeros(0, first.size).double()
    notes = list(dict.fromkeys(follower.notes))
    events = [told(one, first.size, follower.tracer.tolerance, symmetric) for one in found]
    notes += [f"Not explained: {event.sentence}" for event in events if event.name == "unknown"]
    return BifurcationDiagram(
        snapshots=torch.tensor(follower.at, dtype=torch.float64),
        at=torch.tensor([node.at for _, node in rows], dtype=torch.float64),
        states=states,
        branch=torch.tensor([number for number, _ in rows], dtype=torch.int64),
        snapshot=torch.tensor([node.snapshot for _, node in rows], dtype=torch.int64),
        index=torch.tensor([node.index for _, node in rows], dtype=torch.int64),
        unstable=torch.tensor([node.unstable for _, node in rows], dtype=torch.int64),
        eigenvalues=values,
        q=torch.tensor([node.q for _, node in rows], dtype=torch.float64),
        bounded=torch.tensor(follower.bounded),
        events=tuple(events),
        notes=tuple(notes),
        tolerance=follower.tracer.tolerance,
        continuous=first.continuous,
        symmetric=symmetric,
        rate=first.rate,
    )


def _ordered(nodes: list[Node]) -> list[Node]:
    """By parameter; of two at one parameter, that of the snapshot."""
    kept: dict[float, Node] = {}
    for node in nodes:
        if node.at not in kept or node.snapshot >= 0:
            kept[node.at] = node
    return [kept[at] for at in sorted(kept)]


def _is_odd(system: Dynamics) -> bool:
    """Whether F(-x) = -F(x) at some random states."""
    generator = torch.Generator().manual_seed(0)
    states = system.clamp(torch.randn(8, system.size, generator=generator, dtype=system.dtype).to(system.device))
    mirrored = system.clamp(-states)
    states = -mirrored
    there, back = system(states), system(mirrored)
    return bool(torch.isfinite(there).all()) and bool(((there + back).abs() <= 1e-10 * there.abs().clamp_min(1)).all())
