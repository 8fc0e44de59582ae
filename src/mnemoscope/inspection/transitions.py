"""The page section on affine layers: what each input does to their states."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int, Num
from mnemoscope.cells import AffineLayer, Cell, Model, affine_layers
from mnemoscope.cells.affine_reading import NoAffineLayerError
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection import cost
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.lenses import LayerTransitions, Transitions, transitions
from mnemoscope.lenses.token_labels import Labels, first_labels
from mnemoscope.lenses.transition_operators.actions import ACTIONS
from mnemoscope.lenses.transition_operators.figure import draw_transitions
from mnemoscope.lenses.transition_operators.result import Estimate
from mnemoscope.report import Section, sentences
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.numbers import format_number

TITLE = "What each step does to the state"
TRIALS = 16
"""Largest number of trials on a page."""
PER_OPERATOR = 60
"""Multiplications and additions for the spectra of an operator of d keys, in units of d^3."""
DRAWN = 3
"""Largest number of layers with a figure."""


@torch.no_grad()
def inspect_transitions(
    network: Cell | Model,
    inputs: Num[Tensor, "time batch ..."],
    options: InspectionOptions,
    *,
    lengths: Int[Tensor, " batch"] | None = None,
    labels: Labels | None = None,
) -> Transitions | str | None:
    """Return the transitions along some trials; the reason if they take long; None if no layer is affine."""
    try:
        layers = affine_layers(network, inputs[:, :1])
    except NoAffineLayerError:
        return None
    affordable = cost.BUDGET / sum(map(_cost, layers))
    if affordable < 1 and not options.full:
        return f"Not computed, since {len(inputs):,} steps of these layers take long. {cost.HOW_TO_MEASURE}"
    trials = min(TRIALS, inputs.shape[1]) if options.full else max(1, min(TRIALS, inputs.shape[1], int(affordable)))
    chosen = None if lengths is None else lengths[:trials].cpu()
    named = first_labels(labels, trials)
    return transitions(network, inputs[:, :trials], lengths=chosen, labels=named, seed=options.seed)


def transitions_section(result: Transitions) -> Section:
    """Return the section on the operators of all layers, with figures of the first ones."""
    shown = [name for name in ACTIONS if any(float(layer.share(name).mean.max()) > 0 for layer in result.layers)]
    headings = ("Layer", "Recurrence", *(name.capitalize() for name in (*shown, "write")), "Exponent", "Growth up to")
    rows = [_row(layer, (*shown, "write")) for layer in result.layers]
    table = table_markup("Share of steps, largest Lyapunov exponent and growth", headings, rows)
    alt = (
        "Classes of the operators of each step and head, their eigenvalues, the Lyapunov exponents of the heads, and "
        "the growth of products of operators."
    )
    figures = ""
    for number, layer in enumerate(result.layers[:DRAWN]):
        drawn = draw_transitions(result, number, COLOUR, figure=new_figure(7.2, 6.4), font_size=PAGE_FONT_SIZE)
        figures += figure_markup(drawn, f"transitions-{number}", alt=f"{layer.name or layer.family}: {alt}")
    lead = sentences(
        "Each input chooses an operator A, which acts on the state, and adds what it writes: S' = A S + W.",
        result.summary() if len(result) == 1 else "",
        "The table has means over heads and trials, and the largest exponent of a head, with 95% intervals over "
        "trials; docs/transitions.md defines the classes. The figure shows the first trial.",
    )
    return Section(TITLE, lead, f"{table}{figures}")


def _row(layer: LayerTransitions, shown: Sequence[str]) -> tuple[str, ...]:
    shares = [layer.mean_share(name).text() for name in shown]
    head = int(layer.exponent.mean[:, 0].argmax())
    exponent = Estimate(*(edge[head, 0] for edge in layer.exponent)).text(format_number)
    return (layer.name or "–", layer.family, *shares, exponent, format_number(layer.largest_growth[0]))


def _cost(layer: AffineLayer) -> float:
    """Return the multiplications and additions for one trial."""
    heads, keys = layer.start.shape[1:3]
    return len(layer.features) * heads * (keys if layer.parts.erase is None else PER_OPERATOR * keys**3)
