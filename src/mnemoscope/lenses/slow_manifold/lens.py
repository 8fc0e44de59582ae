"""The slow-manifold lens: continuous memories that hold a value only approximately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Lengths, Network, State, check_finite_inputs, read_inputs
from mnemoscope.lenses.attractors.composition import as_map
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.starts import FromTrajectories, StartStrategy, as_starts
from mnemoscope.lenses.slow_manifold.curve import fit_curve
from mnemoscope.lenses.slow_manifold.drift import (
    Drift,
    drift_on_curve,
    drift_on_surface,
    measure_errors,
    predict_errors,
)
from mnemoscope.lenses.slow_manifold.gaps import fill_gaps, separate_groups
from mnemoscope.lenses.slow_manifold.kept import GROWING, SHRINKING, Kept, growth_reason, keep_slow_states
from mnemoscope.lenses.slow_manifold.noise import largest_stretch, measure_noise
from mnemoscope.lenses.slow_manifold.rests import fixed_points_on, rests_on_curve
from mnemoscope.lenses.slow_manifold.result import SlowManifold
from mnemoscope.lenses.slow_manifold.settling import spread
from mnemoscope.lenses.slow_manifold.shape import FEWEST, Shape, shape_of
from mnemoscope.lenses.slow_manifold.view import View, as_array

STARTS = 300
"""Number of visited states from which the search starts."""
DETOUR = 1.5
"""A curve this many times longer than the shortest tree through its vertices jumps between branches."""


@show_slow("slow manifold")
def find_slow_manifold(
    dynamics: Dynamics | Network,
    inputs: Tensor | PackedSequence | None = None,
    starts: State | StartStrategy | None = None,
    *,
    speed: float | None = None,
    steps: int | None = None,
    delays: Sequence[int] = (10, 30, 100, 300),
    tolerance: float = 0.1,
    noise: float | None = None,
    fixed_points: FixedPoints | None = None,
    dt: float | None = None,
    seed: int = 0,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
) -> SlowManifold:
    """Find the set of states on which a network holds a value: a line, ring, plane, sphere or torus of slow states.

    A trained memory of an angle or a position is rarely an exact continuous attractor. Its states drift slowly, and a
    search for fixed points finds only the few at which the drift vanishes. Here every start settles until its fast
    directions have decayed and only the drift is left. What is left is a slow manifold if most starts are slow, keep
    their spread, and form a connected set instead of isolated points.

    Args:
        dynamics: the network at one constant input, usually that of the delay, or the network itself, without input; a
            flow is integrated in steps of `dt`.
        inputs: a batch (time, batch, features) of the task, or (batch, time, features) if the network is a torch.nn
            module with `batch_first`; the search starts from 300 states that the network visits.
        starts: the states to start from instead, flat or in the form of the cell, or a strategy. States that the
            network visits are best: from random states it may settle elsewhere.
        speed: largest length of a step at which a state counts as slow. Each start is kept at the first of its states
            that is at most this fast. By default the starts settle until their speeds stop falling, and a state is slow
            if it crosses at most a tenth of the diameter of all settled states within `steps` steps.
        steps: time scale of the memory. The states settle for at least twice as many steps, and longer until their
            speeds stop falling. A set that loses a fifth of its spread from the first half of that time to the second
            contracts, and is no memory; one whose spread grows by more than a quarter leaves. By default 60, then 30
            and 15 if the states contract.
        delays: steps after which the error of a held value is predicted from the drift and measured.
        tolerance: mean error, as a share of the range, at which a value counts as lost.
        noise: standard deviation of noise in every number of the state and step, for the diffusion; by default a
            thousandth of the diameter.
        fixed_points: known fixed points; by default they are searched from the settled states.
        dt: length of a time step of a flow.
        seed: seed of the choice of starts, of subsamples and of the noise.
        mask: the shape of the inputs without their features, False where a sequence has no input.
        lengths: number of steps of each sequence, instead of a mask.

    Each state of this map moves towards the unit circle, and creeps along it to one of two places:

    >>> import mnemoscope as ms
    >>> def ring(x, h):
    ...     radius = h.norm(dim=1, keepdim=True)
    ...     angle = torch.atan2(h[:, 1:], h[:, :1]) - 0.0005 * torch.sin(2 * torch.atan2(h[:, 1:], h[:, :1]))
    ...     return (1 + 0.5 * (radius - 1)) * torch.cat([angle.cos(), angle.sin()], 1)
    >>> starts = torch.randn(200, 2, generator=torch.Generator().manual_seed(0)).double()
    >>> memory = find_slow_manifold(ms.Dynamics(ms.adapt(ring, state_size=2)), starts=starts)
    >>> memory.topology, memory.dimension, sorted(memory.rests_stable.tolist())
    ('ring', 1, [False, False, True, True])

    """
    dynamics = as_dynamics(dynamics, starts)
    system = as_map(dynamics, dt)
    _check_options(steps, delays, speed=speed, tolerance=tolerance, noise=noise)
    generator = seeded_generator(seed)
    given = as_starts(dynamics, _starts(dynamics, inputs, starts, mask, lengths), generator)
    found = keep_slow_states(system, given, speed, steps)
    view, settling = found.view, found.settling
    states = found.states[found.slow.to(found.states.device)]
    result = _nothing(found, _shown(view, states), speed is None, tolerance, dt)
    if result.reason:
        return result
    filled = fill_gaps(view, states, found.limit, settling.steps)
    cloud = torch.cat([states, filled])
    group = torch.from_numpy(separate_groups(view, cloud, found.limit, settling.steps))
    shapes = _shapes(found, _shown(view, cloud), group.numpy(), seed)
    growth = _growth(found, group[: len(states)])
    if shapes[0].topology != "point" and growth > GROWING:
        return replace(result, reason=growth_reason(growth, settling.steps))
    result = _with_shapes(replace(result, filled=_shown(view, filled).cpu(), group=group[: len(states)]), shapes)
    members = states[(result.group == 0).to(states.device)]
    reason = _why_no_manifold(shapes, len(members))
    if reason:
        return replace(result, reason=reason)
    everything = cloud[(group == 0).to(states.device)]
    shape, drift = _drift(view, everything, shapes[0], settling.steps)
    points = fixed_points_on(dynamics, view, everything, drift, fixed_points, seed)
    described = replace(
        _with_shapes(result, [shape, *shapes[1:]]),
        reason="",
        fixed_points=points,
        **_described(shape, drift),
        **rests_on_curve(drift, points, view.window),
        **_errors(view, members, drift, delays, tolerance),
        **measure_noise(view, members, drift, noise, found.steps, settling.steps, generator),
        stretch=largest_stretch(view, everything, drift, found.steps),
    )
    if view.window > 1 and not described.consistent:
        return replace(result, reason="the states stay fast, and their means do not move as their drift predicts")
    return described


def _with_shapes(result: SlowManifold, shapes: list[Shape]) -> SlowManifold:
    """Return the result with the topology, dimension and doubts of each group of states."""
    return replace(
        result,
        topologies=tuple(shape.topology for shape in shapes),
        dimensions=tuple(shape.dimension for shape in shapes),
        doubts=tuple(shape.reason for shape in shapes),
    )


def _why_no_manifold(shapes: list[Shape], members: int) -> str:
    """Return why the main group of states is no slow manifold, or is not known well enough; "" if it is one."""
    main = shapes[0]
    if members < FEWEST and main.topology != "point":
        return f"{members} starts on it are too few, {FEWEST} are needed: pass more starts"
    return _why_isolated(shapes) if main.topology == "point" or main.dimension == 0 else ""


def _check_options(steps: int | None, delays: Sequence[int], **positive: float | None) -> None:
    """Raise unless all options have valid values; the positive numbers may be None."""
    if steps is not None:
        check_whole(2, steps=steps)
    for delay in delays:
        check_whole(1, delays=delay)
    for name, value in positive.items():
        if value is not None and not (isinstance(value, int | float) and 0 < value < float("inf")):
            raise ValueError(f"{name} must be a positive number, but is {value!r}.")


def _starts(
    dynamics: Dynamics,
    inputs: Tensor | PackedSequence | None,
    starts: State | StartStrategy | None,
    mask: Tensor | None,
    lengths: Lengths | None,
) -> State | StartStrategy:
    """Return the given starts, or a strategy that draws them from the states that the inputs lead to."""
    if (inputs is None) == (starts is None):
        raise ValueError(
            "Pass either inputs=..., a batch (time, batch, features) of the task, or starts=..., states from which to "
            "settle: a memory is found among states that the network visits."
        )
    if inputs is None:
        return starts
    given = read_inputs(inputs, batch_first=dynamics.batch_first, mask=mask, lengths=lengths)
    check_finite_inputs(given.xs, given.mask)
    order = "batch, time" if dynamics.batch_first else "time, batch"
    if given.xs.dim() != 3:
        shape = tuple(inputs.shape if isinstance(inputs, Tensor) else given.xs.shape)
        raise ValueError(f"inputs must have shape ({order}, features), but have {shape}.")
    visited = given.xs.shape[0] * given.xs.shape[1] if given.mask is None else int(given.mask.sum())
    if not visited:
        raise ValueError("The inputs have no step: pass at least one sequence of at least one step, or starts=...")
    return FromTrajectories(inputs, min(STARTS, visited), mask=mask, lengths=lengths)


def _shapes(found: Kept, shown: Tensor, group: np.ndarray, seed: int) -> list[Shape]:
    """Return the shape of each group of states; a group that still contracts is a point.

    The slow settled states come first, and states in gaps between them last.
    """
    whole, slow = float(torch.cdist(shown, shown).max()), found.slow.to(shown.device)
    shapes = []
    for number in range(group.max() + 1):
        members = torch.from_numpy(group == number).to(shown.device)
        settled = members[: int(slow.sum())]
        before, after = (spread(part[slow][settled]) for part in (found.settling.half, found.settling.shown))
        contracts = before > 0 and after < SHRINKING * before
        shapes.append(Shape("point", 0) if contracts else shape_of(as_array(shown[members]), whole, seed))
    return shapes


def _growth(found: Kept, group: Tensor) -> float:
    """Return the spread of the main group's settled states, as a share of that after half of the settling.

    It is judged within the group, whose time scale the growth of the others does not concern.
    """
    slow = found.slow.to(found.settling.shown.device)
    before, after = (
        spread(part[slow][(group == 0).to(part.device)]) for part in (found.settling.half, found.settling.shown)
    )
    return after / before if before > 0 else 1.0


def _why_isolated(shapes: list[Shape]) -> str:
    if shapes[0].topology != "point":
        return shapes[0].reason
    points = sum(shape.topology == "point" for shape in shapes)
    return f"the states settle at {points} isolated point{'s' * (points > 1)}"


def _drift(view: View, members: Tensor, shape: Shape, steps: int) -> tuple[Shape, Drift]:
    """Return the drift on a group of states, whose shape is undecided if no curve passes through them."""
    if shape.dimension == 1:
        curve = fit_curve(as_array(_shown(view, members)), closed=shape.topology == "ring")
        if shape.topology != "undecided" and curve.detour <= DETOUR:
            return shape, drift_on_curve(view, members, curve, steps)
        if shape.topology != "undecided":
            shape = replace(
                shape, topology="undecided", reason="no single curve passes through all states: it branches"
            )
    return shape, drift_on_surface(view, members, shape.dimension)


def _described(shape: Shape, drift: Drift) -> dict[str, Any]:
    curve = getattr(drift, "curve", None)
    positions, velocity = drift.positions, drift.drift
    return {
        "agreement": shape.agreement,
        "gap": shape.gap,
        "loops": torch.from_numpy(shape.loops.copy()),
        "hollows": torch.from_numpy(shape.hollows.copy()),
        "range": drift.range,
        "positions": torch.from_numpy(positions.reshape(len(positions), -1).copy()),
        "drift": torch.from_numpy(velocity.reshape(len(velocity), -1).copy()),
        "curve": torch.zeros(0, drift.positions.reshape(len(drift.positions), -1).shape[1])
        if curve is None
        else torch.from_numpy(curve.vertices.copy()),
    }


def _errors(view: View, members: Tensor, drift: Drift, delays: Sequence[int], tolerance: float) -> dict[str, Any]:
    delays = tuple(sorted(int(delay) for delay in delays))
    predicted, lifetime = predict_errors(drift, drift.place(as_array(_shown(view, members))), delays, tolerance)
    velocity = drift.drift.reshape(len(drift.drift), -1)
    fastest = float(np.linalg.norm(velocity, axis=1).max()) / drift.range
    measured = measure_errors(view, members, drift, delays)
    return {
        "delays": delays,
        "predicted": torch.tensor(predicted, dtype=torch.float64),
        "measured": torch.tensor(measured, dtype=torch.float64),
        "bound": torch.tensor([delay * fastest for delay in delays], dtype=torch.float64),
        "lifetime": lifetime,
    }


def _nothing(found: Kept, states: Tensor, chosen: bool, tolerance: float, dt: float | None) -> SlowManifold:
    """Return the result before any shape is known."""
    none, settling = torch.zeros(0, dtype=torch.float64), found.settling
    return SlowManifold(
        kept=found.starts,
        diverged=int((~settling.finite).sum()),
        states=states.cpu(),
        speeds=found.speeds.cpu()[found.slow],
        speed=found.limit,
        speed_chosen=chosen,
        settling=settling.steps,
        plateau=settling.plateau,
        size_kept=settling.kept,
        size_kept_longer=settling.kept_longer,
        reason=found.reason,
        group=torch.zeros(len(states), dtype=torch.int64),
        filled=states[:0].cpu(),
        topologies=(),
        dimensions=(),
        doubts=(),
        agreement=nan,
        diameter=settling.diameter,
        gap=nan,
        loops=none.reshape(0, 2),
        hollows=none.reshape(0, 2),
        range=nan,
        positions=none.reshape(0, 1),
        drift=none.reshape(0, 1),
        curve=none.reshape(0, states.shape[1]),
        rests=none,
        rests_stable=torch.zeros(0, dtype=torch.bool),
        delays=(),
        predicted=none,
        measured=none,
        bound=none,
        tolerance=tolerance,
        lifetime=nan,
        dt=dt,
        window=found.view.window,
        shorter_steps=None if found.shorter is None else found.shorter.steps,
    )


@torch.no_grad()
def _shown(view: View, states: Tensor) -> Tensor:
    return view(states)
