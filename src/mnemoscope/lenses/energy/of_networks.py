"""The energy report of Elman networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.counterexample import periodic_orbit
from mnemoscope.lenses.energy.lyapunov import Lyapunov, lyapunov_functions
from mnemoscope.lenses.energy.recurrence import EPS, Recurrence
from mnemoscope.lenses.energy.report import EnergyDescent
from mnemoscope.lenses.energy.simulating import (
    SEARCHED,
    deviation_of,
    largest_rise,
    precision_of,
    random_rates,
    run_from,
)
from mnemoscope.lenses.energy.weights import Weights


def recurrence_report(
    recurrence: Recurrence,
    name: str,
    trajectory: Tensor | None,
    steps: int,
    starts: int,
    generator: torch.Generator,
    tolerance: float,
) -> EnergyDescent:
    """The function that says most, along rates (time, batch, size) that are given or simulated."""
    best, *others = lyapunov_functions(recurrence, tolerance)
    if trajectory is None:
        rates = run_from(recurrence.step, random_rates(recurrence.sigma, (starts, recurrence.size), generator), steps)
    else:
        rates = trajectory.to(torch.float64)
    if best.kind == "two-step" and len(rates) < 3:
        raise ValueError(
            f"The energy is one of two states in a row and needs three for a change, but got {len(rates)}."
        )
    energy, change = best.energy(rates), best.change(rates)
    first = len(rates) - len(energy.total)
    report = EnergyDescent(
        name, best.guaranteed, best.kind, best.why, torch.arange(first, len(rates)).double(),
        tuple(energy.terms), energy.stacked, tuple(change.terms), change.stacked, best.size(rates), False,
        trajectory is not None, precision_of(trajectory), deviation_of(recurrence.step, rates, trajectory),
        best.asymmetry, slack=best.slack(rates), others=tuple(f"({one.kind}) {one.why}" for one in others),
    )  # fmt: skip
    report = replace(report, **_bound_of(best))
    if report.guaranteed:
        return report
    tried = run_from(recurrence.step, random_rates(recurrence.sigma, (SEARCHED, recurrence.size), generator), 40)
    runs = [] if report.strays else [(rates, energy, None, report.precision)]
    found = largest_rise(*runs, (tried, best.energy(tried), None, EPS))
    orbit = periodic_orbit(recurrence.step, tried[-1, :64])
    return replace(report, **found, orbit=None if orbit is None else orbit.rates)


def _bound_of(best: Lyapunov) -> dict[str, Any]:
    """Of an energy of one state with weights of 1: g.W g is at most g.Xi Xi^T g, of the positive part of W."""
    if best.kind == "contraction":
        return {"bound": 0.0, "bound_why": "it is a distance"}
    if best.kind != "one-step" or bool((best.weights != 1).any()):
        return {}
    recurrence = best.recurrence
    values, modes = torch.linalg.eigh((recurrence.W + recurrence.W.mT) / 2)
    Xi = modes * values.clamp_min(0).sqrt()
    weights = Weights.of(Xi, torch.zeros_like(Xi), recurrence.sigma, current=recurrence.b)
    found = lower_bound(weights, torch.zeros_like(recurrence.b))
    # an unbounded part does not show that the whole is unbounded where W has negative eigenvalues too
    known = found.exists or bool(values[0] >= 0)
    return {"bound": float(found.value), "bound_why": found.why} if known else {}
