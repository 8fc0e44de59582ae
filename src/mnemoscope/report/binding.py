"""Which variables a network holds where: the wave through the subspaces, the evidence, and the causal tests."""

from __future__ import annotations

from math import isnan

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, inline_svg
from mnemoscope.lenses.variables import Variables
from mnemoscope.lenses.variables.causal import PASSED
from mnemoscope.lenses.variables.figure import draw_evidence, draw_wave
from mnemoscope.lenses.variables.memories import rule_in_words
from mnemoscope.lenses.variables.wave import wave_height
from mnemoscope.report.document import Section
from mnemoscope.report.markup import table_markup
from mnemoscope.report.numbers import format_number, pluralise

TITLE = "Variables"


def binding_section(memories: Variables | str) -> Section:
    """The section with the variables of a network; a text in their place says why they cannot be told."""
    if isinstance(memories, str):
        return Section(TITLE, f"Which variables the network holds cannot be told: {memories}", "")
    parts = [_wave(memories)] if memories.trials is not None else []
    parts.append(_evidence(memories))
    if memories.tests:
        parts.append(_table(memories))
    return Section(TITLE, " ".join(_sentences(memories)), "\n".join(parts))


def _sentences(memories: Variables) -> list[str]:
    """What was found, and whether it explains the network."""
    published = memories.method == "published"
    way = ["The directions are those of the published way, the pseudo-inverse of the readout and powers."] * published
    if memories.found is None:
        return ["No variables were found.", memories.reason, *way]
    N, size = memories.variables, memories.size
    holds = f"{pluralise(N, 'variable')} of {pluralise(size, 'element')} {'each ' if N > 1 else ''}"
    kept = f"in {memories.modes.count} memory modes of {len(memories.modes.eigenvalues)}"
    if memories.status == "refuted":
        said = [f"It looks as if the network held {holds}{kept}, but that does not explain what it does."]
    else:
        said = [f"The network holds {holds}{kept}."]
        said += ["This explains what it does."] if memories.status == "explained" else ["This was not tested."]
    said += [memories.reason, *way]
    next_one = "no signed selection of them" if memories.selection is None else rule_in_words(memories.selection)
    moves = "At every step a variable comes in as the newest, and the others move on by one subspace. " * (N > 1)
    said.append(f"{moves}What comes next is {next_one}.")
    return said


def _wave(memories: Variables) -> str:
    alt = (
        f"What {pluralise(memories.variables, 'subspace')} of {memories.size} held at each step of one trial, by "
        f"colour: diagonal stripes where variables travel from the newest subspace to the oldest."
    )
    figure = draw_wave(memories, 0, COLOUR, figure=new_figure(7.2, wave_height(memories)), font_size=PAGE_FONT_SIZE)
    follows = " The line follows one number: it travels with its variable, until what comes next takes it up."
    caption = f"One trial.{follows if memories.selection is not None else ''}"
    return _figure(inline_svg(figure, "wave", alt=alt), caption)


def _evidence(memories: Variables) -> str:
    found, tried = memories.found is not None, memories.trials is not None
    seen = ["eigenvalues", "scores of the modes"] + ["rank of the readings", "F"] * found
    seen += ["what is decoded over time", "causal tests"] * tried
    rows = -(-(2 + 2 * found + 2 * tried) // 2)
    figure = new_figure(7.2, 3.7 * rows)
    figure = draw_evidence(memories, COLOUR, figure=figure, columns=2, font_size=PAGE_FONT_SIZE)
    alt = f"{', '.join(seen)}."
    where = {"rest": "Where the network rests", "states": "Of a linear step fitted to its states"}[memories.around]
    caption = [f"{where}, without input."]
    if memories.angle_error is not None:
        caption.append(f"Memory modes beside the theory's: {memories.angle_error.summary()}.")
    if memories.trials is not None:
        words = f"{memories.trials.right:.2%} of the signs, " if memories.trials.bits else ""
        caption.append(f"Decoded once settled: {words}R² {format_number(memories.trials.r2)}.")
    return _figure(inline_svg(figure, "evidence", alt=alt[0].upper() + alt[1:]), " ".join(caption))


def _table(memories: Variables) -> str:
    headings = ("Causal test", "Prediction", "As predicted", "Of what should change", "Control", "")
    rows = [
        (
            test.name,
            test.prediction,
            f"{test.agreement:.2%}",
            "–" if isnan(test.changed) else f"{test.changed:.2%}",
            f"{test.control:.2%}",
            "passed" if test.passed else "failed",
        )
        for test in memories.tests
    ]
    note = (
        f"The state is changed once, and the future after it compared with what was predicted; {PASSED:.0%} is asked "
        f"for. Control: how much of the old future is left after a push as long, but in a random direction."
    )
    return table_markup("Causal tests", headings, rows) + f'<p class="small">{note}</p>'


def _figure(svg: str, caption: str) -> str:
    return f'<figure class="drawn">{svg}<figcaption class="small">{caption}</figcaption></figure>'
