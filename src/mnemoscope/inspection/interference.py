"""Interference between the pairs that a trained network recalls, measured and predicted."""

from __future__ import annotations

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.cost import is_quick
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.lenses import RecallInterference, RecallTrials, recall_interference
from mnemoscope.lenses.interference.asked_for import REPLACEMENTS
from mnemoscope.lenses.interference.figure import draw_recall_interference
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.tasks import KeyValueRecall, MultiQueryRecall

FACTORS = (0.25, 0.5, 1, 2)
"""Numbers of pairs, as multiples of the largest in training."""
SEQUENCES, DRAWS = 48, 4
"""Sequences of each number of pairs, and exchanges of their values."""


def inspect_interference(run: LoadedRun) -> RecallInterference | None:
    """Predict the recall of a run on pairs of keys and values; None for other tasks or networks, or if it is slow."""
    task = run.task
    if not isinstance(task, KeyValueRecall | MultiQueryRecall) or not (layers := _affine_layers(run)):
        return None
    trials = {}
    for pairs in sorted({min(max(round(factor * task.longest_span), 1), task.keys) for factor in FACTORS}):
        batch = task.at(pairs).batch(SEQUENCES, run.config.seed, 0, "test")
        trials[pairs] = RecallTrials(batch.inputs, batch.targets, task.sources(batch))
    steps = sum(len(each.inputs) for each in trials.values())
    if not is_quick(run.model.cell, steps, SEQUENCES, run.options, passes=2 * DRAWS):
        return None
    replaced = SEQUENCES * REPLACEMENTS  # sequences of each query, where a layer is above another
    queries = max(len(each.query_steps()) for each in trials.values())
    if layers > 1 and not is_quick(run.model.cell, steps, replaced, run.options, passes=queries):
        return None
    return recall_interference(run.model, trials, draws=DRAWS)


def _affine_layers(run: LoadedRun) -> int:
    """Return the number of layers that are affine in their state."""
    inputs = run.model.encode(run.task.batch(1, run.config.seed, 0, "test").inputs)
    return len(run.model.cell.affine_layers(inputs, run.model.cell.initial_state(1)))


def interference_section(recall: RecallInterference) -> Section:
    """Return the section with measured and predicted recall, and the powers of signal and interference."""
    figure = draw_recall_interference(recall, COLOUR, figure=new_figure(7.2, 3.8), font_size=PAGE_FONT_SIZE)
    caption = (
        f"{recall.measured.shape[1]} new sequences of each number of pairs; bars are 95% intervals over sequences. "
        f"Dashed: guessing among all {recall.classes:,} classes. Right: the power of the value of each step, by its "
        f"exact weight in the reads."
    )
    alt = "Measured and predicted accuracy against the number of pairs, and the power of each step in the queries."
    return Section(
        "Interference in recall", recall.summary(), figure_markup(figure, "recall", alt=alt, caption=caption)
    )
