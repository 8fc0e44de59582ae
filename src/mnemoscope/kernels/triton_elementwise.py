"""Elementwise recurrences on a GPU: `h_t = phi(V h_{t-1} + u_t)` and its adjoint as Triton kernels.

There are four ways to run a scan, chosen by its size and by what a block of the GPU may hold (`plan`):

- "vector" (`triton_vector`): one program takes one sequence through all times. For few sequences of up to 256 units.
- "block" (`triton_block`): one program takes a tile of the batch through all times. For up to 128 units.
- "grid" (`triton_grid`): programs that synchronise after every step share the units of a tile. For up to 1024 units, as
  long as all programs are resident at the same time.
- "steps" (`triton_steps`): a library matrix product and one elementwise kernel per step, replayed as a CUDA graph.

float32 keeps its precision (`triton_parts`) unless `torch.set_float32_matmul_precision("high")` selects tf32, as for
torch's products. bfloat16 and float16 are multiplied directly and summed in float32.

Complex numbers are pairs: the state is a real vector twice as long, with (re, im) of each unit side by side, and V
becomes the real matrix of 2 x 2 blocks ((re, -im), (im, re)), whose transpose represents the conjugate transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
import triton
from torch import Tensor
from triton.runtime.errors import OutOfResources

from mnemoscope.kernels.devices import exact_products, on_device, shared_memory
from mnemoscope.kernels.grids import Grid, bytes_on_chip
from mnemoscope.kernels.triton_block import block_adjoint, block_forward
from mnemoscope.kernels.triton_grid import grid_adjoint, grid_forward, launch_grid
from mnemoscope.kernels.triton_outer import outer_products
from mnemoscope.kernels.triton_steps import Recurrence, run_adjoint_steps, run_steps
from mnemoscope.kernels.triton_vector import BLOCK, vector_adjoint, vector_forward, vector_layout

BLOCK_UNITS = 128
"""Largest number of (real) units for which one program holds all of V."""
REGISTER_UNITS = 128
"""Columns of V that the threads of a "vector" program hold in registers; others are in shared memory."""
FEW = {16: 1024, 32: 1024, 64: 512, 128: 256, 256: 132}
"""Most sequences for which a "vector" scan is the fastest, by its units."""
WARPS = {16: 1, 32: 2, 64: 4, 128: 8, 256: 16}
"""Warps of a "vector" program, by its units."""
GRID_UNITS = 1024
"""Largest number of (real) units for which the rows of V of a "grid" program fit on chip."""
__all__ = ["adjoint", "forward", "outer_products"]

WAYS = {
    "vector": "one program for each sequence",
    "block": "one program for each tile of sequences",
    "grid": "programs that share the units",
    "steps": "one matrix product for each step",
}
"""Descriptions of the ways to run a scan."""
ROWS = 16
"""Sequences in a tile: the smallest number that the matrix units take."""


def forward(us: Tensor, h0: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """Return the states (time, batch, units)."""
    u, h = _real(us), _real(h0)
    hs = torch.empty_like(u)
    if hs.numel():
        _run(_scan(u, V, activation, bias, mask), u, lambda scan: scan.forward(u, h, hs))
    return _as(us.dtype, hs)


def adjoint(
    g: Tensor, hs: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return `D` (time, batch, units) and the gradient of `h0` (batch, units)."""
    g, h = _real(g), _real(hs)
    D, dh0 = torch.empty_like(g), torch.empty_like(g[0])
    if D.numel():
        _run(_scan(g, V, activation, bias, mask), g, lambda scan: scan.adjoint(g, h, D, dh0))
    return _as(hs.dtype, D), _as(hs.dtype, dh0)


def check_stack(us: Tensor, V: Tensor) -> None:
    """Raise unless scans with stacked matrices (networks, units, units) run as tiles that share one matrix each."""
    sequences = us.shape[1] // len(V)
    if plan(us, tiled=True).way != "block" or sequences % ROWS or us.shape[1] % len(V):
        raise ValueError(
            f"Stacked networks have at most {BLOCK_UNITS} units and a multiple of {ROWS} sequences each, but there are "
            f"{us.shape[2]} units and {sequences} sequences."
        )


def _scan(drive: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None) -> Scan:
    phi = "modrelu of pairs" if V.is_complex() and activation == "modrelu" else activation
    return Scan(_matrix(V), phi, bias, mask, exact_products(), plan(drive, tiled=V.dim() == 3 or V.is_complex()))


class Drive(NamedTuple):
    """Size of a drive: enough to plan a scan that has no tensors yet."""

    shape: tuple[int, ...]
    """(time, batch, real units)."""
    dtype: torch.dtype
    device: torch.device

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a GPU, as of a tensor."""
        return self.device.type == "cuda"


def limited_choice(drive: Drive, tiled: bool) -> str | None:
    """Return how the GPU limits the choice of a plan, or None if it has room for the fastest plan on an H200."""
    first, chosen = plans(drive, tiled)[0], plan(drive, tiled)
    if chosen == first:
        return None
    needed, limit = shared_bytes(first, drive) // 1024, shared_memory(drive.device) // 1024
    return f"{WAYS[chosen.way]}: {WAYS[first.way]} would need {needed} KiB of shared memory, and this GPU has {limit}"


def _run(scan: Scan, drive: Tensor, run: Callable[[Scan], None]) -> None:
    """Run the scan by its plan, or by another one if a smaller GPU cannot hold the data of the first on chip."""
    for way in dict.fromkeys((scan.plan, plan(drive, tiled=True), Plan("steps"))):
        try:
            return run(replace(scan, plan=way))
        except (OutOfResources, RuntimeError) as error:
            if not isinstance(error, OutOfResources) and "cooperative" not in str(error):
                raise
            refused = error
    raise refused


@dataclass(frozen=True)
class Plan:
    """Launch plan of a scan."""

    way: Literal["vector", "block", "grid", "steps"]
    columns: int = 0
    """Units computed by one program."""
    parts: int = 1
    """Number of parts of the sum over units: one per warp of a grid, or one in registers and the others in shared memory."""
    warps: int = 4


def plan(u: Tensor | Drive, tiled: bool) -> Plan:
    """Return the fastest plan on an H200 for a drive (time, batch, real units) whose blocks fit on the present GPU.

    If `tiled`, sequences are taken in tiles: those of stacked networks share a matrix, and complex numbers are pairs.
    """
    limit = shared_memory(u.device) if u.is_cuda else math.inf
    return next(way for way in plans(u, tiled) if shared_bytes(way, u) <= limit)


def plans(u: Tensor | Drive, tiled: bool) -> list[Plan]:
    """Return the plans that take this size, the fastest on an H200 first (see benchmarks/results/scans_cuda.md)."""
    batch, units = u.shape[1:]
    columns = max(16, triton.next_power_of_2(units))
    ways = []
    if not tiled and batch <= FEW.get(columns, 0):
        ways.append(Plan("vector", columns, max(1, columns // REGISTER_UNITS), WARPS[columns]))
    if units <= BLOCK_UNITS:
        ways.append(Plan("block", columns, warps=4 if units <= 64 else 8))
    programs = torch.cuda.get_device_properties(u.device).multi_processor_count if u.is_cuda else 1
    tiles = triton.cdiv(batch, ROWS)
    if BLOCK_UNITS < units <= GRID_UNITS and tiles * triton.cdiv(units, 16) <= programs:
        ways.append(Plan("grid", 16, 4, 4) if units <= 512 else Plan("grid", 16, 8, 8))
    if BLOCK_UNITS < units <= 512 and tiles * triton.cdiv(units, 32) <= programs:
        ways.append(Plan("grid", 32, 4, 4))
    return [*ways, Plan("steps")]


def shared_bytes(way: Plan, u: Tensor | Drive) -> int:
    """Return the shared memory of a block for a drive; benchmarks/results/kernel_limits.md has what the compiler needs."""
    units, kept = u.shape[2], way.columns // way.parts
    number = bytes_on_chip(u.dtype)
    if way.way == "vector":
        return 4 * way.columns * (way.columns - kept + 1)  # the columns that are not in registers, and a vector
    if way.way == "block":
        return max(number * ROWS * way.columns, 4 * way.columns**2)
    if way.way == "grid":
        return Grid(way.columns, way.parts, ROWS).shared_bytes(units, way.columns, number)
    return 0


@dataclass(frozen=True)
class Scan(Recurrence):
    """A recurrence with the plan to launch it."""

    plan: Plan

    def forward(self, us: Tensor, h0: Tensor, hs: Tensor) -> None:
        """Fill `hs`."""
        if self.plan.way == "steps":
            run_steps(self, us, h0, hs)
        else:
            kernels = {"vector": vector_forward, "block": block_forward, "grid": grid_forward}
            self._launch(kernels[self.plan.way], (us, h0), (hs,), steps=len(us))

    def adjoint(self, g: Tensor, hs: Tensor, D: Tensor, dh0: Tensor) -> None:
        """Fill `D` and `dh0`."""
        if self.plan.way == "steps":
            run_adjoint_steps(self, g, hs, D, dh0)
        else:
            kernels = {"vector": vector_adjoint, "block": block_adjoint, "grid": grid_adjoint}
            self._launch(kernels[self.plan.way], (g, hs), (D, dh0), steps=len(g) + 1)

    def _launch(self, kernel: Any, given: tuple[Tensor, ...], out: tuple[Tensor, ...], steps: int) -> None:
        """Launch the kernel of the plan; a grid runs `steps` steps."""
        like, columns = given[0], self.plan.columns
        bias = like if self.bias is None else self.bias.contiguous()  # the first tensor takes the place of None
        mask = like if self.mask is None else self.mask.contiguous().view(torch.uint8)
        tensors, sizes = (*given, self.V, bias, mask, *out), like.shape
        constants = {"COLUMNS": columns, "PHI": self.phi, "MASKED": self.mask is not None}
        constants["num_warps"] = self.plan.warps
        with on_device(like):
            if self.plan.way == "vector":
                kept = columns // self.plan.parts
                constants |= {"KEPT": kept, "BLOCK": BLOCK, "LAYOUT": vector_layout(columns, self.plan.warps)}
                kernel[(sizes[1],)](*tensors, *sizes, **constants)
                return
            # Triton's interpreter, used in tests, has no products of bfloat16, and is exact without them
            exact = self.V.dtype == torch.float32 and self.exact and self.V.is_cuda
            constants |= {"ROWS": ROWS, "EXACT": exact}
            if self.plan.way == "block":
                sharing = sizes[1] if self.V.dim() == 2 else sizes[1] // len(self.V)
                kernel[(triton.cdiv(sizes[1], ROWS),)](*tensors, *sizes, sharing, **constants)
            else:
                grid = Grid(columns, self.plan.parts, ROWS)
                launch_grid(kernel, grid, tensors, (sizes[0], sizes[1], sizes[2]), steps, constants, exact)


def _real(x: Tensor) -> Tensor:
    """Return a contiguous tensor, with complex numbers as pairs."""
    return torch.view_as_real(x.resolve_conj().contiguous()).flatten(-2) if x.is_complex() else x.contiguous()


def _as(dtype: torch.dtype, x: Tensor) -> Tensor:
    """Return pairs as complex numbers, if `dtype` is complex."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2))) if dtype.is_complex else x


def _matrix(V: Tensor) -> Tensor:
    """Return a contiguous matrix; a complex matrix becomes the real one that acts on pairs."""
    if not V.is_complex():
        return V.contiguous()
    rows = torch.stack([torch.stack([V.real, -V.imag], -1), torch.stack([V.imag, V.real], -1)], 1)
    return rows.reshape(2 * V.shape[0], 2 * V.shape[1])
