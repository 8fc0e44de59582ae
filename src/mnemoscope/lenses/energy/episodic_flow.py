"""Energy descent of the episodic memory in continuous time."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite, nan
from typing import Any

import torch
from torch import Tensor

from mnemoscope.cells import EpisodicMemory, EpisodicState
from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.counterexample import STARTS
from mnemoscope.lenses.energy.flow import flow_function
from mnemoscope.lenses.energy.recurrence import EPS
from mnemoscope.lenses.energy.result import EnergyDescent
from mnemoscope.lenses.energy.trajectories import Plan, check_states
from mnemoscope.lenses.energy.weights import Weights


def flow_descent(
    cell: EpisodicMemory, trajectory: Any, input: Tensor | None, times: Tensor | None, plan: Plan
) -> EnergyDescent:
    """Return the energy of the three populations along a given or integrated trajectory."""
    memory = cell.frozen(torch.float64)
    assert isinstance(memory, EpisodicMemory)
    weights = replace(Weights.from_memory(memory, input), rounding=torch.finfo(cell.Xi.dtype).eps)
    function = flow_function(memory, weights, plan.tolerance)
    u, (features, memories) = weights.current, weights.Xi.shape

    def random(count: int) -> EpisodicState:
        f, d, h = (plan.random_fields(count, size) for size in (features, features, memories))
        return memory.settled(EpisodicState(f, h, weights.sigma_f(d)))

    if trajectory is None:
        longest = max(filter(isfinite, (memory.T_f, memory.T_h, memory.T_d)))
        times = torch.linspace(0, 10 * longest, plan.steps + 1).double() if times is None else times.double()
        states = memory.integrate(random(plan.starts), times, input=u)
    else:
        states = memory.settled(_check_trajectory(trajectory, memory))
        times = torch.arange(len(states.V_f)).double() if times is None else times.double()
        if times.shape != states.V_f.shape[:1]:
            raise ValueError(f"There are {len(states.V_f)} states, but times are of shape {tuple(times.shape)}.")
    energy, velocities = function.terms(states), memory(u, states)
    rates = function.rates(states, velocities)
    bound = lower_bound(weights, states.V_d[0]) if function.kind == "frozen" else None
    descent = EnergyDescent(
        system=f"the episodic memory ({weights.sigma_f.name}, {features} features, {memories} memories)",
        guaranteed=function.guaranteed,
        kind=function.kind,
        reason=function.reason,
        times=times,
        names=tuple(energy.terms),
        terms=energy.stacked,
        causes=tuple(rates.terms),
        changes=rates.stacked,
        sizes=function.sizes(states, velocities),
        continuous=True,
        given=trajectory is not None,
        precision=EPS,
        deviation=0.0 if trajectory is None else _deviation(memory, states, times, u),
        asymmetry=function.asymmetry,
        bound=nan if bound is None else float(bound.value.min()),
        bound_reason="" if bound is None else bound.reason,
        slack=function.slack(states, velocities),
    )
    if descent.guaranteed:
        return descent
    tried = random(STARTS)
    upward = function.rates(tried, memory(u, tried)).total
    worst = int(upward.argmax())
    if upward[worst] <= 0:
        return descent
    return replace(descent, rise=torch.cat([part[worst] for part in tried])[None], rise_energy=upward[worst][None])


@torch.no_grad()
def _deviation(memory: EpisodicMemory, states: EpisodicState, times: Tensor, u: Tensor) -> float:
    """Return how far the flow from each state ends from the next state, relative to their size; inf if it diverges."""
    apart = times.diff()
    even = bool((apart - apart.mean()).abs().max() <= 1e-9 * apart.mean())
    intervals = [slice(None)] if even else [slice(at, at + 1) for at in range(len(apart))]
    size = max(float(part.abs().max()) for part in states)
    worst = 0.0
    for interval in intervals:
        start = EpisodicState(*(part[:-1][interval].flatten(0, 1) for part in states))
        span = apart[interval].mean()
        try:
            reached = memory.integrate(start, torch.stack([torch.zeros_like(span), span]), input=u)
        except AssertionError:  # torchdiffeq: the step size underflows
            return inf
        for part, given in zip(reached, states, strict=True):
            off = float((part[1] - given[1:][interval].flatten(0, 1)).abs().max())
            worst = max(worst, off / max(size, 1e-300)) if isfinite(off) else inf
    return worst


def _check_trajectory(trajectory: Any, memory: EpisodicMemory) -> EpisodicState:
    if not isinstance(trajectory, tuple) or len(trajectory) != 3:
        raise ValueError("A trajectory of an EpisodicMemory is an EpisodicState of tensors (time, batch, units).")
    sizes = memory.features, memory.memories, memory.features
    states = EpisodicState(*(check_states(part, size).double() for part, size in zip(trajectory, sizes, strict=True)))
    if len({part.shape[:2] for part in states}) != 1:
        raise ValueError("V_f, V_h and V_d of a trajectory must have the same times and the same batch.")
    return states
