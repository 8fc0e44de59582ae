"""Launch the kernels of a scan of gates by its plan (`gated_plans`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.kernels import triton_gated, triton_gated_grid
from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.gated_plans import Vector
from mnemoscope.kernels.grids import Grid
from mnemoscope.kernels.triton_grid import launch_grid, named_refusal
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

    Its arguments are the tensors that are `given`, the mask and the tensors to fill. The mask is passed as bytes;
    without one the first tensor takes its place, which is not read.
    """
    flags = given[0] if mask is None else mask.contiguous().view(torch.uint8)
    tensors, constants = (*given, flags, *out), {**constants, "MASKED": mask is not None, "num_warps": plan.warps}
    with on_device(given[0]), named_refusal():
        if isinstance(plan, Vector):
            layout = vector_layout(plan.columns, plan.warps)
            run = getattr(triton_gated, kernel)
            run[(sizes[1],)](*tensors, *sizes, COLUMNS=plan.columns, LAYOUT=layout, **constants)
        else:
            steps = sizes[0] + kernel.endswith("adjoint")  # the last step of an adjoint leads to h0
            constants["UNITS"] = plan.share
            launch_grid(getattr(triton_gated_grid, kernel), plan, tensors, sizes, steps, constants)
