"""The sections that registered lenses add to the page of a network."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mnemoscope import registry
from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.report.document import Section


@dataclass(frozen=True)
class InspectedNetwork:
    """A network after the search for its fixed points: the argument of a lens that adds sections to the page."""

    cell: Cell
    dynamics: Dynamics
    """The cell at a constant input, in float64."""
    fixed_points: FixedPoints
    trajectories: Float[Tensor, "time batch size"]
    """Flat states that the network visited, on its task or from random states."""


def lens_sections(network: InspectedNetwork) -> dict[str, list[Section]]:
    """Return the sections of every lens that has any, by the name of the lens; `Entry.sections` names the functions."""
    made = {entry.name: list(entry.load_sections()(network)) for entry in registry.lenses if entry.sections}
    return {name: sections for name, sections in made.items() if sections}
