"""The cost of a network: parameters, state, training time, and the time of one step of inference."""

from __future__ import annotations

from time import perf_counter

import torch
from torch import Tensor

from mnemoscope.arena.card.answers import Answer, Entry, Line, not_applicable, not_decided
from mnemoscope.arena.card.subject import NO_STATE, Subject
from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.cells import scan
from mnemoscope.cells.state import leaves
from mnemoscope.connectivity.connectivity import formed_once
from mnemoscope.networks.sizes import count_state

PARAMETERS, STATE, BYTES = "trainable parameters", "state", "memory of the state"
TRAINING, STEP, GROWTH = "training", "time of one step", "state added by each step"
STEPS, REPEATS = 1024, 3
"""Steps that are timed one at a time, and repetitions of the whole sequence."""
EDGES = tuple(2**power for power in range(STEPS.bit_length() - 1))
"""First steps of the windows, each twice as long as the one before, over which the curve has a median."""
LONGEST = 3.0
"""Seconds after which the timing of a repetition ends."""
WARM_UP = 8
"""Steps before the timing begins."""


def what_it_costs(subject: Subject) -> Answer:
    """Answer by counting, by the record of the run, and by timing single steps on this machine."""
    entries = [_parameters(subject), *_state(subject), _training(subject)]
    if subject.stateless:
        return Answer("cost", (*entries, not_applicable(STEP, NO_STATE), not_applicable(GROWTH, NO_STATE)))
    times = [1e6 * seconds for seconds in time_steps(subject)]
    low, value, high = _quartiles(torch.cat(times))
    note = f"one sequence, step by step, on {pluralise(torch.get_num_threads(), 'thread')}"
    interval = f"quartiles over {sum(map(len, times)):,} steps in {REPEATS} repetitions"
    windows = [(edge, 2 * edge) for edge in EDGES if 2 * edge <= min(map(len, times))]
    middle = [_quartiles(torch.cat([row[first:last] for row in times])) for first, last in windows]
    low_edges, medians, high_edges = zip(*middle, strict=True)
    line = Line.known(STEP, [(first * last) ** 0.5 for first, last in windows], medians, low_edges, high_edges)
    entry = Entry(STEP, value, "µs", low, high, interval, note=note)
    return Answer("cost", (*entries, entry, _growth(subject)), (line,))


def _parameters(subject: Subject) -> Entry:
    fixed = sum(weight.numel() for weight in subject.model.parameters()) - subject.parameters
    return Entry(PARAMETERS, subject.parameters, note=f"and {fixed:,} fixed" if fixed else "")


def _state(subject: Subject) -> list[Entry]:
    if subject.stateless:
        return [not_applicable(STATE, NO_STATE), not_applicable(BYTES, NO_STATE)]
    after = f"after a test sequence of {subject.steps} steps" if subject.cell.grows else ""
    with torch.no_grad():
        encoded = subject.model.encode(subject.batch.inputs[:, :1])
        state = scan(subject.cell, encoded)[1] if subject.cell.grows else subject.cell.initial_state(1)
    size = sum(leaf.numel() * leaf.element_size() for leaf in leaves(state))
    return [Entry(STATE, subject.state_size, "numbers", note=after), Entry(BYTES, size, "bytes", note=after)]


def _training(subject: Subject) -> Entry:
    if subject.result is None:
        return not_decided(TRAINING, "The network was passed without its run.")
    assert subject.config is not None
    note = f"{subject.result.steps:,} optimiser steps of {subject.config.batch_size} sequences"
    return Entry(TRAINING, subject.result.seconds, "s", note=note)


def _growth(subject: Subject) -> Entry:
    if not subject.cell.grows:
        return Entry(GROWTH, 0, "numbers")
    first, last = (count_state(subject.cell, steps) for steps in (1, subject.steps))
    return Entry(GROWTH, (last - first) / max(1, subject.steps - 1), "numbers")


def _quartiles(values: Float[Tensor, " values"]) -> tuple[float, float, float]:
    first, middle, last = torch.quantile(values, torch.tensor([0.25, 0.5, 0.75], dtype=values.dtype)).tolist()
    return first, middle, last


@torch.no_grad()
def time_steps(subject: Subject) -> list[Float[Tensor, " steps"]]:
    """Return the seconds of each step of one sequence, with readout, for each repetition.

    The inputs of a test sequence are repeated until there are `STEPS` of them. A decoder, which reads a whole sequence,
    is no part of a step, nor is the computation of a parametrised recurrent matrix, which does not change.
    """
    with formed_once(subject.cell):
        return _time_steps(subject)


def _time_steps(subject: Subject) -> list[Float[Tensor, " steps"]]:
    inputs = subject.model.encode(subject.batch.inputs[:, :1])
    cell, readout = subject.cell.time_first(), subject.model.undecoded().readout
    rows = []
    for _ in range(REPEATS):
        state = cell.initial_state(1)
        for number in range(WARM_UP):
            readout(cell.step(inputs[number % len(inputs)], state)[0])
        taken, begin = [], perf_counter()
        while len(taken) < STEPS and (len(taken) < 2 or perf_counter() - begin < LONGEST):
            x, start = inputs[len(taken) % len(inputs)], perf_counter()
            outputs, state = cell.step(x, state)
            readout(outputs)
            taken.append(perf_counter() - start)
        rows.append(torch.tensor(taken, dtype=torch.float64))
    return rows
