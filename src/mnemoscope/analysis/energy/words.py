"""An energy report in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnemoscope.analysis.energy.report import EnergyReport

_FUNCTION = {
    "frozen": "The energy",
    "schedule": "The energy, with the term of V_d for any schedule,",
    "one-step": "The energy",
    "two-step": "The energy of two states in a row",
    "contraction": "The distance from the fixed point",
    "settling": "The energy, with the term of V_d that settles,",
}


def sentences(report: EnergyReport) -> Iterator[str]:
    """Whether it must fall and why, what was seen, how low it can get, and a counter-example."""
    if report.guaranteed:
        yield f"{_FUNCTION[report.kind]} of {report.system} never rises: {report.why}."
    else:
        yield f"Descent of the energy of {report.system} is not guaranteed: {report.why}."
    yield _seen(report)
    if report.deviation > 1e3 * report.precision:
        yield (
            f"The trajectory is not one of this system at this input (a step is off by {report.deviation:.1g} of its "
            f"size): what it is driven by can raise the energy, and neither guarantee nor identity speak of it."
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


def _seen(report: EnergyReport) -> str:
    steps, rises = report.change.numel(), int(report.rises.sum())
    what = "states" if report.continuous else "steps"
    source = "given" if report.given else "simulated"
    if not rises:
        return f"On {steps} {source} {what} it {'was falling or at rest' if report.continuous else 'did not rise'}."
    unit = "dE/dt there is at most" if report.continuous else "the largest rise is"
    return f"On {rises} of {steps} {source} {what} it rises; {unit} {report.largest_rise:.3g}."


def _counter_example(report: EnergyReport) -> Iterator[str]:
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
        yield f"Counter-example: from rates {states[0]} to {states[-1]} it rises from {values[0]} to {values[-1]}."
    if report.orbit is not None:
        yield (
            f"It returns to where it was every {len(report.orbit)} steps, from {_vector(report.orbit[0].tolist())}: no "
            f"function of the state can fall at every step."
        )


def _vector(values: list[float]) -> str:
    shown = ", ".join(f"{value:.4g}" for value in values[:6])
    return f"({shown}{', ...' if len(values) > 6 else ''})"
