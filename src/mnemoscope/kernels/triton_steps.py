"""Scans too large to stay on chip: one matrix product and one elementwise kernel per step, replayed as a CUDA graph.

The product is the library's. float32 keeps its precision as in `triton_parts`: the six products of bfloat16 parts are
computed in one call, as blocks side by side: `[x3 x1 x2 x2 x1 x1] [W1; W3; W2; W1; W2; W1]`.

A graph holds `BLOCK` steps, or the remainder of a length that has occurred before. A small table in device memory holds
the addresses of its tensors and its progress; its kernels read the table, so that one graph serves all scans of a size,
of any length.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.triton_parts import bias_row, nonlinear, parts, pull_back

BLOCK = 32
"""Steps in a graph. The remainder of a scan is launched step by step the first time, and later from a graph too."""
KEPT_BYTES = 2**30
"""Limit for the buffers of the stored graphs, in bytes; `clear` frees them."""
LEFT = (2, 0, 1, 1, 0, 0)
RIGHT = (0, 2, 1, 0, 1, 0)
"""Parts of x and of W in the blocks of the product: small terms first, because the units truncate their sums."""
_TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


@dataclass(frozen=True)
class Recurrence:
    """A matrix and a nonlinearity, ready to run over contiguous real tensors."""

    V: Tensor
    phi: str
    bias: Tensor | None
    mask: Tensor | None
    exact: bool
    """Whether float32 keeps its precision; otherwise it is multiplied as tf32."""


def run_steps(recurrence: Recurrence, us: Tensor, h0: Tensor, hs: Tensor) -> None:
    """Compute `h_t = phi(V h_{t-1} + u_t)` into `hs`."""
    with _one_at_a_time:
        _steps(us, recurrence, adjoint=False).run(recurrence.V.mT, recurrence, h0, us, hs, hs)


def run_adjoint_steps(recurrence: Recurrence, g: Tensor, hs: Tensor, D: Tensor, dh0: Tensor) -> None:
    """Compute `D_t = pull_back(g_t + D_{t+1} V, h_t)` into `D`, and `D_1 V` into `dh0`."""
    with _one_at_a_time:
        steps = _steps(g, recurrence, adjoint=True)
        steps.run(recurrence.V, recurrence, torch.zeros_like(dh0), g, hs, D)
        torch.mm(D[0], recurrence.V, out=dh0)
        if recurrence.mask is not None:
            dh0 += steps.held


@dataclass(frozen=True)
class _Size:
    batch: int
    units: int
    dtype: torch.dtype
    device: torch.device
    stream: int
    phi: str
    masked: bool
    exact: bool
    adjoint: bool


_kept: OrderedDict[_Size, _Steps] = OrderedDict()
_one_at_a_time = threading.RLock()
"""Threads that share a stream share buffers too, so that their launches must not interleave. The stream orders the rest."""


def clear() -> None:
    """Free all graphs and their buffers."""
    with _one_at_a_time:
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # a graph may still be running, on any stream
        _kept.clear()


def _steps(x: Tensor, recurrence: Recurrence, adjoint: bool) -> _Steps:
    """Return the buffers for this size; two streams never share them."""
    stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else 0
    kind = (recurrence.phi, recurrence.mask is not None, recurrence.exact, adjoint)
    size = _Size(*x.shape[1:], x.dtype, x.device, stream, *kind)
    biases = 0 if recurrence.bias is None else len(recurrence.bias)
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return _Steps(size, biases)  # its memory belongs to the caller's graph, which may outlive the stored buffers
    if size not in _kept:
        _kept[size] = _Steps(size, biases)
        while len(_kept) > 1 and sum(steps.bytes for steps in _kept.values()) > KEPT_BYTES:
            if x.is_cuda:
                torch.cuda.synchronize()
            _kept.popitem(last=False)
    _kept.move_to_end(size)
    return _kept[size]


class _Steps:
    """Buffers and graph for scans of one size."""

    def __init__(self, size: _Size, biases: int) -> None:
        self.size = size
        self.in_parts = size.exact and size.dtype == torch.float32 and size.device.type == "cuda"
        self.blocks = len(LEFT) if self.in_parts else 1
        short = torch.bfloat16 if self.in_parts else size.dtype
        with torch.device(size.device):
            self.W = torch.empty(self.blocks * size.units, size.units, dtype=short)
            self.x = torch.empty(size.batch, self.blocks * size.units, dtype=short)
            self.z = torch.empty(size.batch, size.units, dtype=torch.float32)
            self.held = torch.empty_like(self.z)
            """The state, if a mask may hold it; in the adjoint, the gradient that passes by held states."""
            self.bias = torch.empty(biases, dtype=torch.float32)
            self.table = torch.empty(5, dtype=torch.int64)
            """Addresses of the drive, the states, the result and the mask; the number of steps."""
            self.done = torch.empty(1, dtype=torch.int64)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        """The graphs, by their number of steps."""
        self.rests: set[int] = set()
        """Remainders of earlier scans."""
        self.bytes = self.W.nbytes + self.x.nbytes + self.z.nbytes + self.held.nbytes
        self.runs = 0

    def run(self, W: Tensor, recurrence: Recurrence, x0: Tensor, drive: Tensor, hs: Tensor, out: Tensor) -> None:
        """Run all steps over `drive`, from `x0`."""
        mask = None if recurrence.mask is None else recurrence.mask.contiguous()
        steps = drive.shape[0]
        with on_device(drive):
            entries = [*(0 if tensor is None else tensor.data_ptr() for tensor in (drive, hs, out, mask)), steps]
            for place, entry in zip(self.table.unbind(), entries, strict=True):
                place.fill_(entry)  # not a copy from the host, which would wait for the device
            if recurrence.bias is not None:
                self.bias.copy_(recurrence.bias)
            self.W.copy_(_parts(W, RIGHT, 0) if self.in_parts else W)
            self._start(x0)
            done = 0
            if drive.is_cuda and not torch.cuda.is_current_stream_capturing():
                done = self._replay(x0, steps)
            self._launch(steps - done)
            self.runs += 1

    def _replay(self, x0: Tensor, steps: int) -> int:
        """Replay graphs and return the number of their steps; capture one for a size or remainder that occurs again."""
        blocks, rest = divmod(steps, BLOCK)
        lengths = [BLOCK] * (blocks if self.runs else 0) + [rest] * (rest in self.rests)
        self.rests.add(rest or BLOCK)
        missing = {*lengths} - {*self.graphs}
        for length in missing:
            self.graphs[length] = graph = torch.cuda.CUDAGraph()
            stream = torch.cuda.Stream(self.size.device)  # a new stream: a shared one may belong to another device
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self._launch(length)
        if missing:
            self._start(x0)
        for length in lengths:
            self.graphs[length].replay()
        return sum(lengths)

    def _start(self, x0: Tensor) -> None:
        self.done.zero_()
        self.x.copy_(_parts(x0, LEFT, 1) if self.in_parts else x0)
        self.held.copy_(x0)

    def _launch(self, steps: int) -> None:
        size = self.size
        width = min(1024, max(16, triton.next_power_of_2(size.units)))
        constants = {"BLOCKS": self.blocks, "WIDTH": width, "TYPE": _TYPES[size.dtype]}
        constants |= {"PHI": size.phi, "MASKED": size.masked, "ADJOINT": size.adjoint}
        buffers = (self.z, self.x, self.held, self.bias)
        for step in range(steps):
            if self.x.dtype == torch.float32:
                torch.mm(self.x, self.W, out=self.z)
            elif self.x.is_cuda:
                torch.mm(self.x, self.W, out_dtype=torch.float32, out=self.z)
            else:
                torch.mm(self.x.float(), self.W.float(), out=self.z)
            _elementwise[size.batch, triton.cdiv(size.units, width)](
                self.table, self.done, step, *buffers, size.batch, size.units, **constants, num_warps=4
            )
        self.done.add_(steps)


def _parts(x: Tensor, which: tuple[int, ...], dim: int) -> Tensor:
    """Return the three bfloat16 parts of float32 numbers, arranged in blocks."""
    parts, rest = [], x
    for _ in range(3):
        parts.append(rest.to(torch.bfloat16))
        rest = torch.nan_to_num(rest - parts[-1].float(), nan=0.0)  # infinite numbers have no remainder
    return torch.cat([parts[one] for one in which], dim)


@triton.jit(do_not_specialize=["step", "batch"])
def _elementwise(
    table,
    done,
    step,
    z,
    x,
    held,
    bias,
    batch,
    units,
    BLOCKS: tl.constexpr,
    WIDTH: tl.constexpr,
    TYPE: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
    ADJOINT: tl.constexpr,
):
    """Apply the nonlinearity, or in the adjoint its gradient, to the product `z` in step `done + step`."""
    step += tl.load(done)
    t = step
    if ADJOINT:
        t = tl.load(table + 4) - 1 - step
    row = tl.program_id(0)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = (columns < units)[None, :]
    here = row * units + columns[None, :]
    place = t * batch * units + here
    b = bias_row(bias, columns, units, PHI)
    drive = tl.load(tl.load(table).to(tl.pointer_type(TYPE)) + place, mask=inside, other=0.0)
    total = tl.load(z + here, mask=inside, other=0.0) + drive.to(tl.float32)
    if ADJOINT:
        h = tl.load(tl.load(table + 1).to(tl.pointer_type(TYPE)) + place, mask=inside, other=0.0)
        if MASKED:
            total += tl.load(held + here, mask=inside, other=0.0)
        new = pull_back(total, h.to(tl.float32), b, PHI)
    else:
        new = nonlinear(total, b, PHI)
    if MASKED:
        goes = tl.load(tl.load(table + 3).to(tl.pointer_type(tl.uint8)) + t * batch + row) != 0
        if ADJOINT:
            tl.store(held + here, tl.where(goes, 0.0, total), mask=inside)
            new = tl.where(goes, new, 0.0)
        else:
            new = tl.where(goes, new, tl.load(held + here, mask=inside, other=0.0))
            tl.store(held + here, new, mask=inside)
    tl.store(tl.load(table + 2).to(tl.pointer_type(TYPE)) + place, new.to(TYPE), mask=inside)
    to = x + row * BLOCKS * units + columns[None, :]
    if BLOCKS == 1:
        tl.store(to, new.to(TYPE), mask=inside)
    else:  # the three parts, as LEFT arranges them
        first, second, third = parts(new)
        tl.store(to, third, mask=inside)
        tl.store(to + units, first, mask=inside)
        tl.store(to + 2 * units, second, mask=inside)
        tl.store(to + 3 * units, second, mask=inside)
        tl.store(to + 4 * units, first, mask=inside)
        tl.store(to + 5 * units, first, mask=inside)
