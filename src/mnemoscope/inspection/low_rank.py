"""The page section on the latent variables of a low-rank network."""

from __future__ import annotations

from mnemoscope.cells import LeakyRNN
from mnemoscope.connectivity import LowRank
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.mechanism import TRAJECTORIES
from mnemoscope.lenses import measure_reduction
from mnemoscope.lenses.low_rank.figure import draw_reduction
from mnemoscope.report import InspectedNetwork, Section
from mnemoscope.report.markup import figure_markup


def low_rank_sections(network: InspectedNetwork) -> list[Section]:
    """Return the section with the flow of the latent variables, if the network can be reduced to them."""
    cell = network.cell
    connectivity = cell.connectivity if isinstance(cell, LeakyRNN) else None
    if not isinstance(connectivity, LowRank) or connectivity.random is not None:
        return []
    result = measure_reduction(network.dynamics)
    visited = network.trajectories[:, :TRAJECTORIES]
    figure = draw_reduction(result, visited, COLOUR, figure=new_figure(11, 4.4), font_size=PAGE_FONT_SIZE)
    alt = "Flow of the latent variables of the network and of its mean field, with states that the network visited."
    lead = (
        f"{result.summary()} The flow and the fixed points are those at the constant input; the trajectories are those "
        f"of the network on its trials, whose inputs change."
    )
    return [Section("Latent variables", lead, figure_markup(figure, "latent-variables", alt=alt))]
