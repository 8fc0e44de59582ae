"""Kernels in which several programs share the units of a batch tile, each with its columns of V on chip.

After every step they synchronise at a counter in memory and read each other's states from the L2 cache. All programs
must be resident at the same time, which a cooperative launch ensures.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.errors import OutOfResources

from mnemoscope.kernels.devices import exact_products, on_device
from mnemoscope.kernels.grids import Grid
from mnemoscope.kernels.triton_parts import bias_row, nonlinear, prepared, pull_back, tile, times

PADDING = tl.constexpr(32)
"""Distance between counters, so that each has a separate cache line."""


def launch_grid(
    kernel: Any,
    grid: Grid,
    tensors: tuple[Tensor, ...],
    sizes: tuple[int, int, int],
    steps: int,
    constants: dict[str, Any],
    exact: bool = True,
    more: tuple[float, ...] = (),
) -> None:
    """Launch a kernel for sequences of `sizes` (time, batch, units) and so many `steps`; `more` are further numbers.

    If `exact`, the numbers of the matrix are of float32, and their precision is kept unless tf32 was chosen.
    """
    _, batch, units = sizes
    slices, tiles = triton.cdiv(units, grid.share), triton.cdiv(batch, grid.rows)
    part, parts = grid.parts(units)
    on_gpu = tensors[0].is_cuda
    # Triton's interpreter, used in tests, has no products of bfloat16, and is exact without them
    constants |= {"ROWS": grid.rows, "PART": part, "PARTS": parts, "EXACT": on_gpu and exact and exact_products()}
    counters = torch.zeros(tiles, PADDING.value, dtype=torch.int32, device=tensors[0].device)
    if on_gpu:
        constants |= {"MEET": True, "launch_cooperative_grid": True}
        kernel[slices, tiles](*tensors, counters, 0, steps, *sizes, slices, *more, **constants)
        return
    for step in range(steps):  # the interpreter runs programs sequentially: they cannot meet within a launch
        kernel[slices, tiles](*tensors, counters, step, step + 1, *sizes, slices, *more, MEET=False, **constants)


def launch_scan(
    module: ModuleType,
    kernel: str,
    grid: Grid,
    given: tuple[Tensor, ...],
    mask: Tensor | None,
    out: tuple[Tensor, ...],
    sizes: tuple[int, int, int],
    constants: dict[str, Any],
    more: tuple[float, ...] = (),
) -> None:
    """Launch a kernel of a module, "lstm_forward" for example, whose sequences have `sizes` (time, batch, units).

    Its arguments are the tensors that are `given`, the mask and the tensors to fill.
    """
    steps = sizes[0] + kernel.endswith("adjoint")  # the last step of an adjoint leads to the first state
    constants = {**constants, "UNITS": grid.share, "MASKED": mask is not None, "num_warps": grid.warps}
    if sizes[1]:
        with on_device(given[0]), named_refusal():
            tensors = (*given, mask_bytes(mask, given[0]), *out)
            launch_grid(getattr(module, kernel), grid, tensors, sizes, steps, constants, more=more)


def mask_bytes(mask: Tensor | None, other: Tensor) -> Tensor:
    """Return the mask as bytes; without one another tensor takes its place, which is not read."""
    return other if mask is None else mask.contiguous().view(torch.uint8)


@contextmanager
def named_refusal() -> Generator[None]:
    """Name the remedy if the GPU has no room for the programs of a grid, as one that others use may have none."""
    try:
        yield
    except (OutOfResources, RuntimeError) as error:
        if not isinstance(error, OutOfResources) and "cooperative" not in str(error):
            raise
        raise RuntimeError("The GPU has no room for this fused scan; pass backend='loop' to scan.") from error


@triton.jit
def columns_of(V, down, across, unit, units, PART: tl.constexpr, PARTS: tl.constexpr):
    """Load columns of a matrix with these strides, in parts of the sum over its rows."""
    inner = tl.arange(0, PARTS)[:, None, None] * PART + tl.arange(0, PART)[None, :, None]
    unit = unit[None, None, :]
    return tl.load(V + inner * down + unit * across, mask=(inner < units) & (unit < units), other=0.0)


@triton.jit
def meet(counter, arrived):
    """Wait until the other programs of this batch tile have arrived `arrived` times."""
    while tl.atomic_add(counter, 0, sem="acquire") < arrived:
        pass
    tl.debug_barrier()


@triton.jit
def arrive(counter):
    tl.debug_barrier()  # all warps have stored
    tl.atomic_add(counter, 1, sem="release")


@triton.jit
def gathered_times(
    x, W1, W2, W3, rows, batch, width, units, PART: tl.constexpr, PARTS: tl.constexpr, EXACT: tl.constexpr
):
    """Return the parts of `x W` for all units of x (batch, width), read from the L2 cache; each warp computes one."""
    inner = tl.arange(0, PARTS)[:, None, None] * PART + tl.arange(0, PART)[None, None, :]
    row = rows[None, :, None]
    all_units = tl.load(x + row * width + inner, mask=(row < batch) & (inner < units), other=0.0, cache_modifier=".cg")
    return times(all_units, W1, W2, W3, EXACT)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "slices"])  # one kernel for all lengths and batches
def grid_forward(
    us,
    h0,
    V,
    bias,
    mask,
    hs,
    counters,
    begin,
    end,
    time,
    batch,
    units,
    slices,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    row, column = tl.program_id(1) * ROWS, tl.program_id(0) * COLUMNS
    rows, columns, here, inside = tile(row, column, batch, units, ROWS, COLUMNS)
    counter = counters + tl.program_id(1) * PADDING
    W1, W2, W3 = prepared(columns_of(V, 1, units, columns, units, PART, PARTS), EXACT)
    b = bias_row(bias, columns, units, PHI)
    stride = (batch * units).to(tl.int64)
    us += begin * stride
    mask += begin * batch.to(tl.int64)
    hs += begin * stride
    u = tl.load(us + here, mask=inside, other=0.0).to(tl.float32)
    for t in range(begin, end):
        us += stride
        later = tl.load(us + here, mask=inside & (t + 1 < end), other=0.0).to(tl.float32)
        before = hs - stride  # each time has separate memory, so that no program overwrites what another still reads
        if t == 0:
            before = h0
        if MEET:
            meet(counter, slices * (t - begin))
        z = tl.sum(gathered_times(before, W1, W2, W3, rows, batch, units, units, PART, PARTS, EXACT), 0)
        new = nonlinear(z + u, b, PHI)
        if MASKED:
            goes = tl.load(mask + rows, mask=rows < batch, other=0)
            held = tl.load(before + here, mask=inside, other=0.0, cache_modifier=".cg").to(tl.float32)
            new = tl.where((goes != 0)[:, None], new, held)
        tl.store(hs + here, new, mask=inside)
        hs += stride
        mask += batch
        u = later
        if MEET:
            arrive(counter)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "slices"])  # one kernel for all lengths and batches
def grid_adjoint(
    g,
    hs,
    V,
    bias,
    mask,
    D,
    dh0,
    counters,
    begin,
    end,
    time,
    batch,
    units,
    slices,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    row, column = tl.program_id(1) * ROWS, tl.program_id(0) * COLUMNS
    rows, columns, here, inside = tile(row, column, batch, units, ROWS, COLUMNS)
    counter = counters + tl.program_id(1) * PADDING
    W1, W2, W3 = prepared(columns_of(V, units, 1, columns, units, PART, PARTS), EXACT)
    b = bias_row(bias, columns, units, PHI)
    stride = (batch * units).to(tl.int64)
    g += (time - 1 - begin) * stride
    hs += (time - 1 - begin) * stride
    D += (time - 1 - begin) * stride
    mask += (time - 1 - begin) * batch.to(tl.int64)
    first = inside & (begin < time)
    g_t = tl.load(g + here, mask=first, other=0.0).to(tl.float32)
    h_t = tl.load(hs + here, mask=first, other=0.0).to(tl.float32)
    # dh0 also stores the gradient that passes by held states; each program uses only its part
    for back in range(begin, end):  # back = time is the step to h0, which has no nonlinearity
        g -= stride
        hs -= stride
        more = inside & (back + 1 < time) & (back + 1 < end)
        g_before = tl.load(g + here, mask=more, other=0.0).to(tl.float32)
        h_before = tl.load(hs + here, mask=more, other=0.0).to(tl.float32)
        total = g_t
        if back > 0:
            if MEET:
                meet(counter, slices * (back - begin))
            sums = gathered_times(D + stride, W1, W2, W3, rows, batch, units, units, PART, PARTS, EXACT)
            total += tl.sum(sums, 0)
            if MASKED:
                total += tl.load(dh0 + here, mask=inside, other=0.0).to(tl.float32)
        if back < time:
            d = pull_back(total, h_t, b, PHI)
            if MASKED:
                goes = tl.load(mask + rows, mask=rows < batch, other=0)
                d = tl.where((goes != 0)[:, None], d, 0.0)
                tl.store(dh0 + here, tl.where((goes != 0)[:, None], 0.0, total), mask=inside)
            tl.store(D + here, d, mask=inside)
            if MEET:
                arrive(counter)
        else:
            tl.store(dh0 + here, total, mask=inside)
        D -= stride
        mask -= batch
        g_t = g_before
        h_t = h_before
