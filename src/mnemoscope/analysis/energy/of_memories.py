"""The energy report of episodic memories, as maps and as flows."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, nan
from typing import Any

import torch
from torch import Tensor

from mnemoscope.analysis.energy.bounds import lower_bound
from mnemoscope.analysis.energy.counterexample import periodic_orbit
from mnemoscope.analysis.energy.flow import coupling, flow_guarantee, flow_rates, flow_terms
from mnemoscope.analysis.energy.lyapunov import lyapunov_functions
from mnemoscope.analysis.energy.of_networks import recurrence_report
from mnemoscope.analysis.energy.recurrence import Recurrence
from mnemoscope.analysis.energy.report import EnergyReport
from mnemoscope.analysis.energy.schedule import Schedule
from mnemoscope.analysis.energy.simulating import (
    SEARCHED,
    SPREAD,
    checked_states,
    largest_rise,
    precision_of,
    random_rates,
)
from mnemoscope.analysis.energy.symmetry import Symmetry, symmetry
from mnemoscope.analysis.energy.weights import Weights
from mnemoscope.cells import EpisodicMap, EpisodicMemory, EpisodicState


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
) -> EnergyReport:
    """Of a map, with V_d frozen at `delayed`, or taking the rates after every `hold` steps."""
    memory = cell.memory
    weights = Weights.of_memory(memory, input)
    name = f"the episodic map ({weights.sigma_f.name}, {weights.features} features, {weights.Xi.shape[1]} memories)"
    rates = None
    if trajectory is not None:
        states = checked_states(trajectory, weights.features)
        rates = states.double() if cell.conjugate else weights.sigma_f(states.double()).to(states.dtype)
    follows = delayed is None and hold == 1
    if follows and weights.linear:
        u = torch.zeros(weights.features, dtype=torch.float64) if weights.current is None else weights.current
        recurrence = Recurrence.of(weights.recurrent(), u, weights.sigma_f)
        if lyapunov_functions(recurrence, tolerance)[0].kind != "none":
            return recurrence_report(recurrence, name, rates, steps, starts, generator, tolerance)
    schedule = Schedule(weights, _frozen_at(delayed, weights), hold)
    acts = bool((weights.alpha_c * weights.Xi @ weights.Phi).any())
    seen = symmetry(coupling(weights))
    kind, why = _map_guarantee(weights, seen, delayed is not None or not acts, hold, tolerance)
    if rates is None:
        start = random_rates(weights.sigma_f, (starts, weights.features), generator)
        run = schedule.run(start, steps)
    else:
        run = rates.double()
    held_at = schedule.delayed(run)
    energy = schedule.energy(run, held_at, kind == "schedule")
    change = schedule.change(run, held_at, kind == "schedule")
    bound = lower_bound(weights, held_at[0]) if kind == "frozen" else None
    report = EnergyReport(
        name, kind != "none", kind, why, torch.arange(len(run)).double(), tuple(energy.terms), energy.stacked,
        tuple(change.terms), change.stacked, energy.size[1:] + energy.size[:-1], False, trajectory is not None,
        precision_of(rates), 0.0 if rates is None else schedule.deviation(run, held_at),
        seen.asymmetry if weights.linear and acts and delayed is None else nan,
        nan if bound is None else float(bound.value.min()), "" if bound is None else bound.why,
    )  # fmt: skip
    if report.guaranteed:
        return report
    tried = schedule.run(random_rates(weights.sigma_f, (SEARCHED, weights.features), generator), 40)
    found = largest_rise((run, energy.total), (tried, schedule.energy(tried, schedule.delayed(tried), False).total))
    orbit = periodic_orbit(schedule.follow, tried[-1, :64]) if follows else None
    return replace(report, **found, orbit=None if orbit is None else orbit.rates)


def _map_guarantee(weights: Weights, seen: Symmetry, stays: bool, hold: int, tolerance: float) -> tuple[str, str]:
    """Which function falls with V_d on a schedule, and why."""
    if stays:
        return "frozen", "V_d is frozen or does not act, and L_f and L_h are convex: a step takes two divergences away"
    norm = float(torch.linalg.matrix_norm(coupling(weights), 2))
    if weights.linear and seen.asymmetry <= tolerance and seen.lowest >= -tolerance * norm:
        return "schedule", "Xi Phi Xi^T is symmetric and positive semi-definite: V_d may move whenever it likes"
    if not weights.linear:
        because = "sigma_h is not linear"
    elif seen.asymmetry > tolerance:
        because = f"Xi Phi Xi^T is not symmetric (antisymmetric part {seen.asymmetry:.2g} of its norm)"
    else:
        because = f"Xi Phi Xi^T is symmetric, but not positive (lowest eigenvalue {seen.lowest:.3g})"
    held = "" if hold == 1 else f"; it falls on the {hold - 1} of {hold} steps after which V_d stays"
    return "none", f"V_d moves, which can raise the energy, as {because}{held}"


def flow_report(
    cell: EpisodicMemory,
    trajectory: Any,
    input: Tensor | None,
    times: Tensor | None,
    steps: int,
    starts: int,
    generator: torch.Generator,
    tolerance: float,
) -> EnergyReport:
    """Of the three populations in continuous time."""
    memory = cell.frozen(torch.float64)
    assert isinstance(memory, EpisodicMemory)
    weights = Weights.of_memory(memory, input)
    kind, why, asymmetry = flow_guarantee(memory, weights, tolerance)
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
    rates = flow_rates(memory, weights, kind, states, memory(u, states))
    bound = lower_bound(weights, states.V_d[0]) if kind == "frozen" else None
    report = EnergyReport(
        f"the episodic memory ({weights.sigma_f.name}, {weights.features} features, {weights.Xi.shape[1]} memories)",
        kind != "none", kind, why, times, tuple(energy.terms), energy.stacked, tuple(rates.terms), rates.stacked,
        rates.size, True, trajectory is not None, torch.finfo(torch.float64).eps, asymmetry=asymmetry,
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
