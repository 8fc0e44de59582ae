"""The energy report of episodic memories, as maps and as flows."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite, nan
from typing import Any

import torch
from torch import Tensor

from mnemoscope.cells import EpisodicMap, EpisodicMemory, EpisodicState
from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.counterexample import periodic_orbit
from mnemoscope.lenses.energy.flow import (
    coupling,
    flow_guarantee,
    flow_rates,
    flow_sizes,
    flow_slack,
    flow_terms,
)
from mnemoscope.lenses.energy.lyapunov import lyapunov_functions
from mnemoscope.lenses.energy.of_networks import recurrence_report
from mnemoscope.lenses.energy.recurrence import EPS, Recurrence
from mnemoscope.lenses.energy.report import EnergyDescent
from mnemoscope.lenses.energy.schedule import Schedule
from mnemoscope.lenses.energy.simulating import (
    SEARCHED,
    SPREAD,
    checked_states,
    largest_rise,
    precision_of,
    random_rates,
)
from mnemoscope.lenses.energy.symmetry import Symmetry, symmetric_up_to, symmetry, within_rounding
from mnemoscope.lenses.energy.weights import Weights


def map_report(
    cell: EpisodicMap,
    trajectory: Tensor | None,
    input: Tensor | None,
    delayed: Tensor | None,
    hold: int,
    steps: int,
    starts: int,
    generator: torch.Generator,
    tolerance: float,
) -> EnergyDescent:
    """Of a map, with V_d frozen at `delayed`, or taking the rates after every `hold` steps."""
    memory = cell.memory
    weights = Weights.of_memory(memory, input)
    name = f"the episodic map ({weights.sigma_f.name}, {weights.features} features, {weights.Xi.shape[1]} memories)"
    rates = None
    if trajectory is not None:
        states = checked_states(trajectory, weights.features)
        rates = states if cell.conjugate else weights.sigma_f(states.double()).to(states.dtype)
    follows = delayed is None and hold == 1
    if follows and weights.linear:
        u = torch.zeros(weights.features, dtype=torch.float64) if weights.current is None else weights.current
        recurrence = replace(Recurrence.of(weights.recurrent(), u, weights.sigma_f), rounding=weights.rounding)
        if lyapunov_functions(recurrence, tolerance)[0].kind != "none":
            return recurrence_report(recurrence, name, rates, steps, starts, generator, tolerance)
    schedule = Schedule(weights, _frozen_at(delayed, weights), hold)
    acts = bool((weights.alpha_c * weights.Xi @ weights.Phi).any())
    seen = symmetry(coupling(weights))
    kind, why, sure = _map_guarantee(weights, seen, delayed is not None or not acts, hold, tolerance)
    if rates is None:
        start = random_rates(weights.sigma_f, (starts, weights.features), generator)
        run = schedule.run(start, steps)
    else:
        run = rates.double()
    held_at = schedule.delayed(run)
    energy = schedule.energy(run, held_at, kind == "schedule")
    change = schedule.change(run, held_at, kind == "schedule")
    bound = lower_bound(weights, held_at[0]) if kind == "frozen" else None
    report = EnergyDescent(
        name, sure, kind, why, torch.arange(len(run)).double(), tuple(energy.terms), energy.stacked,
        tuple(change.terms), change.stacked, energy.size[1:] + energy.size[:-1], False, trajectory is not None,
        precision_of(rates), 0.0 if rates is None else schedule.deviation(run, held_at),
        seen.asymmetry if weights.linear and acts and delayed is None else nan,
        nan if bound is None else float(bound.value.min()), "" if bound is None else bound.why,
        slack=schedule.slack(run, held_at) if sure and kind == "schedule" else None,
    )  # fmt: skip
    if report.guaranteed:
        return report
    tried = schedule.run(random_rates(weights.sigma_f, (SEARCHED, weights.features), generator), 40)
    tried_at = schedule.delayed(tried)
    total = schedule.energy(tried, tried_at, kind == "schedule")
    own, other = (None, None) if follows else (held_at, tried_at)  # a V_d that follows is the rates
    found = largest_rise(*([] if report.strays else [(run, energy, own, report.precision)]), (tried, total, other, EPS))
    orbit = periodic_orbit(schedule.follow, tried[-1, :64]) if follows else None
    return replace(report, **found, orbit=None if orbit is None else orbit.rates)


def _map_guarantee(weights: Weights, seen: Symmetry, stays: bool, hold: int, tolerance: float) -> tuple[str, str, bool]:
    """Which function falls with V_d on a schedule, why, and whether it must."""
    if stays:
        why = "V_d is frozen or does not act, and L_f and L_h are convex: a step takes two divergences away"
        return "frozen", why, True
    rounded = weights.features * weights.rounding * seen.norm  # what an eigenvalue may be that should be 0
    if weights.linear and seen.asymmetry <= tolerance and seen.lowest >= -rounded:
        sure = seen.asymmetry <= within_rounding(weights.rounding, weights.features)
        how = f"symmetric{symmetric_up_to(seen.asymmetry, sure)}"
        return "schedule", f"Xi Phi Xi^T is positive semi-definite and {how}: V_d may move whenever it likes", sure
    if not weights.linear:
        because = "sigma_h is not linear"
    elif seen.asymmetry > tolerance:
        because = f"Xi Phi Xi^T is not symmetric (antisymmetric part {seen.asymmetry:.2g} of its norm)"
    else:
        because = f"Xi Phi Xi^T is symmetric, but not positive (lowest eigenvalue {seen.lowest:.3g})"
    held = "" if hold == 1 else f"; it falls on the {hold - 1} of {hold} steps after which V_d stays"
    return "none", f"V_d moves, which can raise the energy, as {because}{held}", False


def flow_report(
    cell: EpisodicMemory,
    trajectory: Any,
    input: Tensor | None,
    times: Tensor | None,
    steps: int,
    starts: int,
    generator: torch.Generator,
    tolerance: float,
) -> EnergyDescent:
    """Of the three populations in continuous time."""
    memory = cell.frozen(torch.float64)
    assert isinstance(memory, EpisodicMemory)
    weights = replace(Weights.of_memory(memory, input), rounding=torch.finfo(cell.Xi.dtype).eps)
    guarantee = flow_guarantee(memory, weights, tolerance)
    kind = guarantee.kind
    u = weights.Xi.new_zeros(weights.features) if weights.current is None else weights.current

    def random(count: int) -> EpisodicState:
        f, d = (SPREAD * torch.randn(count, weights.features, generator=generator).double() for _ in range(2))
        h = SPREAD * torch.randn(count, weights.Xi.shape[1], generator=generator).double()
        return memory.settled(EpisodicState(f, h, weights.sigma_f(d)))

    if trajectory is None:
        longest = max(filter(isfinite, (memory.T_f, memory.T_h, memory.T_d)))
        times = torch.linspace(0, 10 * longest, steps + 1).double() if times is None else times.double()
        states = memory.integrate(random(starts), times, input=u)
    else:
        states = memory.settled(_flow_states(trajectory, memory))
        times = torch.arange(len(states.V_f)).double() if times is None else times.double()
        if times.shape != states.V_f.shape[:1]:
            raise ValueError(f"There are {len(states.V_f)} states, but times are of shape {tuple(times.shape)}.")
    energy = flow_terms(weights, kind, states)
    velocities = memory(u, states)
    rates = flow_rates(memory, weights, kind, states, velocities)
    sizes = flow_sizes(memory, weights, kind, states, velocities)
    bound = lower_bound(weights, states.V_d[0]) if kind == "frozen" else None
    report = EnergyDescent(
        f"the episodic memory ({weights.sigma_f.name}, {weights.features} features, {weights.Xi.shape[1]} memories)",
        guarantee.guaranteed, kind, guarantee.why, times, tuple(energy.terms), energy.stacked, tuple(rates.terms),
        rates.stacked, sizes, True, trajectory is not None, torch.finfo(torch.float64).eps,
        0.0 if trajectory is None else _strayed(memory, states, times, u), guarantee.asymmetry,
        slack=flow_slack(memory, weights, guarantee, states, velocities),
        bound=nan if bound is None else float(bound.value.min()), bound_why="" if bound is None else bound.why,
    )  # fmt: skip
    if report.guaranteed:
        return report
    tried = random(SEARCHED)
    upward = flow_rates(memory, weights, kind, tried, memory(u, tried)).total
    worst = int(upward.argmax())
    if upward[worst] <= 0:
        return report
    return replace(report, rise=torch.cat([part[worst] for part in tried])[None], rise_energy=upward[worst][None])


@torch.no_grad()
def _strayed(memory: EpisodicMemory, states: EpisodicState, times: Tensor, u: Tensor) -> float:
    """How far the flow from each state is from the next one, relative to their size; infinite where it blows up."""
    apart = times.diff()
    even = bool((apart - apart.mean()).abs().max() <= 1e-9 * apart.mean())
    parts = [slice(None)] if even else [slice(at, at + 1) for at in range(len(apart))]
    size = max(float(part.abs().max()) for part in states)
    worst = 0.0
    for own in parts:
        start = EpisodicState(*(part[:-1][own].flatten(0, 1) for part in states))
        span = apart[own].mean()
        try:
            reached = memory.integrate(start, torch.stack([torch.zeros_like(span), span]), input=u)
        except AssertionError:  # torchdiffeq: a step became too small
            return inf
        for part, given in zip(reached, states, strict=True):
            off = float((part[1] - given[1:][own].flatten(0, 1)).abs().max())
            worst = max(worst, off / max(size, 1e-300)) if isfinite(off) else inf
    return worst


def _flow_states(trajectory: Any, memory: EpisodicMemory) -> EpisodicState:
    if not isinstance(trajectory, tuple) or len(trajectory) != 3:
        raise ValueError("A trajectory of an EpisodicMemory is an EpisodicState of tensors (time, batch, units).")
    sizes = memory.features, memory.memories, memory.features
    states = EpisodicState(*(checked_states(part, size).double() for part, size in zip(trajectory, sizes, strict=True)))
    if len({part.shape[:2] for part in states}) != 1:
        raise ValueError("V_f, V_h and V_d of a trajectory must have the same times and the same batch.")
    return states


def _frozen_at(delayed: Tensor | None, weights: Weights) -> Tensor | None:
    if delayed is None:
        return None
    if delayed.shape[-1:] != (weights.features,) or delayed.dim() > 2 or not torch.isfinite(delayed).all():
        raise ValueError(
            f"delayed must be finite, ({weights.features},) or (batch, {weights.features}), but its shape is "
            f"{tuple(delayed.shape)}."
        )
    return delayed.detach().double()
