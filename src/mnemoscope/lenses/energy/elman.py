"""Energy descent of Elman networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.counterexample import (
    ORBIT_STARTS,
    SEARCHED,
    SEARCHED_STEPS,
    largest_rise,
    periodic_orbit,
)
from mnemoscope.lenses.energy.lyapunov import Lyapunov, lyapunov_functions
from mnemoscope.lenses.energy.recurrence import EPS, Recurrence
from mnemoscope.lenses.energy.result import EnergyDescent
from mnemoscope.lenses.energy.trajectories import random_rates, simulate, state_precision, step_deviation
from mnemoscope.lenses.energy.weights import Weights


def elman_descent(
    recurrence: Recurrence,
    name: str,
    trajectory: Tensor | None,
    steps: int,
    starts: int,
    generator: torch.Generator,
    tolerance: float,
) -> EnergyDescent:
    """Return the most informative Lyapunov function along given or simulated rates (time, batch, size)."""
    best, *others = lyapunov_functions(recurrence, tolerance)
    if trajectory is None:
        rates = simulate(recurrence.step, random_rates(recurrence.sigma, (starts, recurrence.size), generator), steps)
    else:
        rates = trajectory.to(torch.float64)
    if best.kind == "two-step" and len(rates) < 3:
        raise ValueError(
            f"The energy is one of two successive states and needs three for a change, but got {len(rates)}."
        )
    energy, change = best.energy(rates), best.change(rates)
    descent = EnergyDescent(
        system=name,
        guaranteed=best.guaranteed,
        kind=best.kind,
        reason=best.reason,
        times=torch.arange(len(rates) - len(energy.total), len(rates)).double(),
        names=tuple(energy.terms),
        terms=energy.stacked,
        causes=tuple(change.terms),
        changes=change.stacked,
        sizes=best.size(rates),
        continuous=False,
        given=trajectory is not None,
        precision=state_precision(trajectory),
        deviation=step_deviation(recurrence.step, rates, trajectory),
        asymmetry=best.asymmetry,
        others=tuple(f"({other.kind}) {other.reason}" for other in others),
        slack=best.slack(rates),
        **_bound(best),
    )
    if descent.guaranteed:
        return descent
    fields = random_rates(recurrence.sigma, (SEARCHED, recurrence.size), generator)
    tried = simulate(recurrence.step, fields, SEARCHED_STEPS)
    runs = [] if descent.strays else [(rates, energy, None, descent.precision)]
    found = largest_rise(*runs, (tried, best.energy(tried), None, EPS))
    return replace(descent, **found, orbit=periodic_orbit(recurrence.step, tried[-1, :ORBIT_STARTS]))


def _bound(function: Lyapunov) -> dict[str, Any]:
    """Bound a one-step energy with unit weights: g.W g is at most g.Xi Xi^T g, with Xi Xi^T the positive part of W."""
    if function.kind == "contraction":
        return {"bound": 0.0, "bound_reason": "it is a distance"}
    if function.kind != "one-step" or bool((function.weights != 1).any()):
        return {}
    recurrence = function.recurrence
    values, modes = torch.linalg.eigh((recurrence.W + recurrence.W.mT) / 2)
    Xi = modes * values.clamp_min(0).sqrt()
    weights = Weights.from_matrices(Xi, torch.zeros_like(Xi), recurrence.sigma, current=recurrence.b)
    found = lower_bound(weights, torch.zeros_like(recurrence.b))
    # If W has negative eigenvalues too, an unbounded positive part does not show that the energy is unbounded.
    known = found.exists or bool(values[0] >= 0)
    return {"bound": float(found.value), "bound_reason": found.reason} if known else {}
