"""The fixed-point lens: the search from the starts to the classified points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from mnemoscope.base.progress import Bar, show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_type
from mnemoscope.cells import Network, State
from mnemoscope.kernels.devices import useful_threads
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.affine import affine_solution
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.certificate import Prover
from mnemoscope.lenses.fixed_points.composite_starts import Adaptive
from mnemoscope.lenses.fixed_points.descent import Descent, Outcome, Tolerances
from mnemoscope.lenses.fixed_points.matrix_free import NewtonKrylov
from mnemoscope.lenses.fixed_points.mixed_precision import ChordNewton
from mnemoscope.lenses.fixed_points.newton import Newton
from mnemoscope.lenses.fixed_points.outcomes import Certificate, Starts, Status
from mnemoscope.lenses.fixed_points.restarts import Restarts
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.solvers import Solver
from mnemoscope.lenses.fixed_points.starts import StartStrategy, as_starts

LARGEST_FOR_NEWTON = 512
"""Largest state for which `Newton` is the default: up to here, factorisations in float32 save no time."""
LARGEST_DENSE = 2048
"""Largest state for which Jacobians are formed and factorised by default."""
TYPICAL_WAVE = 256
"""States that a step of the search advances together; several threads share it only if that is worth waking them."""
SLOW_DISTANCE = 1e-2
"""Slow points closer than this (rms) are one: a flat minimum of q cannot be located more precisely."""


@show_slow("fixed points")
def find_fixed_points(
    dynamics: Dynamics | Network,
    starts: State | StartStrategy | Literal["adaptive"] = "adaptive",
    *,
    solver: Solver | None = None,
    tolerances: Tolerances | None = None,
    merge_distance: float = 1e-6,
    seed: int = 0,
    progress: bool = False,
    certify: bool = False,
) -> FixedPoints:
    """Find the fixed points of `dynamics` that a solver reaches from `starts` (Sussillo & Barak 2013; Jang, Eq 1-13).

    Args:
        dynamics: the network at one constant input, `Dynamics(network, input)`; or the network itself, without input.
        starts: flat states (starts, size), states of the cell, a strategy (`FromTrajectories`, `Box`, `FromOutputs`,
            `Several`, `Adaptive`), or "adaptive". An adaptive search of a cell that is affine in its state is the
            solution of a linear equation, which also decides whether there are other fixed points.
        solver: by default `Newton()` for states of up to 512 numbers; `ChordNewton()`, which tries a few steps without
            matrices, factorises in float32 and gives up stuck starts early, for up to 2048; above,
            `NewtonKrylov(thorough=False)`, which forms no matrix per start and gives up early, too.
            `LevenbergMarquardt()` and `GaussNewtonCG()` minimise q; the others switch to such a minimiser when stuck.
        tolerances: the limits of q for fixed and for slow points.
        merge_distance: root-mean-square distance below which two converged states are the same point.
        seed: seed of the strategies that draw at random.
        progress: show a progress bar.
        certify: prove by interval arithmetic, for states of up to 3 numbers, that no other fixed point lies in the box
            of the system; `FixedPoints.certificate` holds the proof, or the boxes that could not be decided. Points
            that the proof finds are added.

    >>> import mnemoscope as ms
    >>> rotate_and_shrink = torch.tensor([[0.0, -0.9], [0.9, 0.0]], dtype=torch.float64)
    >>> fp = find_fixed_points(Dynamics(ms.adapt(lambda x, h: h @ rotate_and_shrink.T, state_size=2)))
    >>> len(fp), fp.kind, fp.shape, round(fp.time_constants[0, 0].item(), 1)
    (1, ['stable'], ['spiral'], 9.5)

    """
    dynamics = as_dynamics(dynamics, starts)
    if not 0 <= merge_distance < float("inf"):
        raise ValueError(f"merge_distance must be 0 or positive, but is {merge_distance}.")
    if tolerances is not None:
        check_type(Tolerances, "Tolerances(fixed=..., slow=...)", tolerances=tolerances)
    if solver is not None:
        check_type(Solver, "a solver, such as Newton()", solver=solver)
    tolerances = Tolerances.for_dtype(dynamics.dtype) if tolerances is None else tolerances
    prover = Prover.of(dynamics) if certify else None
    generator = seeded_generator(seed)
    strategy = Adaptive() if isinstance(starts, str) and starts == "adaptive" else starts
    solution = affine_solution(dynamics) if isinstance(strategy, Adaptive) else None
    with torch.no_grad(), useful_threads(dynamics.origin.expand(TYPICAL_WAVE, -1)):
        first = as_starts(dynamics, strategy, generator) if solution is None else solution.nearest
        descent = Descent(solver or default_solver(dynamics.size), Catalogue(dynamics, merge_distance), tolerances)
        with Bar(total=len(first), desc="fixed points", unit="start", disable=not progress) as bar:
            outcomes, stopped = [descent.run(first, bar.update)], ""
            if isinstance(strategy, Adaptive) and solution is None:
                stopped = _search_in_waves(strategy, descent, outcomes, generator, bar)
        certificate = None if prover is None else _certify(prover, descent, outcomes)
        found = collect_result(descent.catalogue, Outcome.concatenate(outcomes), stopped)
        if solution is not None:
            found = replace(found, dimension=-1 if solution.dimension is None else solution.dimension)
        return found if certificate is None else replace(found, certificate=certificate)


def default_solver(size: int) -> Solver:
    """Return the fastest solver for states of `size` numbers."""
    if size <= LARGEST_FOR_NEWTON:
        return Newton()
    return ChordNewton() if size <= LARGEST_DENSE else NewtonKrylov(thorough=False)


def _search_in_waves(
    strategy: Adaptive, descent: Descent, outcomes: list[Outcome], generator: torch.Generator, bar: Bar
) -> str:
    """Add the outcomes of further waves to those of the first, and return why the search ended."""
    catalogue = descent.catalogue
    restarts = Restarts(strategy, catalogue.dynamics, generator)
    budget = float("inf") if strategy.max_starts is None else strategy.max_starts - len(outcomes[0].q)
    idle = 0
    while len(catalogue) or catalogue.dynamics.invariant:  # an invariant box contains at least one
        missing = catalogue.dynamics.invariant and catalogue.index_sum != 1
        if idle >= strategy.patience * (4 if missing else 1) and not restarts.wider_scales(catalogue):
            return f"{_count(idle, 'wave')} in a row found nothing new"
        if len(outcomes) >= strategy.waves:
            return f"the limit of {_count(strategy.waves, 'wave')} was reached"
        if budget < 1:
            return f"the limit of {_count(strategy.max_starts or 0, 'start')} was reached"
        if strategy.max_steps is not None and sum(int(each.steps.sum()) for each in outcomes) >= strategy.max_steps:
            return f"the limit of {_count(strategy.max_steps, 'solver step')} was reached"
        known = catalogue.regular
        starts = restarts.next_wave(catalogue, missing, idle)
        starts = starts[: int(min(budget, len(starts)))]
        budget -= len(starts)
        bar.total = (bar.total or 0) + len(starts)
        bar.set_postfix(found=len(catalogue), index_sum=catalogue.index_sum)
        outcomes.append(descent.run(starts, bar.update))
        idle = 0 if catalogue.regular > known else idle + 1
    return ""


def _certify(prover: Prover, descent: Descent, outcomes: list[Outcome]) -> Certificate:
    """Prove that the catalogue is complete; search from the roots of the proof that it does not contain yet."""
    catalogue = descent.catalogue
    subdivision = prover.subdivide(catalogue.states[catalogue.index != 0])
    missing = prover.missing(subdivision, catalogue)
    if len(missing):
        outcomes.append(descent.run(missing))
    return prover.certificate(subdivision, catalogue)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def collect_result(catalogue: Catalogue, outcome: Outcome, stopped: str) -> FixedPoints:
    """Return the roots of the catalogue as fixed points; `stopped` is the reason why an adaptive search ended."""
    dynamics, point = catalogue.dynamics, outcome.root.clone()
    fixed = outcome.status == Status.FIXED
    slow_rows = (outcome.status == Status.SLOW).nonzero()[:, 0]
    slow, cluster = _slow_points(dynamics, outcome.states[slow_rows], outcome.q[slow_rows])
    point[slow_rows] = cluster
    starts = Starts(outcome.status.cpu(), point.cpu(), outcome.q.cpu(), outcome.steps.cpu())
    starts.q[fixed.cpu()] = catalogue.q[outcome.root[fixed]].cpu()  # merged starts end at their root
    starts.q.mul_(dynamics.rate**2)
    # the degree of a map on a box counts the fixed points inside: a point on the edge may have a partner outside
    touching = dynamics.declared and bool(dynamics.on_edge(catalogue.states).any())
    return _points(
        dynamics,
        catalogue.states,
        catalogue.q,
        reached=torch.bincount(outcome.root[fixed], minlength=len(catalogue)).cpu(),
        bounded=dynamics.invariant and not touching,
        regular=(catalogue.index != 0).cpu(),
        signs=catalogue.index.cpu(),
        declared=dynamics.declared,
        left_box=dynamics.declared and not dynamics.invariant,
        starts=starts,
        slow=slow,
        stopped=stopped,
    )


def _slow_points(dynamics: Dynamics, states: Tensor, q: Tensor) -> tuple[FixedPoints, Tensor]:
    """Return the slowest state of each cluster, and the cluster of each state."""
    slowest: list[int] = []
    cluster = torch.full((len(states),), -1, dtype=torch.int64, device=states.device)
    for row in q.argsort().tolist():
        if cluster[row] >= 0:
            continue
        near = (states - states[row]).norm(dim=1) <= SLOW_DISTANCE * dynamics.size**0.5
        cluster[near & (cluster < 0)] = len(slowest)
        slowest.append(row)
    reached = torch.bincount(cluster, minlength=len(slowest)).cpu()
    return _points(dynamics, states[slowest], q[slowest], reached=reached, bounded=False), cluster


def _points(dynamics: Dynamics, states: Tensor, q: Tensor, **properties: Any) -> FixedPoints:
    main: dict[str, Any] = {
        "states": states.cpu(),
        "q": q.cpu() * dynamics.rate**2,
        "jacobians": dynamics.jacobian(states).cpu(),
    }
    facts: dict[str, Any] = {
        "continuous": dynamics.continuous,
        "rate": dynamics.rate,
        "batch_first": dynamics.batch_first,
    }
    return FixedPoints(**main, **facts, **properties)
