"""The past inputs that a network with affine layers keeps: tokens, heads, matrices of influence, and state norms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int, Num
from mnemoscope.base.lazy_imports import import_report_extra
from mnemoscope.cells import Cell, Model, Stack, affine_layers
from mnemoscope.cells.affine import AffineCell
from mnemoscope.cells.state import Layout
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.inspection.cost import BUDGET
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.lenses import Influence, influence
from mnemoscope.lenses.exact_influence.figure import draw_curves, draw_heads, layer_colour
from mnemoscope.lenses.token_labels import Labels, first_labels
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.report.matrices import Matrix, matrix_markup
from mnemoscope.report.text import TextToken, text_markup

SEQUENCES = 8
"""Sequences whose influences are computed, for the intervals."""
LAYERS = 4
"""Layers whose matrices a page shows; of more, the first and the last ones."""
TOKENS = 1500
"""Tokens that a page shows."""
JACOBIANS = 150
"""Jacobians of all starts that a search for fixed points takes, roughly."""
LARGE = 256
"""Numbers of a state of affine layers up to which fixed points are searched for."""
STRONG = 3.0
"""Retention from which a token has the full colour."""


def has_affine_layers(network: Cell | Model, inputs: Num[Tensor, "time batch ..."]) -> bool:
    """Return whether a network that takes sequences time first has layers that are affine in their state."""
    try:
        with torch.no_grad():
            affine_layers(network, inputs[:2, :1])
    except TypeError:
        return False
    return True


def why_no_search(cell: Cell, options: InspectionOptions) -> str:
    """Return why fixed points of a network with affine layers alone are not searched for; "" if they are.

    A search takes many Jacobians, each with a pass for every number of the state, and blocks have none in closed form.
    """
    layers = cell.layers if isinstance(cell, Stack) else [cell]
    size = Layout(cell.initial_state(1)).size
    if not all(isinstance(getattr(layer, "core", layer), AffineCell) for layer in layers):
        return ""
    weights = sum(weight.numel() for weight in cell.parameters())
    quick = not isinstance(cell, Stack) or JACOBIANS * options.starts * size * weights <= BUDGET
    if size <= LARGE and (options.full or quick):
        return ""
    computed = " InspectionOptions(full=True), or --full on the command line, computes the point." * (size <= LARGE)
    return (
        f"All layers are affine in their state, of {size:,} numbers: at a constant input such a network has one fixed "
        f"point, unless an eigenvalue is 1, so that no others are searched for.{computed}"
    )


def find_past_inputs(
    network: Cell | Model,
    inputs: Num[Tensor, "time batch ..."],
    options: InspectionOptions,
    *,
    lengths: Int[Tensor, " batch"] | None = None,
    labels: Labels | None = None,
) -> Influence | None:
    """Compute the influence of past inputs for as many sequences as take some seconds; None if not even one does."""
    work = _work(network, inputs)
    number = SEQUENCES if options.full else min(SEQUENCES, int(BUDGET / work))
    if number < 1:
        return None
    some = inputs[:, :number]
    labels = label_inputs(some) if labels is None else first_labels(labels, number)
    steps = None if lengths is None else lengths[:number].cpu()
    return influence(network, some, labels=labels, lengths=steps, seed=options.seed)


def affordable_steps(network: Cell | Model, inputs: Num[Tensor, "time batch ..."], options: InspectionOptions) -> int:
    """Return how many steps of one sequence take some seconds; all of them if the options ask for everything."""
    return (
        len(inputs) if options.full else min(len(inputs), int((BUDGET / _work(network, inputs)) ** 0.5 * len(inputs)))
    )


@torch.no_grad()
def _work(network: Cell | Model, inputs: Tensor) -> float:
    """Return multiplications and additions for one sequence: all pairs of steps of every head."""
    layers = affine_layers(network, inputs[:2, :1])
    shapes = [layer.start.shape[1:] for layer in layers]
    return len(inputs) ** 2 * sum(heads * keys * (keys + 64) for heads, keys, _ in shapes)


def label_inputs(inputs: Num[Tensor, "time batch ..."]) -> list[list[str]] | None:
    """Return the numbers of tokens, or of the features that are 1 in inputs with one such feature; else None."""
    if inputs.dim() == 2:
        return [[str(token) for token in column] for column in inputs.T.tolist()]
    ones = (inputs == 1).sum(-1)
    if inputs.dim() == 3 and bool(((ones == 1) & ((inputs != 0).sum(-1) == 1)).all()):
        return label_inputs(inputs.argmax(-1))
    return None


def past_input_sections(found: Influence) -> list[Section]:
    """Return the sections of the page."""
    return [_text_section(found), _head_section(found), _matrix_section(found), _state_section(found)]


def _text_section(found: Influence) -> Section:
    steps = min(int(found.lengths[0]), TOKENS)
    tokens = [_token(found, step) for step in range(steps)]
    lead = (
        "The first sequence. The stronger the colour of an input, the more later outputs depend on it, compared with "
        f"the other inputs at the same lags; without colour: less than on these. {found.summary()}"
    )
    more = "" if steps == int(found.lengths[0]) else f" The first {steps:,} of {int(found.lengths[0]):,} inputs."
    caption = f"Point at an input for its numbers.{more}"
    return Section("What it keeps of its inputs", lead, text_markup(tokens, caption))


def _token(found: Influence, step: int) -> TextToken:
    factor = float(found.retention[step])
    if factor != factor:  # no later output
        return TextToken(found.label(step), 0.0, f"step {step}: no later output")
    strength = min(max(factor - 1, 0) / (STRONG - 1), 1.0)
    kept = int(found.kept[step])
    text = f"step {step}: {factor:.2g} times the influence of other inputs at the same lags"
    return TextToken(found.label(step), strength, f"{text}; at least half of its largest up to lag {kept}")


def _head_section(found: Influence) -> Section:
    figure = new_figure(7.2, 3.6)
    left, right = figure.subplots(1, 2)
    draw_heads(left, found, COLOUR)
    draw_curves(right, found, COLOUR)
    for axes in (left, right):
        style_page_axes(axes)
        axes.title.set(color=COLOUR["ink"], size=PAGE_FONT_SIZE)
    right.legend(frameon=False, labelcolor=COLOUR["ink"], fontsize=PAGE_FONT_SIZE - 1)
    alt = "Half-life of every head through values, sorted, and the influence of an input against the lag."
    caption = (
        "Left: the first lag at which values have less than half of their weight at lag 0, for every head, in the "
        "colour of its layer; values alone, with gates and keys held. Right: squared derivatives of the reads of each "
        "layer by its inputs, and of the outputs of the network by its inputs."
    )
    if len(found.lengths) > 1:
        caption += " Both have 95% intervals over sequences."
    html = figure_markup(figure, "heads", alt=alt, caption=caption)
    return Section("Heads by half-life", "", html)


def _matrix_section(found: Influence) -> Section:
    labels = [found.label(step) for step in range(int(found.lengths[0]))] if found.labels else None
    matrices = []
    if found.model is not None and found.rows is not None:
        matrices.append(Matrix("Network", found.model, found.rows.tolist(), found.cell))
    shown = _some(range(len(found.layers)), LAYERS)
    for layer in (found.layers[index] for index in shown):
        energies, kind = (layer.value, "values") if layer.full is None else (layer.full, "full")
        rows = [found.cell * row for row in range(len(energies))]
        matrices.append(Matrix(f"{layer.name or 'Layer'}, {kind}", energies, rows, found.cell))
    errors = [found.model_error, *(layer.full_error for layer in found.layers)]
    lead = (
        "Squared derivative of each output (row) by each input (column) of the first sequence, on a logarithmic scale: "
        "of the whole network, and of what each layer reads from its memory."
    )
    if max(errors):
        lead += (
            f" They are estimated from random directions, with standard errors of up to {max(errors):.0%} of a number."
        )
    if len(shown) < len(found.layers):
        lead += f" {len(shown)} of {len(found.layers)} layers are shown."
    return Section("Which input matters for which output", lead, matrix_markup(matrices, labels))


def _some(numbers: Sequence[int], most: int) -> list[int]:
    """Return the first and the last of many numbers."""
    if len(numbers) <= most:
        return list(numbers)
    return [*numbers[: (most + 1) // 2], *numbers[len(numbers) - most // 2 :]]


def _state_section(found: Influence) -> Section:
    figure = new_figure(7.2, 2.8)
    axes = figure.add_subplot()
    steps = int(found.lengths[0])
    for index, layer in enumerate(found.layers):
        name = (layer.name or None) if len(found.layers) <= LAYERS else None
        axes.plot(layer.state_norms[:steps].numpy(), color=layer_colour(index, COLOUR), linewidth=1.4, label=name)
    axes.set(xlabel="step", ylabel="norm", ylim=(0, None))
    axes.xaxis.set_major_locator(import_report_extra("matplotlib.ticker").MaxNLocator(integer=True))
    style_page_axes(axes)
    if 1 < len(found.layers) <= LAYERS:
        axes.legend(frameon=False, labelcolor=COLOUR["ink"], fontsize=PAGE_FONT_SIZE - 1)
    alt = "Norm of the state of every layer at each step of the first sequence."
    caption = "Norm of the state of all heads of a layer along the first sequence."
    return Section("Size of the state", "", figure_markup(figure, "norms", alt=alt, caption=caption))
