"""How much a network remembers: memory capacity and Fisher memory."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from mnemoscope.arena.card.answers import Answer, Entry, Line, not_applicable, not_decided
from mnemoscope.arena.card.subject import NO_STATE, Subject
from mnemoscope.inspection.cost import BUDGET, HOW_TO_MEASURE
from mnemoscope.inspection.duration import Duration
from mnemoscope.inspection.memory import memory_at_point
from mnemoscope.inspection.spectra import LARGEST
from mnemoscope.lenses import FisherMemory, FixedPoints, MemoryCapacity, fisher_memory
from mnemoscope.lenses.bootstrap import bootstrap_interval
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.memory.attention import Attentive
from mnemoscope.memory.tape import TuringMachine

CAPACITY, SHARE, FISHER = "memory capacity", "capacity per readout input", "Fisher memory"
TRAJECTORIES = 8
"""Sequences along which the Fisher memory of affine layers is computed."""


def how_much(subject: Subject, found: Duration, at_rest: tuple[Dynamics, FixedPoints] | None) -> Answer:
    """Answer by the memory capacity, and by the Fisher memory near rest or, for affine layers, along inputs."""
    if subject.stateless:
        return Answer("amount", tuple(not_applicable(name, NO_STATE) for name in (CAPACITY, SHARE, FISHER)))
    capacity = found.capacity
    fisher, memory = _fisher(subject, found, at_rest)
    lines, lenses = [], []
    if capacity is not None:
        lines.append(_capacity_line(capacity))
        lenses.append("memory-capacity")
    if memory is not None:
        remaining = memory.remaining.detach().reshape(-1, memory.lags).nanmean(0)
        lines.append(Line.known(FISHER, list(range(memory.lags)), remaining.tolist()))
        lenses.append("fisher")
    return Answer("amount", (*_capacity(subject, found), fisher), tuple(lines), tuple(lenses))


def _capacity(subject: Subject, found: Duration) -> tuple[Entry, Entry]:
    capacity = found.capacity
    if capacity is None:
        if isinstance(subject.cell, Attentive | TuringMachine):
            reason = "A linear readout of one state does not see what is stored in other places."
            return not_applicable(CAPACITY, reason), not_applicable(SHARE, reason)
        reason = found.reasons.get("Memory capacity", "The network takes no real input of constant size.")
        return not_decided(CAPACITY, reason), not_decided(SHARE, reason)
    estimate, error, size = float(capacity.total), capacity.total_error, capacity.size
    total = max(0.0, estimate)  # an estimate without bias may be below 0
    note = f"at most {size}; linear readouts{'; estimated below 0' if estimate < 0 else ''}"
    whole, share = Entry(CAPACITY, total, "past signals", note=note), Entry(SHARE, total / size, "%")
    if not isfinite(error):
        return whole, share
    low, high = (max(0.0, estimate + sign * 2 * error) for sign in (-1, 1))
    kind = "2 standard errors over signals"
    return (
        replace(whole, low=low, high=high, interval=kind),
        replace(share, low=low / size, high=high / size, interval=kind),
    )


def _capacity_line(capacity: MemoryCapacity) -> Line:
    curve = capacity.curve.detach().tolist()
    low = high = None
    if capacity.curve_error is not None:
        errors = capacity.curve_error.tolist()
        low = [value - 2 * error for value, error in zip(curve, errors, strict=True)]
        high = [value + 2 * error for value, error in zip(curve, errors, strict=True)]
    return Line.known(CAPACITY, list(range(len(curve))), curve, low, high)


def _fisher(
    subject: Subject, found: Duration, at_rest: tuple[Dynamics, FixedPoints] | None
) -> tuple[Entry, FisherMemory | None]:
    """Return the entry on Fisher memory, and the memory whose curve is shown."""
    if at_rest is not None and len(at_rest[1]) and at_rest[1].states.shape[1] <= LARGEST:
        return _fisher_near_rest(*at_rest)
    if found.transitions is not None or found.influence is not None:
        return _fisher_of_values(subject)
    if at_rest is not None:
        size = at_rest[1].states.shape[1]
        reason = (
            f"The state has {size:,} numbers, more than {LARGEST}." if len(at_rest[1]) else "It has no fixed point."
        )
        return not_decided(FISHER, reason), None
    return not_applicable(FISHER, "The network has no fixed points, and no layer is affine in its state."), None


def _fisher_near_rest(dynamics: Dynamics, fp: FixedPoints) -> tuple[Entry, FisherMemory | None]:
    try:
        memory = memory_at_point(dynamics, fp)
    except ValueError as error:
        return not_decided(FISHER, str(error)), None
    if isinstance(memory, str):
        return not_applicable(FISHER, memory), None
    totals = {feature: float(each.relative) for feature, each in memory.memories.items()}
    best = max(totals, key=totals.__getitem__)
    inputs = f"the largest of {len(totals)} inputs" if len(totals) > 1 else "one input"
    note = f"near the stable fixed point that most starts reached, {inputs}; a normal network has 1"
    return Entry(FISHER, totals[best], "signals", note=note), memory.memories[best]


def _fisher_of_values(subject: Subject) -> tuple[Entry, FisherMemory | None]:
    """Return the memory of the last affine layer about the values that it writes, in units of one write."""
    inputs = subject.model.encode(subject.batch.inputs[:, :TRAJECTORIES]).detach()
    lengths = None if subject.lengths is None else subject.lengths[:TRAJECTORIES]
    layers = subject.cell.affine_layers(inputs[:2, :1], subject.cell.initial_state(1))
    heads, keys = layers[-1].start.shape[1:3]
    if not subject.options.full and TRAJECTORIES * len(inputs) ** 2 * heads * keys**2 > BUDGET:
        return not_decided(FISHER, f"{len(inputs):,} steps of this layer take long. {HOW_TO_MEASURE}"), None
    try:
        memory = fisher_memory(subject.cell, along=inputs, layer=len(layers) - 1, lengths=lengths)
    except ValueError as error:
        return not_decided(FISHER, str(error)), None
    totals = memory.remaining.nan_to_num(nan=0.0).sum(-1).mean(1)  # one for each sequence, the mean over heads
    low, high = (float(edge) for edge in bootstrap_interval(totals))
    where = f"layer {len(layers)} of {len(layers)}" if len(layers) > 1 else "its layer"
    note = f"written values along test sequences, per head of {where}; a common decay has 1, at most {keys}"
    interval = f"95% over {len(totals)} sequences"
    return Entry(FISHER, float(totals.mean()), "writes", low, high, interval, note=note), memory
