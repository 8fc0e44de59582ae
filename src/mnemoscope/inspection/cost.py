"""Whether a measurement is quick enough for a page that should take seconds."""

from __future__ import annotations

from mnemoscope.cells import Cell
from mnemoscope.inspection.options import InspectionOptions

BUDGET = 8e9
"""Multiplications and additions of a measurement on a page, a few seconds on one core."""
OVERHEAD = 5e5
"""Multiplications and additions that take as long as the overhead of one step."""
HOW_TO_MEASURE = "InspectionOptions(full=True), or --full on the command line, measures it."


def is_quick(cell: Cell, steps: int, sequences: int, options: InspectionOptions, passes: int = 1) -> bool:
    """Return whether so many steps of so many sequences are quick, or the options ask for everything anyway."""
    per_step = sequences * _weights(cell) * (steps if cell.grows else 1)  # a state that grows is read as a whole
    return options.full or passes * steps * (per_step + OVERHEAD) <= BUDGET


def is_quick_alone(cell: Cell, steps: int, sequences: int, options: InspectionOptions) -> bool:
    """Return the same for steps that are taken one at a time, where every module of a block has its own overhead."""
    modules = sum(1 for module in cell.modules() if not any(True for _ in module.children()))
    return options.full or steps * (sequences * _weights(cell) + modules * OVERHEAD) <= BUDGET


def _weights(cell: Cell) -> int:
    return sum(weight.numel() for weight in cell.parameters())
