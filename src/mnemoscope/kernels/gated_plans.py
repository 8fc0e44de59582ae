"""How a scan of gates runs on a GPU, chosen by its size and by what a block of the GPU may hold.

- "vector" (`triton_gated`): one program takes one sequence through all times. For up to 64 units.
- "grid" (`triton_gated_grid`): programs that synchronise after every step share the units of a tile of sequences. For
  up to 512 units, as long as all programs are resident at the same time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from mnemoscope.kernels.devices import no_float32_scan
from mnemoscope.kernels.grids import Grid

MOST_UNITS = {"vector": 64, "grid": 512}
"""Largest number of units: for which the registers of a multiprocessor hold the matrices of all gates (vector), and for
which the multiprocessors of an H200 together do (grid)."""
MOST_SEQUENCES = 264
"""Most sequences of "vector": an H200 runs two on each of its 132 multiprocessors at a time."""
FEW_UNITS = 128
"""Units up to which cuDNN is faster than a grid."""
FEW_SEQUENCES = 64
"""Sequences from which "vector" is faster than cuDNN."""
WARPS = {16: 2, 32: 4, 64: 8}
"""Warps of a "vector" program, by the number of units, rounded up."""


class Vector(NamedTuple):
    """A scan in which one program takes one sequence through all times."""

    columns: int
    """Units, rounded up."""
    warps: int


def gated_plan(device: torch.device, units: int, batch: int) -> Vector | Grid | None:
    """Return the fastest plan for which the GPU has room, or None."""
    if units <= MOST_UNITS["vector"] and batch <= MOST_SEQUENCES:
        columns = next(columns for columns in WARPS if units <= columns)
        return Vector(columns, WARPS[columns])
    return gated_grid(device, units, batch)


def gated_grid(device: torch.device, units: int, batch: int) -> Grid | None:
    """Return the fastest grid for which the GPU has room, or None."""
    if units > MOST_UNITS["grid"]:
        return None
    # the more programs share the units, the less time a step takes (benchmarks/results/gated_plans.md)
    grids = (Grid(4, 8), Grid(8, 4 if units <= 256 else 8), Grid(16, 8))
    # a program holds the four sums of each of its units
    return next((grid for grid in grids if grid.fits(device, batch, units, 4 * grid.share)), None)


def no_gated_scan(device: torch.device, dtype: torch.dtype, units: int, batch: int, cudnn: bool) -> str | None:
    """Return the reason why a fused scan does not take these arguments, or None if it does.

    If `cudnn`, cuDNN could run them too, and the faster of the two is chosen.
    """
    reason = no_float32_scan("fused scan of gates", device, dtype)
    if reason is not None or device.type == "cpu":
        return reason
    plan = gated_plan(device, units, batch)
    if plan is None:
        return no_room(units, batch)
    if cudnn and isinstance(plan, Vector) and batch < FEW_SEQUENCES:
        return f"cuDNN takes less time for fewer than {FEW_SEQUENCES} sequences"
    if cudnn and isinstance(plan, Grid) and units <= FEW_UNITS:
        return f"cuDNN takes less time for up to {FEW_UNITS} units"
    return None


def no_room(units: int, batch: int) -> str:
    """Return the reason why no plan takes so many units and sequences."""
    return f"the fused scan of gates has no room for {units} units and {batch} sequences on this GPU"
