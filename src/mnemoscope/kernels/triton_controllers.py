"""Steps of the controllers of a tape on a GPU (see `tape_controllers`), for small batches and matrices.

Libraries divide a product of 16 rows among few processors: with 400 terms in each sum it takes 50 microseconds on an
H200. Here, every program computes 16 columns of one row, and the nonlinearity of a layer, or its slope, is part of the
product.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.tape_controllers import GatedGradient, GatedSteps, LayerGradient, LayerSteps
from mnemoscope.kernels.tape_types import Start
from mnemoscope.kernels.triton_parts import nonlinear

LARGEST = 2**24
"""Smallest number of multiplications at which a library is faster."""
_BLOCK = 512
"""Largest number of terms that a program adds at a time."""
_COLUMNS = 16


def product(x: Tensor, weights: Tensor, out: Tensor, *addends: Tensor, tanh: bool = False) -> Tensor:
    """Write `x weights` plus at most two addends to `out`, or its tanh; an addend may be `out`, or a single row."""
    if len(x) * weights.numel() <= LARGEST:
        return _launch_product(x, weights, out, addends, None, None, tanh)
    total = x @ weights
    for addend in addends:
        total += addend
    return out.copy_(total.tanh_() if tanh else total)


def pulled_product(g: Tensor, h: Tensor, into: Tensor, weights: Tensor) -> Tensor:
    """Write the gradient before a tanh with the value h, `g (1 - h^2)`, to `into`; return its product with weights."""
    if len(g) * weights.numel() <= LARGEST:
        return _launch_product(g, weights, torch.empty_like(g), (), h, into, False)
    return into.copy_(g * (1 - h * h)) @ weights


class LayerStepsOnGPU(LayerSteps):
    """Layers of tanh within one step."""

    def step(self, t: int, reads: Tensor, reader: Tensor) -> Tensor:
        made = self.made[t]
        product(reads, reader, made, made)
        h = self.before
        for number, layer in enumerate(self.layers):
            z = layer[t]
            h = z.tanh_() if self.recurrent is None else product(h, self.recurrent[number], z, z, tanh=True)
        self.before = h
        return h


class GatedStepsOnGPU(GatedSteps):
    """Steps of an LSTM."""

    def step(self, t: int, reads: Tensor, reader: Tensor) -> Tensor:
        z, h, c = self.made[t], self.hs[t], self.lstm.cs[t]
        product(reads, reader, z, z)
        product(self.before, self.recurrent, z, z)
        batch, size = h.shape
        with on_device(z):
            _lstm_step[(batch,)](z, self.lstm.c, c, h, size, COLUMNS=triton.next_power_of_2(size))
        self.before, self.lstm.c = h, c
        return h


class LayerGradientOnGPU(LayerGradient):
    """Gradients of layers of tanh."""

    def pull(self, t: int, g: Tensor) -> Tensor:
        if self.weights is None:
            return super().pull(t, g)
        into, layers = self.into_layers[t], self.layers[t]
        for number in reversed(range(into.shape[1])):
            g = pulled_product(g, layers[:, number], into[:, number], self.weights[number])
        return g


class GatedGradientOnGPU(GatedGradient):
    """Gradients of an LSTM."""

    def __init__(
        self, made: Tensor, hs: Tensor, cs: Tensor, h0: Tensor, c0: Tensor, recurrent: Tensor, grad_c: Tensor | None
    ) -> None:
        self.made, self.hs, self.cs, self.h0, self.c0 = made, hs, cs, h0, c0.contiguous()
        self.weights, self.into = recurrent[0].contiguous(), torch.empty_like(made)
        start = torch.zeros_like(self.c0) if grad_c is None else grad_c
        self._carried = start.clone(memory_format=torch.contiguous_format)

    @property
    def carried(self) -> Tensor:
        return self._carried

    def pull(self, t: int, g: Tensor) -> Tensor:
        before = self.cs[t - 1] if t else self.c0
        batch, size = g.shape
        tensors = (g, self.made[t], self.cs[t], before, self.carried, self.into[t])
        with on_device(g):
            _lstm_pull[(batch,)](*tensors, size, COLUMNS=triton.next_power_of_2(size))
        return product(self.into[t], self.weights, torch.empty_like(g))


def build_steps(us: Tensor, start: Start, recurrent: Tensor | None) -> LayerSteps | GatedSteps:
    """Return the steps of a controller: an LSTM if there is a c."""
    if start.c is None:
        return LayerStepsOnGPU(us, start.h.contiguous(), recurrent)
    assert recurrent is not None
    return GatedStepsOnGPU(us, start.h.contiguous(), start.c.contiguous(), recurrent)


def build_gradient(
    made: Tensor,
    hs: Tensor,
    cs: Tensor | None,
    h0: Tensor,
    c0: Tensor | None,
    recurrent: Tensor | None,
    grad_c: Tensor | None,
) -> LayerGradient | GatedGradient:
    """Return the gradients of a controller's steps."""
    if cs is None or c0 is None:
        return LayerGradientOnGPU(made, h0, None if recurrent is None else recurrent.contiguous())
    assert recurrent is not None
    return GatedGradientOnGPU(made, hs, cs, h0, c0, recurrent, grad_c)


def _launch_product(
    x: Tensor,
    weights: Tensor,
    out: Tensor,
    addends: tuple[Tensor, ...],
    h: Tensor | None,
    into: Tensor | None,
    tanh: bool,
) -> Tensor:
    """Run the kernel; `x` also stands for tensors that are not given."""
    inner, outer = weights.shape
    rows = (*addends, x, x)[:2]
    pulled = (x if h is None else h, x if into is None else into)
    tensors: tuple[Any, ...] = (x, weights, out, *rows, *pulled)
    strides = [0 if part.dim() == 1 else part.stride(0) for part in (x, out, *rows, *pulled)]
    block = min(_BLOCK, triton.next_power_of_2(inner))
    with on_device(x):
        _product[(len(x), triton.cdiv(outer, _COLUMNS))](
            *tensors,
            *strides,
            inner,
            outer,
            ADDENDS=len(addends),
            PULLED=h is not None,
            TANH=tanh,
            BLOCK=block,
            COLUMNS=_COLUMNS,
            num_warps=4,
        )
    return out


@triton.jit
def _product(
    x,
    W,
    out,
    first,
    second,
    h,
    into,
    x_row,
    out_row,
    first_row,
    second_row,
    h_row,
    into_row,
    inner,
    outer,
    ADDENDS: tl.constexpr,
    PULLED: tl.constexpr,
    TANH: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    for begin in range(0, inner, BLOCK):
        terms = begin + tl.arange(0, BLOCK)
        factors = tl.load(x + b * x_row + terms, mask=terms < inner, other=0.0)
        if PULLED:
            value = tl.load(h + b * h_row + terms, mask=terms < inner, other=0.0)
            factors = factors * (1 - value * value)
            if tl.program_id(1) == 0:
                tl.store(into + b * into_row + terms, factors, mask=terms < inner)
        inside = (terms < inner)[:, None] & (columns < outer)[None, :]
        matrix = tl.load(W + terms[:, None] * outer + columns[None, :], mask=inside, other=0.0)
        total += tl.sum(factors[:, None] * matrix, 0)
    if ADDENDS > 0:
        total += tl.load(first + b * first_row + columns, mask=columns < outer, other=0.0)
    if ADDENDS > 1:
        total += tl.load(second + b * second_row + columns, mask=columns < outer, other=0.0)
    if TANH:
        total = nonlinear(total, 0.0, "tanh")
    tl.store(out + b * out_row + columns, total, mask=columns < outer)


@triton.jit
def _lstm_step(z, before, cs, hs, size, COLUMNS: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    inside = columns < size
    at = z + b * 4 * size + columns
    i = nonlinear(tl.load(at, mask=inside, other=0.0), 0.0, "logistic")
    f = nonlinear(tl.load(at + size, mask=inside, other=0.0), 0.0, "logistic")
    g = nonlinear(tl.load(at + 2 * size, mask=inside, other=0.0), 0.0, "tanh")
    o = nonlinear(tl.load(at + 3 * size, mask=inside, other=0.0), 0.0, "logistic")
    c = f * tl.load(before + b * size + columns, mask=inside, other=0.0) + i * g
    tl.store(at, i, mask=inside)
    tl.store(at + size, f, mask=inside)
    tl.store(at + 2 * size, g, mask=inside)
    tl.store(at + 3 * size, o, mask=inside)
    tl.store(cs + b * size + columns, c, mask=inside)
    tl.store(hs + b * size + columns, o * nonlinear(c, 0.0, "tanh"), mask=inside)


@triton.jit
def _lstm_pull(into_h, gates, cs, before, carried, into, size, COLUMNS: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    inside = columns < size
    at = gates + b * 4 * size + columns
    here = b * size + columns
    i = tl.load(at, mask=inside, other=0.0)
    f = tl.load(at + size, mask=inside, other=0.0)
    g = tl.load(at + 2 * size, mask=inside, other=0.0)
    o = tl.load(at + 3 * size, mask=inside, other=0.0)
    dh = tl.load(into_h + here, mask=inside, other=0.0)
    seen = nonlinear(tl.load(cs + here, mask=inside, other=0.0), 0.0, "tanh")
    dc = tl.load(carried + here, mask=inside, other=0.0) + dh * o * (1 - seen * seen)
    to = into + b * 4 * size + columns
    tl.store(to, dc * g * i * (1 - i), mask=inside)
    tl.store(to + size, dc * tl.load(before + here, mask=inside, other=0.0) * f * (1 - f), mask=inside)
    tl.store(to + 2 * size, dc * i * (1 - g * g), mask=inside)
    tl.store(to + 3 * size, dh * seen * o * (1 - o), mask=inside)
    tl.store(carried + here, dc * f, mask=inside)
