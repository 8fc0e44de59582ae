"""What the lenses say of a network, as sections of its page."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mnemoscope import registry
from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.report.frame import Section


@dataclass(frozen=True)
class Looked:
    """A network whose fixed points were looked for: what a lens is given to make its sections of the page."""

    cell: Cell
    dynamics: Dynamics
    """The cell at a constant input, in float64."""
    fixed_points: FixedPoints
    trajectories: Float[Tensor, "time batch size"]
    """Flat states that the network went through: at its task, or from random states."""


def lens_sections(looked: Looked) -> dict[str, list[Section]]:
    """By the name of the lens, the sections of all that have any: `Entry.sections` says by which function."""
    made = {entry.name: list(entry.load_sections()(looked)) for entry in registry.lenses if entry.sections}
    return {name: sections for name, sections in made.items() if sections}
