"""State tracking of a run that was trained on a word problem: the page section on it."""

from __future__ import annotations

from mnemoscope.cells import Model
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses import StateTracking, state_tracking
from mnemoscope.lenses.tracking.figure import draw_state_tracking
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.tasks import WordProblem

TIMES, SAMPLES, WORDS = 16, 4000, 400
"""Longest words, as multiples of those in training; states that are drawn at each length; words that are drawn."""


def inspect_tracking(model: Model, task: WordProblem, seed: int) -> StateTracking:
    """Return the predicted accuracy at every length, and the operators of the letters."""
    return state_tracking(
        model,
        task.build_group(),
        probabilities=task.letter_probabilities(),
        length=TIMES * task.length,
        samples=SAMPLES,
        words=WORDS,
        seed=seed,
    )


def tracking_section(tracking: StateTracking) -> Section:
    """Return the section with accuracy, eigenvalues, and separation of the states."""
    figure = draw_state_tracking(tracking, COLOUR, columns=2, font_size=PAGE_FONT_SIZE)
    alt = "Accuracy against the length of words, and the eigenvalues of the letters or the displacement that is left."
    return Section("State tracking", tracking.summary(), figure_markup(figure, "state-tracking", alt=alt))
