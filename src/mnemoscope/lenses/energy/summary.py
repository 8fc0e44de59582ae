"""An energy report in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, isnan
from typing import TYPE_CHECKING

from mnemoscope.lenses.energy.descent import ROUNDING

if TYPE_CHECKING:
    from mnemoscope.lenses.energy.report import EnergyDescent

_FUNCTION = {
    "frozen": "energy",
    "schedule": "energy, with the term of V_d for any schedule,",
    "one-step": "energy",
    "two-step": "energy of two states in a row",
    "contraction": "distance from the fixed point",
    "settling": "energy, with the term of V_d that settles,",
    "none": "energy",
}


def sentences(report: EnergyDescent) -> Iterator[str]:
    """Whether it must fall and why, what was seen, how low it can get, and a counter-example."""
    if report.guaranteed:
        yield f"The {_FUNCTION[report.kind]} of {report.system} never rises: {report.why}."
    else:
        yield f"Descent of the {_FUNCTION[report.kind]} of {report.system} is not guaranteed: {report.why}."
    yield _seen(report)
    if report.strays:
        yield (
            f"The trajectory is not one of this system at this input ({_step(report)} is off by {report.deviation:.1g} "
            f"of its size): what it is driven by can raise the energy, and neither guarantee nor identity speak of it."
        )
    elif isfinite(report.error):
        yield f"The identity that splits each change by its causes holds to {report.error:.1e} of the terms."
    if isfinite(report.bound):
        yield f"It is never below {report.bound:.4g}: {report.bound_why}."
    elif not isnan(report.bound):
        yield f"No bound from below: {report.bound_why}."
    if report.others:
        yield f"There also falls: {'; '.join(report.others)}."
    yield from _counter_example(report)


def _seen(report: EnergyDescent) -> str:
    steps, rises = report.change.numel(), int(report.rises.sum())
    what = "states" if report.continuous else "steps"
    source = "given" if report.given else "simulated"
    if report.continuous and report.strays:
        moves = report.energy.diff(dim=0)
        size = report.terms.abs().sum(0)
        up = int((moves > ROUNDING * report.precision * (size[1:] + size[:-1])).sum())
        most = f", by {float(moves.max()):.3g} at most" if up else ""
        return f"From one given state to the next it rises {up} times of {moves.numel()}{most}."
    if not rises:
        return f"On {steps} {source} {what} it {'was falling or at rest' if report.continuous else 'did not rise'}."
    unit = "dE/dt there is at most" if report.continuous else "the largest rise is"
    return f"On {rises} of {steps} {source} {what} it rises; {unit} {report.largest_rise:.3g}."


def _step(report: EnergyDescent) -> str:
    if not report.continuous:
        return "a step"
    apart = report.times.diff()
    low, high = f"{float(apart.min()):.3g}", f"{float(apart.max()):.3g}"
    return f"the next of its times, which are {low if low == high else f'{low} to {high}'} apart,"


def _counter_example(report: EnergyDescent) -> Iterator[str]:
    if report.guaranteed:
        return
    if report.rise is None or report.rise_energy is None:
        yield "No rise was found in random trajectories either, but nothing rules it out."
        return
    values = [f"{value:.4g}" for value in report.rise_energy.tolist()]
    states = [_vector(state) for state in report.rise.tolist()]
    if report.continuous:
        yield f"Counter-example: at (V_f, V_h, V_d) = {states[0]}, dE/dt = {values[0]}."
    else:
        told = ""
        if report.rise_delayed is not None:
            told = f"with V_d = {' and then '.join(_vector(y) for y in report.rise_delayed.tolist())} "
        yield (f"Counter-example: from rates {' to '.join(states)} {told}it rises from {values[0]} to {values[-1]}.")
    if report.orbit is not None:
        yield (
            f"It returns to where it was every {len(report.orbit)} steps, from {_vector(report.orbit[0].tolist())}: no "
            f"function of the state can fall at every step."
        )


def _vector(values: list[float]) -> str:
    shown = ", ".join(f"{value:.4g}" for value in values[:6])
    return f"({shown}{', ...' if len(values) > 6 else ''})"
