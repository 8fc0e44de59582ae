"""Scans of every family of fused kernels, at sizes that the library takes, for `kernel_limits.py`.

A case calls the library with tensors that have shapes but no numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from mnemoscope.kernels import (
    affine_gradients,
    gated,
    gated_plans,
    leaky,
    slstm,
    triton_affine,
    triton_affine_backward,
    triton_elementwise,
    triton_full_attention,
    triton_linear,
    triton_screened,
    triton_sparse_attention,
    triton_tape,
)
from mnemoscope.kernels.attention_scans import MOST_UNITS, Weights
from mnemoscope.kernels.full_attention_types import FullAttention
from mnemoscope.kernels.history import HistoryStart
from mnemoscope.kernels.screened_types import Screening, Start
from mnemoscope.kernels.sparse_attention_types import SparseAttention
from mnemoscope.kernels.tape import MOST_SLOTS
from mnemoscope.kernels.tape_types import Start as TapeStart, TapeOptions, Weights as TapeWeights

TIME = 100
"""Steps of a sequence: no kernel depends on them."""


@dataclass(frozen=True)
class Case:
    """A scan of one size."""

    family: str
    name: str
    units: int
    batch: int
    dtype: torch.dtype
    run: Callable[[], None]
    """Calls the library with tensors that have no numbers."""


class OnGPU(torch.Tensor):
    """A tensor without numbers that says it is on a GPU."""

    is_cuda = property(lambda self: True)  # type: ignore


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a tensor that only has a shape and a dtype."""
    return torch.empty(shape, dtype=dtype, device="meta").as_subclass(OnGPU)


def elementwise(units: int, batch: int, dtype: torch.dtype, phi: str) -> None:
    """Run an Elman scan and its adjoint."""
    us, h0, V = (
        tensor(TIME, batch, units, dtype=dtype),
        tensor(batch, units, dtype=dtype),
        tensor(units, units, dtype=dtype),
    )
    bias = tensor(units, dtype=torch.float32 if dtype.is_complex else dtype) if phi == "modrelu" else None
    hs = triton_elementwise.forward(us, h0, V, phi, bias, None)
    triton_elementwise.adjoint(hs, hs, V, phi, bias, None)


def gates(scan: Callable[[int, int], None], units: int, batch: int) -> None:
    """Run a scan of gates and its adjoint, if the GPU has room for them."""
    plan = gated_plans.gated_plan(torch.device("cuda"), units, batch)
    if plan is not None:
        with patch.object(gated, "gated_plan", lambda *_: plan):
            scan(units, batch)


def gru(units: int, batch: int) -> None:
    """Run a scan of GRU and its adjoint."""
    h, V = tensor(batch, units), tensor(3 * units, units)
    hs, gates = gated._gru._init_fn(tensor(TIME, batch, 3 * units), h, V, tensor(units), "tanh", None, None, True)
    gated._gru_adjoint._init_fn(hs, h, hs, gates, V, "tanh", None, None)


def lstm(units: int, batch: int) -> None:
    """Run a scan of LSTM and its adjoint."""
    h, V = tensor(batch, units), tensor(4 * units, units)
    hs, last, cs, gates = gated._lstm._init_fn(tensor(TIME, batch, 4 * units), h, h, V, None, True)
    gated._lstm_adjoint._init_fn(hs, last, h, cs, gates, V, None)


def leaky_units(units: int, batch: int, rate: bool) -> None:
    """Run a scan of leaky units and its adjoint, if the GPU has room for them."""
    grid = leaky._grid(torch.device("cuda"), units, batch)
    if grid is not None:
        us, state, W = tensor(TIME, batch, units), tensor(batch, units), tensor(units, units)
        with patch.object(leaky, "_grid", lambda *_: grid):
            leaky._launch("leaky_forward", (us, state, W), None, (us, us, state), 0.3, "tanh", rate)
            leaky._launch("leaky_adjoint", (us, state, us, W), None, (us, state), 0.3, "tanh", rate)


def slstm_scan(units: int, batch: int) -> None:
    """Run a scan of the sLSTM and its adjoint, if the GPU has room for them."""
    grid = gated_plans.gated_grid(torch.device("cuda"), units, batch)
    if grid is not None:
        us, s, V = tensor(TIME, batch, 4 * units), tensor(batch, units), tensor(4 * units, units)
        hs = tensor(TIME, batch, units)
        with patch.object(slstm, "gated_grid", lambda *_: grid):
            slstm._launch("slstm_forward", (us, s, s, s, V), None, (hs, hs, hs, us, hs, s), units, EXPONENTIAL=False)
            slstm._launch("slstm_adjoint", (hs, s, s, hs, hs, us, hs, V), None, (us, s, s, s, s), units)


def affine(keys: int, batch: int, dtype: torch.dtype, rates: int, erases: bool, values: int | None = None) -> None:
    """Run an affine scan and its backward pass."""
    values = values or keys
    features = (keys, keys, values, rates, keys, keys)
    parts = [tensor(TIME, batch, size, dtype=dtype) for size in features]
    given = triton_affine.Sequences(*parts[:4], *(parts[4:] if erases else (None, None)))
    state, how = tensor(batch, keys, values), triton_affine.plan(given, 1, None)
    outputs, final, trace = triton_affine.forward(given, state, how)
    triton_affine_backward.backward(given, trace, outputs, final, how)


def attention(module: Any, options: Any, rows: int, units: int, batch: int) -> None:
    """Run a scan of an LSTM with additive attention, which starts with so many rows, and its backward pass."""
    us, s, square = tensor(TIME, batch, 4 * units), tensor(batch, units), tensor(units, units)
    given = Weights(tensor(4 * units, units), None, square, square, tensor(units))
    screened, past = module is triton_screened, tensor(batch, rows, 2 * units)
    start = Start(s, s, past, tensor(batch, rows)) if screened else HistoryStart(s, s, past)
    trace = module.forward(us, start, given, options)
    into_rows = tensor(*(trace.last if screened else trace.rows).shape)
    module.backward((trace.outputs, s, s, into_rows), start, given, options, trace)


def tape(slots: int, batch: int, controller: str) -> None:
    """Run the steps of a Turing machine with slots of 20 numbers and a controller of 100 units, and their gradients."""
    units, numbers, options = 100, 20, TapeOptions(1, 1, 1, 0.0, 10.0)
    width, heads = (4 if controller == "lstm" else 1) * units, 4 * numbers + 12
    h, places, reads = tensor(batch, units), tensor(batch, 1, slots), tensor(batch, 1, numbers)
    start = TapeStart(h, h if controller == "lstm" else None, tensor(batch, numbers, slots), places, places, reads)
    recurrent = tensor(1, width, units)
    given = TapeWeights(recurrent, tensor(width, numbers), tensor(heads, units), tensor(heads))
    trace = triton_tape.forward(tensor(1, batch, width), start, given, options)
    grads = (trace.hs, trace.reads[1:], h, start.c, trace.memory[-1], places, places)
    triton_tape.backward(grads, h, start.c, given, trace, options)


def diagonal(units: int, batch: int, dtype: torch.dtype, constant: bool) -> None:
    """Run a diagonal scan and its backward pass."""
    us, h = tensor(1000, batch, units, dtype=dtype), tensor(batch, units, dtype=dtype)
    a = tensor(units, dtype=dtype) if constant else us
    triton_linear.diagonal_backward(a, h, triton_linear.diagonal(a, us, h), us)


Cases = Callable[[list[int], list[int]], list[Case]]
FAMILIES: dict[str, Cases] = {}
"""Functions that return the cases of a family, from units and batches."""


def family(name: str) -> Callable[[Cases], Cases]:
    """Register the cases of a family."""

    def register(make: Cases) -> Cases:
        FAMILIES[name] = make
        return make

    return register


@family("elman")
def elman_cases(units: list[int], batches: list[int]) -> list[Case]:
    """Return scans of Elman networks; those of other numbers than float32 at one batch."""
    kinds = [("tanh", torch.float32), ("tanh", torch.bfloat16), ("modrelu", torch.complex64)]
    return [
        Case("elman", f"Elman, {phi}", N, B, dtype, partial(elementwise, N, B, dtype, phi))
        for phi, dtype in kinds
        for N in units
        for B in (batches if dtype == torch.float32 else batches[1:2] or batches)
    ]


@family("gated")
def gated_cases(units: list[int], batches: list[int]) -> list[Case]:
    """Return scans of GRU and LSTM."""
    return [
        Case("gated", name, N, B, torch.float32, partial(gates, run, N, B))
        for name, run in (("GRU", gru), ("LSTM", lstm))
        for N in units
        for B in batches
    ]


@family("leaky")
def leaky_cases(units: list[int], batches: list[int]) -> list[Case]:
    """Return scans of leaky units."""
    return [
        Case(
            "leaky",
            f"leaky, {'rate' if rate else 'current'} form",
            N,
            B,
            torch.float32,
            partial(leaky_units, N, B, rate),
        )
        for rate in (False, True)
        for N in units
        for B in batches
    ]


@family("slstm")
def slstm_cases(units: list[int], batches: list[int]) -> list[Case]:
    """Return scans of the sLSTM."""
    return [Case("slstm", "sLSTM", N, B, torch.float32, partial(slstm_scan, N, B)) for N in units for B in batches]


@family("affine")
def affine_cases(units: list[int], batches: list[int]) -> list[Case]:
    """Return affine scans, by keys per head; values are as many."""
    kinds = [("GLA", None, False), ("Gated DeltaNet", 1, True), ("RWKV-7, KDA", None, True)]
    return [
        Case("affine", name, N, batches[0], dtype, partial(affine, N, batches[0], dtype, rates or N, erases))
        for name, rates, erases in kinds
        for dtype in (torch.float32, torch.bfloat16)
        for N in units
        if _takes(affine_gradients.no_triton_affine_scan, dtype, N)
    ]


@family("attention")
def attention_cases(units: list[int], batches: list[int]) -> list[Case]:
    """Return scans of LSTM cells with additive attention to the past."""
    screened = partial(attention, triton_screened)
    sparse = partial(attention, triton_sparse_attention)
    kinds = {
        "MemLSTM, full attention": partial(attention, triton_full_attention, FullAttention("lstm", 1.0), 1),
        "SAB, 100 rows": partial(sparse, SparseAttention("lstm", 1.0, 1, 5, None, 0), 0),
        "SAB, 8,192 rows": partial(sparse, SparseAttention("lstm", 1.0, 1, 31, None, 0), 8192 - TIME),
        "RelLSTM, 15 slots": partial(screened, Screening("lstm", 10, 5, False, 1.0), 15),
        "RelLSTM, 64 slots": partial(screened, Screening("lstm", 32, 32, False, 1.0), 64),
    }
    return [
        Case("attention", name, N, batches[0], torch.float32, partial(run, N, batches[0]))
        for name, run in kinds.items()
        for N in units
        if N <= MOST_UNITS
    ]


@family("tape")
def tape_cases(units: list[int], batches: list[int]) -> list[Case]:
    """Return Turing machines with an LSTM, by their slots."""
    return [
        Case("tape", "NTM", N, batches[0], torch.float32, partial(tape, N, batches[0], "lstm"))
        for N in units
        if N <= MOST_SLOTS
    ]


@family("diagonal")
def diagonal_cases(units: list[int], batches: list[int]) -> list[Case]:
    """Return diagonal linear recurrences with a factor for each time, whose kernels do not depend on the units."""
    return [
        Case("diagonal", "diagonal", N, batches[0], dtype, partial(diagonal, N, batches[0], dtype, False))
        for dtype in (torch.float32, torch.complex64)
        for N in units[-1:]
    ]


def _takes(rule: Callable[..., str | None], *given: Any) -> bool:
    """Whether a rule takes a size on a GPU."""
    module = rule.__module__
    with patch(f"{module}.no_triton", lambda *_: None):
        return rule(torch.device("cuda"), *given) is None
