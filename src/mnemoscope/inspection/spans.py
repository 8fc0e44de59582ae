"""The accuracy of a trained network at spans of its task that it was, and was not, trained at."""

from __future__ import annotations

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, PHONE_WIDTH
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.lenses import SpanScores
from mnemoscope.lenses.behaviour.figure import draw_spans
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.training import evaluate_spans

TRIALS = 64
"""Trials at each span."""


def measure_spans(run: LoadedRun) -> tuple[SpanScores | None, str]:
    """Return the accuracy at several spans, and a sentence on those that would take long.

    The trials are of the validation split, which is new to a network that was trained on a generated task.
    """
    tests = run.task.span_tests()
    quick, steps = {}, 0
    for span, task in tests.items():
        steps += len(task.batch(1, run.config.seed, 0, "validation").mask)
        if is_quick(run.model.cell, steps, TRIALS, run.options):
            quick[span] = task
    slow = [span for span in tests if span not in quick]
    label = run.task.span_label
    note = f"A {label} of {', '.join(map(str, slow))} takes long and was not measured. {HOW_TO_MEASURE}" if slow else ""
    if not quick:
        return None, note
    return evaluate_spans(run.model, run.task, quick, sequences=TRIALS, seed=run.config.seed), note


def spans_section(scores: SpanScores | None, note: str, label: str) -> Section:
    """Return the section with the accuracy at each span, and the note on spans that were not measured."""
    title = f"Accuracy against the {label}"
    if scores is None:
        return Section(title, note, "")
    figure = draw_spans(scores, COLOUR, figure=new_figure(PHONE_WIDTH, 3.2), font_size=PAGE_FONT_SIZE)
    chance = " Dashed: the best predictor without memory." if scores.chance is not None else ""
    caption = f"{scores.trials} new trials at each. Dotted: the longest possible in training.{chance} {note}".strip()
    alt = f"Accuracy at each {label}."
    return Section(title, scores.summary(), figure_markup(figure, "spans", alt=alt, caption=caption))
