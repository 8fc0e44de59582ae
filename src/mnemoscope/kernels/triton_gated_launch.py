"""Launch the kernels of a scan of gates by its plan (`gated_plans`)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mnemoscope.kernels import triton_gated, triton_gated_grid
from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.gated_plans import Vector
from mnemoscope.kernels.grids import Grid
from mnemoscope.kernels.triton_grid import launch_scan, mask_bytes
from mnemoscope.kernels.triton_vector import vector_layout


def launch(
    kernel: str,
    plan: Vector | Grid,
    given: tuple[Tensor, ...],
    mask: Tensor | None,
    out: tuple[Tensor, ...],
    sizes: tuple[int, int, int],
    **constants: Any,
) -> None:
    """Launch a kernel, "lstm_forward" for example, whose sequences have `sizes` (time, batch, units).

    Its arguments are the tensors that are `given`, the mask and the tensors to fill.
    """
    if isinstance(plan, Grid):
        launch_scan(triton_gated_grid, kernel, plan, given, mask, out, sizes, constants)
        return
    constants |= {"COLUMNS": plan.columns, "LAYOUT": vector_layout(plan.columns, plan.warps)}
    constants |= {"MASKED": mask is not None, "num_warps": plan.warps}
    with on_device(given[0]):
        run = getattr(triton_gated, kernel)
        run[(sizes[1],)](*given, mask_bytes(mask, given[0]), *out, *sizes, **constants)
