"""Energy descent of networks that move in steps: Elman networks, and the episodic map with V_d on a schedule."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import torch
from torch import Tensor

from mnemoscope.cells import EpisodicMap
from mnemoscope.cells.lagrangians import Lagrangian
from mnemoscope.lenses.energy import counterexample
from mnemoscope.lenses.energy.lyapunov import Lyapunov, lyapunov_functions
from mnemoscope.lenses.energy.recurrence import EPS, Recurrence
from mnemoscope.lenses.energy.result import EnergyDescent
from mnemoscope.lenses.energy.schedule import Schedule, scheduled
from mnemoscope.lenses.energy.trajectories import Plan, check_states, step_deviation
from mnemoscope.lenses.energy.weights import Weights


def elman_descent(recurrence: Recurrence, name: str, given: Tensor | None, plan: Plan) -> EnergyDescent:
    """Return the most informative Lyapunov function along given or simulated rates (time, batch, size)."""
    best, *others = lyapunov_functions(recurrence, plan.tolerance)
    descent = _follow(best, recurrence.sigma, name, given, plan)
    return replace(descent, others=tuple(f"({other.kind}) {other.reason}" for other in others))


def map_descent(
    cell: EpisodicMap, trajectory: Tensor | None, input: Tensor | None, delayed: Tensor | None, hold: int, plan: Plan
) -> EnergyDescent:
    """Return the energy of a map with V_d frozen at `delayed`, or set to the rates after every `hold` steps."""
    weights = Weights.from_memory(cell.memory, input)
    name = f"the episodic map ({weights.sigma_f.name}, {weights.features} features, {weights.Xi.shape[1]} memories)"
    rates = None
    if trajectory is not None:
        states = check_states(trajectory, weights.features)
        rates = states if cell.conjugate else weights.sigma_f(states.double()).to(states.dtype)
    if delayed is None and hold == 1 and weights.linear:
        recurrence = Recurrence.from_matrix(weights.recurrent(), weights.current, weights.sigma_f)
        recurrence = replace(recurrence, rounding=weights.rounding)
        if lyapunov_functions(recurrence, plan.tolerance)[0].kind != "none":
            return elman_descent(recurrence, name, rates, plan)
    schedule = scheduled(weights, delayed, hold, plan.tolerance)
    return _follow(schedule, weights.sigma_f, name, rates, plan)


def _follow(
    function: Lyapunov | Schedule, sigma: Lagrangian, name: str, given: Tensor | None, plan: Plan
) -> EnergyDescent:
    """Return the energy along given or simulated rates; search for a counter-example if it may rise."""
    size = function.units
    rates = function.run(sigma(plan.random_fields(plan.starts, size)), plan.steps) if given is None else given.double()
    if function.kind == "two-step" and len(rates) < 3:
        raise ValueError(
            f"The energy is one of two successive states and needs three for a change, but got {len(rates)}."
        )
    energy, change, bound = function.energy(rates), function.change(rates), function.bound(rates)
    descent = EnergyDescent(
        system=name,
        guaranteed=function.guaranteed,
        kind=function.kind,
        reason=function.reason,
        times=torch.arange(len(rates) - len(energy.total), len(rates)).double(),
        names=tuple(energy.terms),
        terms=energy.stacked,
        causes=tuple(change.terms),
        changes=change.stacked,
        sizes=function.size(rates),
        continuous=False,
        given=given is not None,
        precision=EPS if given is None else torch.finfo(given.dtype).eps,
        deviation=0.0 if given is None else step_deviation(function.following(rates), rates),
        asymmetry=function.asymmetry,
        bound=nan if bound is None else float(bound.value.min()),
        bound_reason="" if bound is None else bound.reason,
        slack=function.slack(rates),
    )
    if descent.guaranteed:
        return descent
    tried = function.run(sigma(plan.random_fields(counterexample.STARTS, size)), counterexample.STEPS)
    runs = [(tried, function.energy(tried), EPS)]
    if not descent.strays:
        runs.insert(0, (rates, energy, descent.precision))
    if isinstance(function, Schedule) and not function.follows:
        return replace(descent, **counterexample.largest_rise(*runs, delayed=function.delayed))
    orbit = counterexample.periodic_orbit(function.step, tried[-1, : counterexample.ORBIT_STARTS])
    return replace(descent, **counterexample.largest_rise(*runs), orbit=orbit)
