"""Fast paths of GRU and LSTM: a fused scan, or torch's networks.

Torch's networks are cuDNN on CUDA; on the CPU an LSTM in float32 runs in oneDNN, and a GRU in a C++ loop. On x86 they
run LSTMs in float32, and GRUs whose products are large. On other processors the fused scan is used.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import _VF, Tensor
from torch.backends import cudnn
from torch.nn.functional import linear

from mnemoscope.cells.cell import Cell
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.kernels.devices import exact_products
from mnemoscope.kernels.gated import gru_scan, lstm_scan
from mnemoscope.kernels.gated_plans import no_gated_scan

_Parts = tuple[Tensor, ...]
_Weights = dict[str, Tensor]
_aten = torch.ops.aten
X86 = ("x86_64", "AMD64")
"""Names of the architecture on which torch's networks are used."""
GRU_OPERATIONS = {"train": 5e6, "run": 1.5e6}
"""Operations in the product of a step above which torch's GRU is used, with and without a backward pass.

The rule was chosen by hand on one machine, and no benchmark of the repository repeats it.
"""
LONGEST = 2**15
"""Steps that cuDNN runs at once. On an H200 it refuses 100,000 steps of a GRU and takes 50,000."""
_CUDNN_MODE = {"lstm": 2, "gru": 3}
_CUDNN_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def fused_gated_path(
    cell: Cell,
    kind: Literal["gru", "lstm"],
    xs: Tensor,
    state: _Parts,
    mask: Tensor | None,
    pack: Callable[[Tensor, _Parts], tuple],
) -> FastPath | NoFastPath:
    """Return the fast path of a cell whose weights have torch's names; `pack` turns its results into a state."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    weights = {name: value for name in names if (value := getattr(cell, name, None)) is not None}
    reason = why_unusual(xs, *state, *weights.values())
    if reason is None and ("bias_ih" in weights) != ("bias_hh" in weights):
        reason = "torch's fused networks have both biases or none"
    if reason is not None:
        return NoFastPath(reason)
    not_fused = _why_not_fused(kind, xs, state, mask, weights)
    if not_fused is None:
        run = _lstm if kind == "lstm" else _gru
        return FastPath(f"fused {kind} ({xs.device.type})", lambda: pack(*run(weights, xs, state, mask)))
    reason = _why_not_torch(xs, mask, weights)
    if reason is not None:
        return NoFastPath(f"{reason}, and {not_fused}")
    if xs.device.type == "cpu":
        return FastPath(f"torch's {kind} (cpu)", lambda: pack(*_on_cpu(kind, weights, xs, state)))
    return FastPath(f"cuDNN {kind}", lambda: pack(*_on_cudnn(kind, weights, xs, state)))


def why_unusual(xs: Tensor, *tensors: Tensor) -> str | None:
    """Return the reason why no scan of gates takes these inputs with this state and these weights, or None."""
    if torch.is_autocast_enabled(xs.device.type):
        return "under autocast fused networks return another dtype than the loop"
    if len({(tensor.dtype, tensor.device) for tensor in (xs, *tensors)}) > 1 or xs.dim() != 3:
        return "inputs, state and weights differ in dtype or device, or are of unusual shapes"
    return None


def _why_not_fused(kind: str, xs: Tensor, state: _Parts, mask: Tensor | None, weights: _Weights) -> str | None:
    if torch.compiler.is_compiling() and xs.device.type != "cpu":
        return "the fused scan of gates was not tried under torch.compile on a GPU"
    if "weight_hr" in weights:
        return "the fused scan of gates has no projection"
    if mask is None and not torch.compiler.is_compiling() and _prefers_torch(kind, xs, weights):
        return f"torch's {kind} is used at this size on this processor"
    cudnn = _why_not_torch(xs, mask, weights) is None
    return no_gated_scan(xs.device, xs.dtype, state[0].shape[1], xs.shape[1], cudnn=cudnn)


def _prefers_torch(kind: str, xs: Tensor, weights: _Weights) -> bool:
    """Whether torch's network runs on the CPU instead of the fused scan."""
    if xs.device.type != "cpu" or platform.machine() not in X86:
        return False
    if kind == "lstm":
        onednn = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
        return bool(onednn) and xs.dtype == torch.float32
    train = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (xs, *weights.values()))
    return 2 * xs.shape[1] * weights["weight_hh"].numel() > GRU_OPERATIONS["train" if train else "run"]


def _why_not_torch(xs: Tensor, mask: Tensor | None, weights: _Weights) -> str | None:
    device = xs.device.type
    if device not in ("cpu", "cuda"):
        return f"torch has no fused network for the device {device}"
    if torch.compiler.is_compiling():
        return "torch.compile cannot trace torch's fused networks"
    if mask is not None:
        return "torch's fused networks take no mask"
    if device == "cpu":
        return "torch's fused LSTM has no projection on the CPU" if "weight_hr" in weights else None
    if not cudnn.enabled or not cudnn.is_available():
        return "cuDNN is switched off or missing"
    if min(len(xs), LONGEST) * xs.shape[1] * weights["weight_ih"].shape[0] >= 2**31:
        return "cuDNN counts gates in 32 bits, and this sequence has more; cut it into chunks (checkpoint=...)"
    return None if xs.dtype in _CUDNN_DTYPES else f"cuDNN has no {xs.dtype}"


def _lstm(weights: _Weights, xs: Tensor, state: _Parts, mask: Tensor | None) -> tuple[Tensor, _Parts]:
    bias = weights["bias_ih"] + weights["bias_hh"] if "bias_ih" in weights else None
    h0, c0 = state
    hs, c = lstm_scan(linear(xs, weights["weight_ih"], bias), h0, c0, weights["weight_hh"], mask)
    return hs, (hs[-1].clone(), c)


def _gru(weights: _Weights, xs: Tensor, state: _Parts, mask: Tensor | None) -> tuple[Tensor, _Parts]:
    units = state[0].shape[1]
    if "bias_ih" in weights:  # the reset gate multiplies the last part of the recurrent bias, and no other
        inner = weights["bias_hh"][2 * units :]
        bias = weights["bias_ih"] + torch.cat([weights["bias_hh"][: 2 * units], torch.zeros_like(inner)])
    else:
        inner, bias = state[0].new_zeros(units), None
    hs = gru_scan(linear(xs, weights["weight_ih"], bias), state[0], weights["weight_hh"], inner, mask)
    return hs, (hs[-1].clone(),)


def _on_cpu(kind: str, weights: _Weights, xs: Tensor, state: _Parts) -> tuple[Tensor, _Parts]:
    biased = "bias_ih" in weights
    start = [part.unsqueeze(0) for part in state]
    options = (list(weights.values()), biased, 1, 0.0, torch.is_grad_enabled(), False, False)
    outputs, *last = _VF.lstm(xs, start, *options) if kind == "lstm" else _VF.gru(xs, start[0], *options)
    return outputs, tuple(part[0].clone() for part in last)


def _on_cudnn(kind: str, weights: _Weights, xs: Tensor, state: _Parts) -> tuple[Tensor, _Parts]:
    hidden_size = weights["weight_ih"].shape[0] // (4 if kind == "lstm" else 3)
    sizes = (_CUDNN_MODE[kind], hidden_size, weights["weight_hr"].shape[0] if "weight_hr" in weights else 0)
    last: Any = tuple(part.unsqueeze(0).contiguous() for part in state)
    outputs = []
    for part in xs.split(LONGEST):
        h, c = (*last, None)[:2]
        found: Any = _Cudnn.apply(sizes, part.contiguous(), h, c, *weights.values())
        output, *last = found
        outputs.append(output)
    whole = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return whole, tuple(part[0].clone() for part in last)


class _Cudnn(torch.autograd.Function):
    """`torch._cudnn_rnn` and its backward pass, at the precision of matrix products and so of the loop.

    cuDNN's default would allow TF32, whose error is a thousand times larger. The weights are packed as a copy: packing
    them in place, as torch.nn does, would move parameters that other modules share.
    """

    @staticmethod
    def forward(
        ctx: Any, sizes: tuple[int, int, int], xs: Tensor, h: Tensor, c: Tensor | None, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        copies = [weight.clone(memory_format=torch.contiguous_format) for weight in weights]
        packed = _aten._cudnn_rnn_flatten_weight(copies, len(weights), xs.shape[2], *sizes, 1, False, False)
        train = any(ctx.needs_input_grad)  # otherwise cuDNN keeps nothing for a backward pass
        with _precision_of_products():
            *results, reserve, packed = _aten._cudnn_rnn(
                xs, weights, len(weights), packed, h, c, *sizes, 1, False, 0.0, train, False, [], None
            )
        ctx.sizes = sizes
        ctx.save_for_backward(xs, h, c, results[0], reserve, packed, *weights)
        return tuple(results[: 2 if c is None else 3])

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> tuple:  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("cuDNN's networks have no second derivative; pass backend='loop' to scan.")
        xs, h, c, outputs, reserve, packed, *weights = ctx.saved_tensors
        g, g_h, g_c = gs if len(gs) == 3 else (*gs, None)
        need_x, need_h, need_c, *need_weights = ctx.needs_input_grad[1:]
        with _precision_of_products():
            dx, dh, dc, dweights = _aten._cudnn_rnn_backward(
                *(xs, weights, len(weights), packed, h, c, outputs, g.contiguous(), g_h, g_c, *ctx.sizes),
                *(1, False, 0.0, True, False, [], None, reserve.clone(), (need_x, need_h, need_c, any(need_weights))),
            )
        dweights = dweights if any(need_weights) else [None] * len(weights)
        return None, dx, dh, dc, *dweights  # reserve was copied, since cuDNN writes into it


@contextmanager
def _precision_of_products() -> Generator[None]:
    before = cudnn.rnn.fp32_precision  # type: ignore
    cudnn.rnn.fp32_precision = "ieee" if exact_products() else "tf32"  # type: ignore
    try:
        yield
    finally:
        cudnn.rnn.fp32_precision = before  # type: ignore
