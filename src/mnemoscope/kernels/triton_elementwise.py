"""Elementwise recurrences on a GPU: `h_t = phi(V h_{t-1} + u_t)` and its adjoint as Triton kernels.

There are three ways to run a scan, chosen by its size (`plan`):

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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import triton
from torch import Tensor
from triton.runtime.errors import OutOfResources

from mnemoscope.kernels.precision import exact_products
from mnemoscope.kernels.triton_block import block_adjoint, block_forward
from mnemoscope.kernels.triton_grid import grid_adjoint, grid_forward
from mnemoscope.kernels.triton_outer import outer_products
from mnemoscope.kernels.triton_steps import run_adjoint_steps, run_steps

BLOCK_UNITS = 128
"""Largest number of (real) units for which one program holds all of V."""
GRID_UNITS = 1024
"""Largest number of (real) units for which the rows of V of a "grid" program fit on chip."""
__all__ = ["adjoint", "forward", "outer_products", "unavailable"]

ROWS = 16
"""Sequences in a tile: the smallest number that the matrix units take."""


def unavailable(device: torch.device, dtype: torch.dtype, activation: str) -> str | None:
    """Return the reason why there is no fused scan on a GPU for these arguments, or None if there is one."""
    if torch.version.hip is not None:
        return "the fused scan was written for, and tried on, NVIDIA GPUs alone"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "the fused scan needs a GPU of compute capability 8.0 or newer"
    if dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.complex64):
        return f"the fused scan on a GPU computes in float32, bfloat16, float16 or complex64, not in {dtype}"
    if dtype.is_complex and activation not in ("modrelu", "linear"):
        return f"a complex {activation} has no fused scan on a GPU"
    return None


def forward(us: Tensor, h0: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """Return the states (time, batch, units)."""
    pairs = us.is_complex()
    u, h, W = _real(us), _real(h0), _matrix(V)
    hs = torch.empty_like(u)
    if hs.numel():
        _launch(
            Scan(W, _phi(activation, pairs), bias, mask, plan(u), exact_products()), lambda scan: scan.forward(u, h, hs)
        )
    return torch.view_as_complex(hs.unflatten(-1, (-1, 2))) if pairs else hs


def adjoint(
    g: Tensor, hs: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return `D` (time, batch, units) and the gradient of `h0` (batch, units)."""
    pairs = hs.is_complex()
    g, h, W = _real(g), _real(hs), _matrix(V)
    D, dh0 = torch.empty_like(g), torch.empty_like(g[0])
    if D.numel():
        _launch(
            Scan(W, _phi(activation, pairs), bias, mask, plan(g), exact_products()),
            lambda scan: scan.adjoint(g, h, D, dh0),
        )
    if pairs:
        return tuple(torch.view_as_complex(x.unflatten(-1, (-1, 2))) for x in (D, dh0))
    return D, dh0


def _launch(scan: Scan, run: Callable[[Scan], None]) -> None:
    """Run the scan; fall back to "steps" if a smaller GPU cannot hold the plan's data on chip."""
    try:
        run(scan)
    except OutOfResources:
        run(replace(scan, plan=Plan("steps")))
    except RuntimeError as error:
        if "cooperative" not in str(error):
            raise
        run(replace(scan, plan=Plan("steps")))


@dataclass(frozen=True)
class Plan:
    """Launch plan of a scan."""

    way: Literal["block", "grid", "steps"]
    columns: int = 0
    """Units computed by one program."""
    parts: int = 1
    """Number of parts of the sum over units, one per warp."""
    warps: int = 4


def plan(u: Tensor) -> Plan:
    """Return the fastest plan on an H200 for a drive (time, batch, real units); see benchmarks/results/scans_cuda.md."""
    batch, units = u.shape[1:]
    if units <= BLOCK_UNITS:
        return Plan("block", max(16, triton.next_power_of_2(units)), warps=4 if units <= 64 else 8)
    programs = torch.cuda.get_device_properties(u.device).multi_processor_count if u.is_cuda else 1
    tiles = triton.cdiv(batch, ROWS)
    if units <= GRID_UNITS and tiles * triton.cdiv(units, 16) <= programs:
        return Plan("grid", 16, 4, 4) if units <= 512 else Plan("grid", 16, 8, 8)
    if units <= 512 and tiles * triton.cdiv(units, 32) <= programs:
        return Plan("grid", 32, 4, 4)
    return Plan("steps")


@dataclass(frozen=True)
class Scan:
    """A matrix and a nonlinearity, ready to run over contiguous real tensors."""

    V: Tensor
    phi: str
    bias: Tensor | None
    mask: Tensor | None
    plan: Plan
    exact: bool
    """Whether float32 keeps its precision; otherwise it is multiplied as tf32."""

    def forward(self, us: Tensor, h0: Tensor, hs: Tensor) -> None:
        """Fill `hs`."""
        if self.plan.way == "steps":
            run_steps(self.V.mT, self.phi, self.bias, self.mask, self.exact, us, h0, hs)
            return
        bias, mask = self._optional(us)
        time, batch, units = us.shape
        with _device(us):
            if self.plan.way == "block":
                block_forward[(triton.cdiv(batch, ROWS),)](
                    us, h0, self.V, bias, mask, hs, time, batch, units, **self._constants()
                )
                return
            self._launch_grid(grid_forward, (us, h0, self.V, bias, mask, hs), time, time, batch, units)

    def adjoint(self, g: Tensor, hs: Tensor, D: Tensor, dh0: Tensor) -> None:
        """Fill `D` and `dh0`."""
        if self.plan.way == "steps":
            run_adjoint_steps(self.V, self.phi, self.bias, self.mask, self.exact, g, hs, D, dh0)
            return
        bias, mask = self._optional(g)
        time, batch, units = g.shape
        with _device(g):
            if self.plan.way == "block":
                block_adjoint[(triton.cdiv(batch, ROWS),)](
                    g, hs, self.V, bias, mask, D, dh0, time, batch, units, **self._constants()
                )
                return
            self._launch_grid(grid_adjoint, (g, hs, self.V, bias, mask, D, dh0), time + 1, time, batch, units)

    def _launch_grid(self, kernel: Any, tensors: tuple, steps: int, time: int, batch: int, units: int) -> None:
        tiles, slices = triton.cdiv(batch, ROWS), triton.cdiv(units, self.plan.columns)
        counters = torch.zeros(tiles, PADDING, dtype=torch.int32, device=self.V.device)
        part = max(16, triton.next_power_of_2(triton.cdiv(units, self.plan.parts)))
        constants = self._constants() | {"PART": part, "PARTS": triton.next_power_of_2(triton.cdiv(units, part))}
        if self.V.is_cuda:
            kernel[slices, tiles](
                *tensors,
                counters,
                0,
                steps,
                time,
                batch,
                units,
                slices,
                MEET=True,
                launch_cooperative_grid=True,
                **constants,
            )
            return
        for step in range(steps):  # the interpreter runs programs sequentially: they cannot synchronise within a launch
            kernel[slices, tiles](
                *tensors, counters, step, step + 1, time, batch, units, slices, MEET=False, **constants
            )

    def _constants(self) -> dict[str, Any]:
        return {
            "ROWS": ROWS,
            "COLUMNS": self.plan.columns,
            "PHI": self.phi,
            "MASKED": self.mask is not None,
            # Triton's interpreter, used in tests, has no products of bfloat16, and is exact without them
            "EXACT": self.V.dtype == torch.float32 and self.exact and self.V.is_cuda,
            "num_warps": self.plan.warps,
        }

    def _optional(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return bias and mask, or a placeholder for each that is None."""
        return (
            like if self.bias is None else self.bias.contiguous(),
            like if self.mask is None else self.mask.contiguous().view(torch.uint8),
        )


PADDING = 32
"""Distance between counters, so that each has a separate cache line."""


def _phi(activation: str, pairs: bool) -> str:
    return "modrelu of pairs" if pairs and activation == "modrelu" else activation


def _real(x: Tensor) -> Tensor:
    """Return a contiguous tensor, with complex numbers as pairs."""
    return torch.view_as_real(x.resolve_conj().contiguous()).flatten(-2) if x.is_complex() else x.contiguous()


def _matrix(V: Tensor) -> Tensor:
    """Return a contiguous matrix; a complex matrix becomes the real one that acts on pairs."""
    if not V.is_complex():
        return V.contiguous()
    rows = torch.stack([torch.stack([V.real, -V.imag], -1), torch.stack([V.imag, V.real], -1)], 1)
    return rows.reshape(2 * V.shape[0], 2 * V.shape[1])


def _device(x: Tensor) -> Any:
    return torch.cuda.device(x.device) if x.is_cuda else torch.no_grad()
