"""For how long a network remembers: the effect of one input on later outputs and states."""

from __future__ import annotations

from torch import Tensor

from mnemoscope.arena.card.answers import Answer, Entry, Line, not_applicable, not_decided
from mnemoscope.arena.card.subject import NO_STATE, Subject
from mnemoscope.inspection.duration import Duration
from mnemoscope.lenses import Influence, MeasuredInfluence
from mnemoscope.lenses.bootstrap import bootstrap_interval
from mnemoscope.lenses.exact_influence.summaries import half_life
from mnemoscope.lenses.replacement.result import last_half

OUTPUTS, STATE = "half-life in the outputs", "half-life in the state"
VALUES = "half-life of written values"
EFFECT = "largest effect on the outputs"


def how_long(subject: Subject, found: Duration) -> Answer:
    """Answer by the measured influence of inputs, and by the exact value path of affine layers."""
    if subject.stateless:
        return Answer("duration", tuple(not_applicable(name, NO_STATE) for name in (OUTPUTS, STATE, VALUES, EFFECT)))
    entries, lines, lenses = [], [], []
    measured = found.measured_influence
    if measured is None:
        reason = found.reasons.get(
            "Influence of inputs", "No input could be replaced: they, or the outputs, are the same in all trials."
        )
        entries += [not_decided(name, reason) for name in (OUTPUTS, STATE)]
    else:
        entries += [_half_life(OUTPUTS, measured.curve), _state_half_life(measured)]
        lines += _lines(measured)
        lenses.append("measured-influence")
    entries.append(_value_path(found, found.influence))
    if found.influence is not None:
        lenses.append("influence")
    if measured is not None:
        largest = float(measured.curve.nan_to_num(nan=0.0).max())
        entries.append(Entry(EFFECT, largest, "%", note="of the distance between two trials"))
    return Answer("duration", tuple(entries), tuple(lines), tuple(lenses))


def _half_life(name: str, curve: Tensor) -> Entry:
    """Return the last lag at which an input has at least half of its largest effect."""
    if not float(curve.nan_to_num(nan=-1.0).max()) > 0:
        return not_applicable(name, "Inputs have no effect.")
    last, longest = last_half(curve)
    notes = ["the longest lag measured"] if last == longest else []
    largest, peak = curve.nan_to_num(nan=-1.0).max(0)
    below = [lag for lag in range(int(peak), last) if float(curve[lag]) < float(largest) / 2]
    if below:  # a recall task asks for its first inputs at its end
        notes.append(f"first below half at lag {below[0]}")
    return Entry(name, last, "steps", bound="at least" if last == longest else "", note="; ".join(notes))


def _state_half_life(measured: MeasuredInfluence) -> Entry:
    if measured.states is None:
        return not_applicable(STATE, "The state grows at every step, so that it has no distance to another one.")
    return _half_life(STATE, measured.state_curve)


def _lines(measured: MeasuredInfluence) -> list[Line]:
    """Return the effects on outputs and state as shares of the largest one."""
    curves = {"outputs": measured.curve}
    if measured.states is not None:
        curves["state"] = measured.state_curve
    lines = []
    for name, curve in curves.items():
        largest = float(curve.nan_to_num(nan=0.0).max())
        if largest > 0:
            lines.append(Line.known(name, list(range(len(curve))), (curve / largest).tolist()))
    return lines


def _value_path(found: Duration, influence: Influence | None) -> Entry:
    if influence is None:
        reason = found.reasons.get("What it keeps of its inputs")
        if reason is not None:
            return not_decided(VALUES, reason)
        return not_applicable(VALUES, "No layer is affine in its state.")
    curves = influence.longest.value_curves
    mean = float(half_life(curves.nanmean(0)))
    censored = mean >= curves.shape[1]
    where = f" of {influence.longest.name}" if len(influence.layers) > 1 else ""
    note = f"through values alone{where}"
    if len(curves) < 2:
        return Entry(VALUES, mean, "steps", bound="at least" if censored else "", note=note)
    low, high = (float(edge) for edge in bootstrap_interval(curves, lambda chosen: half_life(chosen.nanmean(0))))
    interval = f"95% over {len(curves)} sequences"
    return Entry(VALUES, mean, "steps", low, high, interval, "at least" if censored else "", note)
