"""Inspect a network whose inputs are token numbers, such as a language model."""

from __future__ import annotations

from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.cells import Cell, Lengths, Model, affine_layers, read_inputs
from mnemoscope.inspection.duration import Duration, add_past_inputs, add_transitions
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.result import Inspection
from mnemoscope.inspection.uses import add_citations
from mnemoscope.lenses.token_labels import Labels
from mnemoscope.report import NetworkPage

LEAD = (
    "The inputs are tokens, of which none is a constant input of zeros: no fixed points are searched for. The page "
    "shows what the layers that are affine in their state keep of the tokens."
)


def inspect_tokens(
    network: Cell | Model,
    tokens: Int[Tensor, "..."],
    *,
    lengths: Lengths | None = None,
    labels: Labels | None = None,
    name: str | None = None,
    options: InspectionOptions,
) -> Inspection:
    """Return what a network with an embedding and affine layers keeps of tokens, and the page that shows it."""
    cell = network.cell if isinstance(network, Model) else network
    given = read_inputs(tokens, batch_first=cell.batch_first, lengths=lengths)
    layers = affine_layers(network, tokens, lengths=lengths)  # refuses a network without affine layers
    steps = None if given.mask is None else given.mask.sum(0)
    found = Duration()
    add_past_inputs(found, network.time_first(), given.xs, options, steps, labels)
    add_transitions(found, network.time_first(), given.xs, options, steps, labels)
    module = getattr(cell, "module", network)
    weights = sum(weight.numel() for weight in network.parameters())
    facts = [
        ("Network", type(module).__name__),
        ("Parameters", f"{weights:,}"),
        ("Layers that are affine in their state", str(len(layers))),
        ("Tokens", f"{given.xs.shape[1]:,} sequences of {given.xs.shape[0]:,}"),
    ]
    content = NetworkPage(
        name or f"{type(module).__name__}, {weights:,} parameters",
        facts=facts,
        lead=LEAD,
        command=options.command or "ms.inspect(network, tokens, ...)",
        duration_sections=found.sections,
    )
    content = add_citations(content, found.lenses)
    return Inspection(content, found.results, influence=found.influence, transitions=found.transitions)
