"""The variables of a network trained on variable binding: the wave, the evidence and the causal tests."""

from __future__ import annotations

from math import isnan

from mnemoscope.base.plurals import pluralise
from mnemoscope.cells import Model
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.variables import Variables, find_variables
from mnemoscope.lenses.variables.figure import draw_evidence, draw_wave
from mnemoscope.lenses.variables.interventions import PASSED
from mnemoscope.lenses.variables.result import describe_interaction
from mnemoscope.lenses.variables.wave import wave_height
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.numbers import format_number
from mnemoscope.tasks import Batch, Task, VariableBinding

TITLE = "Variables"


def inspect_variables(model: Model, task: Task, batch: Batch) -> Variables | str | None:
    """Return the variables of a network, or why they cannot be found; None for other tasks."""
    if not isinstance(task, VariableBinding):
        return None
    try:
        return find_variables(model, inputs=batch.inputs, variables=batch.targets)
    except ValueError as error:
        return str(error)


def variables_section(result: Variables | str) -> Section:
    """Return the section with the variables of a network, or with the reason why they are not known."""
    if isinstance(result, str):
        return Section(TITLE, f"The variables of the network are not known: {result}", "")
    parts = [_wave(result)] if result.trials is not None else []
    parts.append(_evidence(result))
    if result.tests:
        parts.append(_table(result))
    return Section(TITLE, " ".join(_sentences(result)), "\n".join(parts))


def _sentences(result: Variables) -> list[str]:
    published = "The directions come from the published method, the pseudo-inverse of the readout and powers of W_hh."
    notes = [published] if result.method == "published" else []
    if result.structure is None:
        return ["No variables were found.", result.reason, *notes]
    N, size = result.variables, result.size
    variables = f"{pluralise(N, 'variable')} of {pluralise(size, 'element')} {'each ' if N > 1 else ''}"
    modes = f"in {result.modes.count} memory modes of {len(result.modes.eigenvalues)}"
    verdict = {
        "refuted": f"The network seems to hold {variables}{modes}, but they do not explain its behaviour.",
        "untested": f"The network holds {variables}{modes}. They were not tested.",
        "explained": f"The network holds {variables}{modes}. They explain its behaviour.",
    }[result.status]
    moves = ["At every step a variable enters as the newest, and the others move by one subspace."] * (N > 1)
    add_up = result.trials is not None and result.trials.inputs_add_up
    inputs = ["While inputs arrive, they are added to F of the variables held."] * add_up
    return [verdict, result.reason, *notes, *moves, describe_interaction(result), *inputs]


def _wave(result: Variables) -> str:
    alt = (
        f"Content of {pluralise(result.variables, 'subspace')} of {result.size} at each step of one trial, by colour: "
        f"diagonal stripes where variables travel from the newest subspace to the oldest."
    )
    figure = draw_wave(result, 0, COLOUR, figure=new_figure(7.2, wave_height(result)), font_size=PAGE_FONT_SIZE)
    line = " The line follows one number: it travels with its variable until the next variable copies it."
    caption = f"One trial.{line if result.selection is not None else ''}"
    return figure_markup(figure, "wave", alt=alt, caption=caption)


def _evidence(result: Variables) -> str:
    found, tested = result.structure is not None, result.trials is not None
    panels = ["eigenvalues", "scores of the modes"] + ["rank of the readings", "F"] * found
    panels += ["decoding over time", "causal tests"] * tested
    rows = -(-len(panels) // 2)
    figure = new_figure(7.2, 3.7 * rows)
    figure = draw_evidence(result, COLOUR, figure=figure, columns=2, font_size=PAGE_FONT_SIZE)
    alt = f"{', '.join(panels)}."
    where = {"rest": "Linearised at a fixed point", "states": "A linear step fitted to the states"}[result.around]
    caption = [f"{where}, without input."]
    if result.angle_error is not None:
        caption.append(f"Memory modes compared with the theory: {result.angle_error.summary()}.")
    if result.trials is not None:
        signs = f"{result.trials.sign_accuracy:.2%} of the signs, " if result.trials.bits else ""
        caption.append(f"Decoded at settled times: {signs}R² {format_number(result.trials.r2)}.")
    return figure_markup(figure, "evidence", alt=alt[0].upper() + alt[1:], caption=" ".join(caption))


def _table(result: Variables) -> str:
    headings = ("Causal test", "Prediction", "As predicted", "Of the changes", "Control", "")
    rows = [
        (
            test.name,
            test.prediction,
            f"{test.agreement:.2%}",
            "–" if isnan(test.changed) else f"{test.changed:.2%}",
            f"{test.control:.2%}",
            "passed" if test.passed else "failed",
        )
        for test in result.tests
    ]
    note = (
        f"The state is changed once, and the outputs after it are compared with the prediction; a test passes at "
        f"{PASSED:.0%}. Of the changes: the share among the outputs that should change. Control: the share of the old "
        f"future that is left after a push of the same length in a random direction."
    )
    return table_markup("Causal tests", headings, rows) + f'<p class="small">{note}</p>'
