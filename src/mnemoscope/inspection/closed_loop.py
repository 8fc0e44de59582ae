"""The loops in which a network ends that was trained on text and reads what it writes."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

from mnemoscope.base.plurals import pluralise
from mnemoscope.cells import Model
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.closed_loop import Loops, find_loops
from mnemoscope.lenses.closed_loop.figure import draw_loops
from mnemoscope.lenses.closed_loop.result import shortened
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.numbers import format_number
from mnemoscope.tasks import PennTreebank, Task
from mnemoscope.tasks.penn_treebank import VOCABULARY

TITLE = "In a closed loop"
PROMPTS, LENGTH = 64, 100
"""Number of prompts from the test text, and their length in characters."""
STEPS, LONGEST = 600, 128
"""Number of characters to generate, and longest loop."""
ROWS = 6
"""Largest number of loops in the table."""


def inspect_loops(model: Model, task: Task) -> Loops | str | None:
    """Return the loops of a network from pieces of the test text, or why there are none; None for other tasks."""
    if not isinstance(task, PennTreebank):
        return None
    prompts = replace(task, length=LENGTH).batch(PROMPTS, 0, 0, "test").inputs.argmax(-1)
    try:
        return find_loops(
            model, prompts, vocabulary=VOCABULARY, steps=STEPS, max_period=LONGEST, patience=1, confirm=ROWS
        )
    except ValueError as error:
        return str(error)


def loops_section(result: Loops | str) -> Section:
    """Return the section with the loops, or with the reason why they are not known."""
    if isinstance(result, str):
        return Section(TITLE, f"The loops of the network are not known: {result}", "")
    alt = f"Shares of the prompts that reach {pluralise(len(result), 'loop')}, and distances to the loops over time."
    figure = draw_loops(result, COLOUR, figure=new_figure(7.2, 3.4), font_size=PAGE_FONT_SIZE)
    caption = "The network reads a piece of the test text, and then its own most probable character at every step."
    return Section(TITLE, result.summary(), figure_markup(figure, "loops", alt=alt, caption=caption) + _table(result))


def _table(loops: Loops) -> str:
    headings = ("Loop", "Characters", "Prompts", "Entered after", "Largest multiplier", "Least lead")
    low, high = loops.interval
    rows = [
        (
            shortened(loops.texts[loop]),
            str(int(loops.periods[loop])),
            f"{float(loops.shares[loop]):.0%} ({float(low[loop]):.0%} to {float(high[loop]):.0%})",
            _entry(loops, loop),
            format_number(float(loops.multipliers[loop, 0].abs())),
            format_number(float(loops.leads[loop])),
        )
        for loop in range(min(len(loops), ROWS))
    ]
    if not rows:
        return ""
    note = (
        "Prompts: share that reaches the loop, with a 95% interval. Entered after: median number of characters, with a "
        "95% interval over prompts. "
        "Largest multiplier: growth of a small change of the state over one loop, with the characters held. Least "
        "lead: of the most probable character over the next one, in logits."
    )
    return table_markup("Loops", headings, rows) + f'<p class="small">{note}</p>'


def _entry(loops: Loops, loop: int) -> str:
    """Return the median entry with its interval; without it for a single prompt."""
    median, (low, high) = loops.entry(loop)[0], loops.entry_interval(loop)
    return f"{median:.0f}" if isnan(low) else f"{median:.0f} ({low:.0f} to {high:.0f})"
