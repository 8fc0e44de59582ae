"""Whether a measurement is quick enough for a page that should take seconds."""

from __future__ import annotations

from mnemoscope.cells import Cell
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.memory.attention import Attentive
from mnemoscope.networks.sizes import count_state

BUDGET = 8e9
"""Multiplications and additions of a measurement on a page, a few seconds on one core."""
OVERHEAD = 5e5
"""Multiplications and additions that take as long as the overhead of one step."""
HOW_TO_MEASURE = "InspectionOptions(full=True), or --full on the command line, measures it."


def is_quick(cell: Cell, steps: int, sequences: int, options: InspectionOptions, passes: int = 1) -> bool:
    """Return whether so many steps of so many sequences are quick, or the options ask for everything anyway."""
    return options.full or passes * steps * (sequences * _per_step(cell, steps) + OVERHEAD) <= BUDGET


def is_quick_alone(cell: Cell, steps: int, sequences: int, options: InspectionOptions) -> bool:
    """Return the same for steps that are taken one at a time, where every module of a block has its own overhead."""
    modules = sum(1 for module in cell.modules() if not any(True for _ in module.children()))
    return options.full or steps * (sequences * _weights(cell) + modules * OVERHEAD) <= BUDGET


def _per_step(cell: Cell, steps: int) -> int:
    """Return the multiplications and additions of a step of one sequence; a state that grows is read as a whole."""
    if isinstance(cell, Attentive):
        return _weights(cell) * steps  # each past state is compared with the present one by weights
    return _weights(cell) + (2 * count_state(cell, steps) if cell.grows else 0)  # keys and values are read once each


def _weights(cell: Cell) -> int:
    return sum(weight.numel() for weight in cell.parameters())
