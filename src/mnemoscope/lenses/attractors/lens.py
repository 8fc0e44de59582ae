"""The attractor lens: simulates a system from many starts and classifies what each start settles to."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole, is_whole
from mnemoscope.cells import Network, State
from mnemoscope.drawing.projection import principal_projection
from mnemoscope.lenses.attractors.aperiodic import classify_aperiodic
from mnemoscope.lenses.attractors.classification import Classification, FoundAttractor
from mnemoscope.lenses.attractors.composition import as_map
from mnemoscope.lenses.attractors.equilibria import classify_equilibria, classify_slow
from mnemoscope.lenses.attractors.periodic import classify_cycles
from mnemoscope.lenses.attractors.result import UNDEFINED, Attractors, Kind
from mnemoscope.lenses.attractors.simulation import simulate
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.starts import StartStrategy, draw_starts

DRAWN = 300
"""States of each attractor that are drawn."""
BEYOND = 10.0
"""The path of an undecided start is drawn up to this many times the largest number seen before."""


@show_slow("attractors")
def find_attractors(
    dynamics: Dynamics | Network,
    starts: int | State | StartStrategy = 32,
    *,
    transient: int = 1000,
    steps: int = 1000,
    max_period: int = 64,
    patience: int = 4,
    count: int = 6,
    dt: float | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Attractors:
    """Find the attractors of a system at its constant input: points, cycles, circles, tori, chaos, or divergence.

    Each start is simulated for `transient` steps and then for a window of `steps` more. It settles to

    - a point attractor, if Newton's method finds a stable fixed point nearby that it approaches;
    - a continuous attractor, if it rests at one of at least three marginal fixed points with further rest points
      between them;
    - a slow manifold, if it still moves, a thousand times slower than at first;
    - a cycle, if its states recur after at most `max_period` steps, on a stable cycle nearby;
    - otherwise, if the two halves of the window are alike, what its Lyapunov exponents show: chaos if one is positive
      beyond its error, an invariant circle if one is indistinguishable from 0, a torus if several are;
    - undecided in all other cases, such as transients that have not ended, with the reason.

    Starts share an attractor if they settle to one point or cycle, or visit one set of states, as judged by the gaps
    between the visited states.

    Starts that are undecided, and chaotic ones if others settle, are simulated `patience` times longer before they are
    classified again. A chaotic transient that lasts even longer is indistinguishable from chaos.

    Args:
        dynamics: a map, or a flow, which is integrated in Runge-Kutta steps of length `dt`; or a network without input.
        starts: the number of random starts, states, or a strategy.
        transient: steps before the window.
        steps: steps in the window, and steps over which exponents are averaged.
        max_period: longest period of a cycle that is searched, in steps.
        patience: factor by which doubtful starts are simulated longer; 0 for no longer simulation.
        count: number of Lyapunov exponents.
        dt: length of a time step of a flow.
        seed: seed of the random starts.
        progress: show a progress bar after 3 seconds.

    >>> import mnemoscope as ms
    >>> turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    >>> def circling(x, h):
    ...     return 1.2 * (h @ turn.T) / (1 + h.square().sum(1, keepdim=True)).sqrt()
    >>> print(find_attractors(ms.Dynamics(ms.adapt(circling, state_size=2)), 4).verdict)
    Left alone, the system moves on a closed curve without a period of up to 64 steps (all of 4 starts).

    """
    dynamics = as_dynamics(dynamics, starts)
    system = as_map(dynamics, dt)
    check_whole(0, transient=transient, patience=patience)
    check_whole(1, count=count)
    check_whole(2, max_period=max_period)
    least = max(40, 4 * max_period)
    if not is_whole(steps, least):
        raise ValueError(
            f"steps must be a whole number, {least} or more, 4 times the longest period of {max_period}, but is "
            f"{steps!r}."
        )
    initial = draw_starts(dynamics, starts, seeded_generator(seed))
    trajectories = simulate(system, initial, transient, steps, progress)
    options = (max_period, min(count, system.size), dt, seed, progress)
    attractors = _classified(Classification(dynamics, system, trajectories, *options))
    doubtful = _doubtful(attractors)
    if not doubtful or not patience:
        return attractors
    later = simulate(system, trajectories.states[doubtful], patience * (transient + steps), steps, progress)
    return _classified(Classification(dynamics, system, trajectories.updated(doubtful, later), *options))


def _doubtful(attractors: Attractors) -> list[int]:
    """Return undecided starts, and chaotic ones if others settle to something simpler: perhaps a transient."""
    kinds = attractors.kind_of_starts
    settled = any(kind < Kind.CHAOS for kind in kinds)
    return [row for row, kind in enumerate(kinds) if kind == Kind.UNDECIDED or (kind == Kind.CHAOS and settled)]


def _classified(classification: Classification) -> Attractors:
    diverged, undefined = classification.trajectories.diverged, classification.trajectories.undefined
    classification.add(Kind.DIVERGED, (diverged & ~undefined).nonzero()[:, 0].tolist())
    classification.add(Kind.DIVERGED, undefined.nonzero()[:, 0].tolist(), note=UNDEFINED)
    with torch.no_grad():
        classify_equilibria(classification)
        classify_slow(classification)
        if not classification.dynamics.continuous:
            classify_cycles(classification)
        classify_aperiodic(classification)
    assert not classification.remaining
    return _result(classification)


def _result(classification: Classification) -> Attractors:
    found = sorted(classification.found, key=lambda attractor: (attractor.kind, -len(attractor.starts)))
    member = torch.zeros(len(classification.trajectories.states), dtype=torch.int64)
    for number, attractor in enumerate(found):
        member[attractor.starts] = number
    unknown = [[float("nan")] * classification.count]
    exponents = [torch.tensor(attractor.exponents or unknown, dtype=torch.float64) for attractor in found]
    errors = [torch.tensor(attractor.errors or unknown, dtype=torch.float64) for attractor in found]
    paths, labels = _paths(classification, found)
    return Attractors(
        kinds=torch.tensor([int(attractor.kind) for attractor in found]),
        member=member,
        states=torch.stack([attractor.state for attractor in found]).cpu(),
        periods=torch.tensor([attractor.period for attractor in found], dtype=torch.float64),
        dimensions=torch.tensor([attractor.dimension for attractor in found], dtype=torch.float64),
        exponents=torch.stack([values.mean(0) for values in exponents]),
        errors=torch.stack([values.square().sum(0).sqrt() / len(values) for values in errors]),
        notes=tuple(attractor.note for attractor in found),
        paths=paths,
        labels=labels,
        steps=classification.steps,
        dt=classification.dt,
        max_period=classification.max_period,
    )


def _paths(
    classification: Classification, found: list[FoundAttractor]
) -> tuple[Float[Tensor, "attractors time dims"], tuple[str, ...]]:
    """Return the projected path from a state of each attractor, up to its last finite state, and the axis labels."""
    x, trajectories = torch.stack([attractor.state for attractor in found]), classification.trajectories
    limit = x.new_full((len(x),), torch.inf)
    largest = max(
        float(states.abs().max()) for states in (trajectories.starts, trajectories.entry, trajectories.states)
    )
    limit[[attractor.kind == Kind.UNDECIDED for attractor in found]] = BEYOND * largest
    stays = torch.tensor([attractor.kind == Kind.DIVERGED for attractor in found], device=x.device)
    path = [x]
    with torch.no_grad():
        for _ in range(DRAWN - 1):
            new = classification.system(path[-1])
            stays = stays | ~(torch.isfinite(new).all(1) & (new.abs().amax(1) <= limit))
            path.append(torch.where(stays[:, None], path[-1], new))
    paths, kept = torch.stack(path).cpu(), ~stays.cpu()  # (time, attractors, size)
    project = principal_projection((paths[:, kept] if bool(kept.any()) else paths).flatten(0, 1))
    return torch.from_numpy(project(paths.double().numpy())).transpose(0, 1).contiguous(), project.labels
