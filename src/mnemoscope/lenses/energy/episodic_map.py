"""Energy descent of the discrete episodic memory, with V_d frozen or on a schedule."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import torch
from torch import Tensor

from mnemoscope.cells import EpisodicMap
from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.counterexample import (
    ORBIT_STARTS,
    SEARCHED,
    SEARCHED_STEPS,
    largest_rise,
    periodic_orbit,
)
from mnemoscope.lenses.energy.elman import elman_descent
from mnemoscope.lenses.energy.lyapunov import lyapunov_functions
from mnemoscope.lenses.energy.recurrence import EPS, Recurrence
from mnemoscope.lenses.energy.result import EnergyDescent
from mnemoscope.lenses.energy.schedule import Schedule
from mnemoscope.lenses.energy.symmetry import Symmetry, describe_asymmetry, within_rounding
from mnemoscope.lenses.energy.trajectories import check_states, random_rates, state_precision
from mnemoscope.lenses.energy.weights import Weights


def map_descent(
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
    """Return the energy of a map with V_d frozen at `delayed`, or set to the rates after every `hold` steps."""
    weights = Weights.from_memory(cell.memory, input)
    name = f"the episodic map ({weights.sigma_f.name}, {weights.features} features, {weights.Xi.shape[1]} memories)"
    rates = None
    if trajectory is not None:
        states = check_states(trajectory, weights.features)
        rates = states if cell.conjugate else weights.sigma_f(states.double()).to(states.dtype)
    follows = delayed is None and hold == 1
    if follows and weights.linear:
        u = torch.zeros(weights.features, dtype=torch.float64) if weights.current is None else weights.current
        recurrence = Recurrence.from_matrix(weights.recurrent(), u, weights.sigma_f)
        recurrence = replace(recurrence, rounding=weights.rounding)
        if lyapunov_functions(recurrence, tolerance)[0].kind != "none":
            return elman_descent(recurrence, name, rates, steps, starts, generator, tolerance)
    schedule = Schedule(weights, _check_delayed(delayed, weights), hold)
    acts = bool((weights.alpha_c * weights.Xi @ weights.Phi).any())
    symmetry = Symmetry.from_matrix(weights.coupling())
    kind, reason, sure = _guarantee(weights, symmetry, delayed is not None or not acts, hold, tolerance)
    settled = kind == "schedule"
    if rates is None:
        run = schedule.run(random_rates(weights.sigma_f, (starts, weights.features), generator), steps)
    else:
        run = rates.double()
    run_delayed = schedule.delayed(run)
    energy, change = schedule.energy(run, run_delayed, settled), schedule.change(run, run_delayed, settled)
    bound = lower_bound(weights, run_delayed[0]) if kind == "frozen" else None
    descent = EnergyDescent(
        system=name,
        guaranteed=sure,
        kind=kind,
        reason=reason,
        times=torch.arange(len(run)).double(),
        names=tuple(energy.terms),
        terms=energy.stacked,
        causes=tuple(change.terms),
        changes=change.stacked,
        sizes=energy.size[1:] + energy.size[:-1],
        continuous=False,
        given=trajectory is not None,
        precision=state_precision(rates),
        deviation=0.0 if rates is None else schedule.deviation(run, run_delayed),
        asymmetry=symmetry.asymmetry if weights.linear and acts and delayed is None else nan,
        bound=nan if bound is None else float(bound.value.min()),
        bound_reason="" if bound is None else bound.reason,
        slack=schedule.slack(run, run_delayed) if sure and settled else None,
    )
    if descent.guaranteed:
        return descent
    start = random_rates(weights.sigma_f, (SEARCHED, weights.features), generator)
    tried = schedule.run(start, SEARCHED_STEPS)
    tried_delayed = schedule.delayed(tried)
    total = schedule.energy(tried, tried_delayed, settled)
    if follows:  # V_d equals the rates
        run_delayed = tried_delayed = None
    runs = [] if descent.strays else [(run, energy, run_delayed, descent.precision)]
    found = largest_rise(*runs, (tried, total, tried_delayed, EPS))
    orbit = periodic_orbit(schedule.follow, tried[-1, :ORBIT_STARTS]) if follows else None
    return replace(descent, **found, orbit=orbit)


def _guarantee(
    weights: Weights, symmetry: Symmetry, frozen: bool, hold: int, tolerance: float
) -> tuple[str, str, bool]:
    """Return the kind of the function that falls on the schedule, the reason, and whether it is guaranteed."""
    if frozen:
        reason = "V_d is frozen or does not act, and L_f and L_h are convex: a step subtracts two divergences"
        return "frozen", reason, True
    asymmetry = symmetry.asymmetry
    rounded = weights.features * weights.rounding * symmetry.norm  # largest rounding error of an eigenvalue
    if weights.linear and asymmetry <= tolerance and symmetry.lowest >= -rounded:
        sure = asymmetry <= within_rounding(weights.rounding, weights.features)
        symmetric = f"symmetric{describe_asymmetry(asymmetry, sure)}"
        return "schedule", f"Xi Phi Xi^T is positive semi-definite and {symmetric}: V_d may move at any step", sure
    if not weights.linear:
        because = "sigma_h is not linear"
    elif asymmetry > tolerance:
        because = f"Xi Phi Xi^T is not symmetric (antisymmetric part {asymmetry:.2g} of its norm)"
    else:
        because = f"Xi Phi Xi^T is symmetric, but not positive (lowest eigenvalue {symmetry.lowest:.3g})"
    held = "" if hold == 1 else f"; it falls on the {hold - 1} of {hold} steps after which V_d stays"
    return "none", f"V_d moves, which can raise the energy, as {because}{held}", False


def _check_delayed(delayed: Tensor | None, weights: Weights) -> Tensor | None:
    if delayed is None:
        return None
    if delayed.shape[-1:] != (weights.features,) or delayed.dim() > 2 or not torch.isfinite(delayed).all():
        raise ValueError(
            f"delayed must be finite, ({weights.features},) or (batch, {weights.features}), but its shape is "
            f"{tuple(delayed.shape)}."
        )
    return delayed.detach().double()
