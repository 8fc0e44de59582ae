"""How a network fails: its accuracy on longer sequences, with more to hold, and with noise in its state."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.arena.card.answers import Answer, Entry, Line, not_applicable, not_decided
from mnemoscope.arena.card.subject import NO_STATE, Subject
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick_alone
from mnemoscope.inspection.spans import measure_loads, measure_spans
from mnemoscope.lenses import NoiseTolerance, SpanScores, measure_noise_tolerance
from mnemoscope.lenses.noise_tolerance.lens import LEVELS
from mnemoscope.training import score_sequences

LENGTH, LOAD, NOISE, CHANCE = "length", "load", "noise", "without memory"
"""Names of the lines of the panels."""
MULTIPLES = (2, 4)
"""Multiples of the length and the load of training that have an entry."""
SHOWN_LEVEL = 0.1
"""Level of noise that has an entry."""
TOLERATED = "tolerated noise"


def how_it_fails(subject: Subject) -> Answer:
    """Answer by accuracy at other spans, other loads, and with noise."""
    spans, span_entries = _spans(subject)
    loads, load_entries = _loads(subject)
    noise, noise_entries = _noise(subject)
    lines = [_by_multiple(name, scores) for name, scores in ((LENGTH, spans), (LOAD, loads)) if scores is not None]
    if noise is not None:
        lines.append(_by_level(noise))
    if subject.chance is not None:
        lines.append(Line(CHANCE, (0.0,), (subject.chance,)))
    used = ("behaviour",) if spans or loads else ()
    lenses = (*used, *(("noise-tolerance",) if noise is not None else ()))
    return Answer("failures", (*span_entries, *load_entries, *noise_entries), tuple(lines), lenses)


def _name(kind: str, multiple: int) -> str:
    return f"accuracy at {multiple} x {kind}"


def _spans(subject: Subject) -> tuple[SpanScores | None, list[Entry]]:
    task = subject.task
    if not task.longest_span:
        return None, _absent(LENGTH, "The task has no setting for how long a network must remember.")
    if task.span_label == task.load_label:
        return None, _absent(LENGTH, f"The length of this task follows from its {task.load_label}.")
    scores, entries = _at_multiples(LENGTH, *measure_spans(subject))
    return scores, [_with_chance(subject, multiple, entry) for multiple, entry in zip(MULTIPLES, entries, strict=True)]


def _with_chance(subject: Subject, multiple: int, entry: Entry) -> Entry:
    """Return the accuracy at a multiple of the length with that of a network without memory there, if it is known."""
    if entry.status != "measured" or subject.chance is None:
        return entry
    chance = subject.task.at(multiple * subject.task.longest_span).chance()
    return entry if chance is None else replace(entry, note=f"{entry.note}; {chance:.1%} without memory")


def _loads(subject: Subject) -> tuple[SpanScores | None, list[Entry]]:
    if not subject.task.largest_load:
        reason = "The task has no setting for how much is held at once that leaves the sizes of the network alone."
        return None, _absent(LOAD, reason)
    return _at_multiples(LOAD, *measure_loads(subject))


def _absent(kind: str, reason: str) -> list[Entry]:
    return [not_applicable(_name(kind, multiple), reason) for multiple in MULTIPLES]


def _at_multiples(kind: str, scores: SpanScores | None, note: str) -> tuple[SpanScores | None, list[Entry]]:
    if scores is None:
        return None, [not_decided(_name(kind, multiple), note) for multiple in MULTIPLES]
    entries = []
    for multiple in MULTIPLES:
        span = multiple * scores.trained
        places = (scores.spans == span).nonzero().flatten().tolist()
        if not places:
            reason = note or f"The task cannot have a {scores.label} of {span}."
            entry = not_decided if note else not_applicable
            entries.append(entry(_name(kind, multiple), reason))
            continue
        assert scores.low is not None
        assert scores.high is not None
        numbers = (float(part[places[0]]) for part in (scores.accuracy, scores.low, scores.high))
        value, low, high = numbers
        interval = f"95% over {scores.trials} sequences"
        note_on_span = f"{scores.label} {span}"
        entries.append(Entry(_name(kind, multiple), value, "%", low, high, interval, note=note_on_span))
    return scores, entries


def _noise(subject: Subject) -> tuple[NoiseTolerance | None, list[Entry]]:
    names = (f"accuracy with noise of {SHOWN_LEVEL:.0%}", TOLERATED)
    if subject.stateless:
        return None, [not_applicable(name, NO_STATE) for name in names]
    sequences = subject.batch.mask.shape[1]
    if not is_quick_alone(subject.cell, subject.steps, (len(LEVELS) + 1) * sequences, subject.options):
        reason = f"{subject.steps:,} single steps of this network take long. {HOW_TO_MEASURE}"
        return None, [not_decided(name, reason) for name in names]

    model = subject.model.undecoded()

    def score(outputs: Tensor) -> Tensor:
        answers = outputs if model is subject.model else subject.model.readout(outputs)
        return score_sequences(subject.task, answers, subject.batch)

    weights = subject.task.recalled(subject.batch).sum(0).double()
    try:
        found = measure_noise_tolerance(
            model,
            subject.batch.inputs,
            score=score,
            weights=weights,
            uninformed=subject.chance,
            seed=subject.seed,
        )
    except TypeError as error:
        return None, [not_applicable(name, str(error)) for name in names]
    return found, [_at_level(names[0], found), _tolerated(subject, found)]


def _at_level(name: str, found: NoiseTolerance) -> Entry:
    place = int((found.levels - SHOWN_LEVEL).abs().argmin())
    share = float(found.diverged[place])
    if share:
        return not_decided(name, f"{share:.0%} of the sequences diverge.")
    value, low, high = (float(part[place]) for part in (found.scores, found.low, found.high))
    note = "of the size of the state, at every step"
    return Entry(name, value, "%", low, high, f"95% over {found.trials} sequences", note=note)


def _tolerated(subject: Subject, found: NoiseTolerance) -> Entry:
    if found.uninformed is None:
        return not_applicable(TOLERATED, "The accuracy without memory is not known.")
    level = found.tolerated
    if level is not None and subject.accuracy.low <= found.uninformed:
        return not_decided(TOLERATED, "The interval of the accuracy reaches down to that without memory.")
    if level is None:
        return not_applicable(TOLERATED, "The network is no better than one without memory.")
    note = "largest level that keeps half of the advantage over no memory"
    if level == float(found.levels.max()):
        return Entry(TOLERATED, level, "%", bound="at least", note=f"{note}; the largest measured")
    return Entry(TOLERATED, level, "%", note=note)


def _by_multiple(name: str, scores: SpanScores) -> Line:
    assert scores.low is not None
    assert scores.high is not None
    multiples = (scores.spans.double() / scores.trained).tolist()
    return Line.known(name, multiples, scores.accuracy.tolist(), scores.low.tolist(), scores.high.tolist())


def _by_level(found: NoiseTolerance) -> Line:
    parts = (found.levels, found.scores, found.low, found.high)
    return Line.known(NOISE, *(torch.as_tensor(part).tolist() for part in parts))
