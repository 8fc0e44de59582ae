"""The attractor lens: what a system comes to from many starts, told by its rest, its returns and its exponents."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import State
from mnemoscope.drawing.projection import principal_projection
from mnemoscope.lenses.attractors.exponents import checked_system
from mnemoscope.lenses.attractors.judgement import Found, Judgement
from mnemoscope.lenses.attractors.moving import judge_moving
from mnemoscope.lenses.attractors.repeating import judge_cycles
from mnemoscope.lenses.attractors.resting import judge_creeping, judge_points
from mnemoscope.lenses.attractors.tangents import drawn_starts, seeded
from mnemoscope.lenses.attractors.verdict import UNDEFINED, Attractors, Kind
from mnemoscope.lenses.attractors.watching import watch
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.starts import StartStrategy

DRAWN = 300
"""Steps of each attractor that are drawn."""
BEYOND = 10.0
"""A way that was undecided is drawn no further than this many times the largest number seen before."""


def find_attractors(
    dynamics: Dynamics,
    starts: int | State | StartStrategy = 32,
    *,
    transient: int = 1000,
    steps: int = 1000,
    longest: int = 64,
    patience: int = 4,
    count: int = 6,
    dt: float | None = None,
    seed: int = 0,
) -> Attractors:
    """Where a system goes if it is left alone at its constant input: points, cycles, circles, tori, chaos, or away.

    Each start is followed for `transient` steps and watched for `steps` more. It is called

    - a point attractor, where Newton's method finds a stable fixed point nearby that it comes nearer to;
    - part of a continuous attractor, where it is at rest at one of at least three marginal fixed points with rests
      between them;
    - a slow manifold, where it creeps on, a thousand times slower than systems start, and is not there yet;
    - a cycle, where its states come again after at most `longest` steps, and do so on a stable cycle nearby;
    - by its Lyapunov exponents otherwise, if the halves of what was watched look alike: chaos where one is positive
      beyond its error, an invariant circle where one cannot be told from 0, a torus where more cannot;
    - undecided in all other cases, such as transients that have not ended, with the reason.

    Starts come to one attractor if they come to one point or cycle, or visit one set of states, as far as the gaps
    between those that were watched can tell.

    Starts that are undecided, and chaotic ones where others settle, are followed `patience` times longer before the
    last word. A longer chaotic transient still cannot be told from chaos: chaos means as long as it was watched.

    Args:
        dynamics: a map, or a flow, which is taken in Runge-Kutta steps of length `dt`.
        starts: how many random starts, states, or a strategy.
        transient: steps before it is looked at.
        steps: steps in which it is watched, and in which exponents are then taken.
        longest: the longest period of a cycle that is looked for.
        patience: how many times longer doubtful starts are followed; 0 for not at all.
        count: how many exponents.
        dt: length of a step of a flow.
        seed: of the starts.

    >>> import mnemoscope as ms
    >>> turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    >>> def circling(x, h):
    ...     return 1.2 * (h @ turn.T) / (1 + h.square().sum(1, keepdim=True)).sqrt()
    >>> print(find_attractors(ms.Dynamics(ms.adapt(circling, state_size=2)), 4).verdict)
    Left alone, the system runs round a closed curve, which no number of steps up to 64 closes (all of 4 starts).

    """
    system = checked_system(dynamics, dt)
    least = 4 * longest
    sizes = (("transient", transient, 0), ("longest", longest, 2), ("steps", steps, max(40, least)))
    for name, value, low in (*sizes, ("patience", patience, 0), ("count", count, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            why = f", 4 times the longest period of {longest}" if name == "steps" else ""
            raise ValueError(f"{name} must be a whole number, {low} or more{why}, but is {value!r}.")
    begin = drawn_starts(dynamics, starts, seeded(seed))
    seen = watch(system, begin, transient, steps)
    known = (longest, min(count, system.size), dt, seed)
    answer = _judged(Judgement(dynamics, system, seen, *known))
    doubtful = _doubtful(answer)
    if not doubtful or not patience:
        return answer
    later = watch(system, seen.states[doubtful], patience * (transient + steps), steps)
    return _judged(Judgement(dynamics, system, seen.updated(doubtful, later), *known))


def _doubtful(answer: Attractors) -> list[int]:
    """Starts that are undecided, and chaotic ones where others come to something simpler: a transient, perhaps."""
    kinds = answer.kind_of_starts
    settled = any(kind < Kind.CHAOS for kind in kinds)
    return [row for row, kind in enumerate(kinds) if kind == Kind.UNDECIDED or (kind == Kind.CHAOS and settled)]


def _judged(judgement: Judgement) -> Attractors:
    away, undefined = judgement.seen.diverged, judgement.seen.undefined
    judgement.take(Kind.DIVERGED, (away & ~undefined).nonzero()[:, 0].tolist())
    judgement.take(Kind.DIVERGED, undefined.nonzero()[:, 0].tolist(), note=UNDEFINED)
    with torch.no_grad():
        judge_points(judgement)
        judge_creeping(judgement)
        if not judgement.dynamics.continuous:
            judge_cycles(judgement)
        judge_moving(judgement)
    assert not judgement.left
    return _result(judgement)


def _result(judgement: Judgement) -> Attractors:
    order = sorted(judgement.found, key=lambda one: (one.kind, -len(one.starts)))
    member = torch.zeros(len(judgement.seen.states), dtype=torch.int64)
    for number, one in enumerate(order):
        member[one.starts] = number
    unknown = [[float("nan")] * judgement.count]
    values = [torch.tensor(one.exponents or unknown, dtype=torch.float64) for one in order]
    errors = [torch.tensor(one.errors or unknown, dtype=torch.float64) for one in order]
    paths, labels = _paths(judgement, order)
    return Attractors(
        kinds=torch.tensor([int(one.kind) for one in order]),
        member=member,
        states=torch.stack([one.state for one in order]).cpu(),
        periods=torch.tensor([one.period for one in order], dtype=torch.float64),
        dimensions=torch.tensor([one.dimension for one in order], dtype=torch.float64),
        exponents=torch.stack([own.mean(0) for own in values]),
        errors=torch.stack([own.square().sum(0).sqrt() / len(own) for own in errors]),
        notes=tuple(one.note for one in order),
        paths=paths,
        labels=labels,
        steps=judgement.steps,
        dt=judgement.dt,
        longest=judgement.longest,
    )


def _paths(judgement: Judgement, order: list[Found]) -> tuple[Float[Tensor, "attractors time dims"], tuple[str, ...]]:
    """The way on from the state of each, projected; one that diverges stays where it last was."""
    x, seen = torch.stack([one.state for one in order]), judgement.seen
    limit = x.new_full((len(x),), torch.inf)
    largest = max(float(states.abs().max()) for states in (seen.first, seen.before, seen.states))
    limit[[one.kind == Kind.UNDECIDED for one in order]] = BEYOND * largest
    stays = torch.tensor([one.kind == Kind.DIVERGED for one in order], device=x.device)
    way = [x]
    with torch.no_grad():
        for _ in range(DRAWN - 1):
            new = judgement.system(way[-1])
            stays = stays | ~(torch.isfinite(new).all(1) & (new.abs().amax(1) <= limit))
            way.append(torch.where(stays[:, None], way[-1], new))
    whole, kept = torch.stack(way).cpu(), ~stays.cpu()  # (time, attractors, size)
    project = principal_projection((whole[:, kept] if bool(kept.any()) else whole).flatten(0, 1))
    return torch.from_numpy(project(whole.double().numpy())).transpose(0, 1).contiguous(), project.labels
