"""Scans of a GRU or LSTM as one operator: on the CPU (`gated_cpu`), and on a GPU by the kernels of `gated_plans`.

The drive `us` holds the weighted inputs of all gates with their biases, in torch's order; `V` are the recurrent weights
(gates, units). The state is held where the mask is False.

On the CPU a backward pass that builds a graph runs a loop (`gated_loops`), so that second derivatives
work, at the cost of the loop. On a GPU it raises an error.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.kernels import gated_cpu
from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.devices import useful_threads
from mnemoscope.kernels.gated_loops import gru_loop, loop_gradients, lstm_loop
from mnemoscope.kernels.gated_plans import gated_plan, no_room


def lstm_scan(
    us: Float[Tensor, "time batch gates"],
    h0: Float[Tensor, "batch units"],
    c0: Float[Tensor, "batch units"],
    V: Float[Tensor, "gates units"],
    mask: Bool[Tensor, "time batch"] | None = None,
) -> tuple[Float[Tensor, "time batch units"], Float[Tensor, "batch units"]]:
    """Return the outputs h of all steps and the last c.

    >>> hs, c = lstm_scan(torch.zeros(5, 2, 12), torch.zeros(2, 3), torch.ones(2, 3), torch.zeros(12, 3))
    >>> c[0, 0].item()  # every gate is 1/2
    0.03125
    """
    hs, last, _, _ = _lstm(us, h0, c0, V, mask, _needs_gradient(us, h0, c0, V))
    return hs, last


def gru_scan(
    us: Float[Tensor, "time batch gates"],
    h0: Float[Tensor, "batch units"],
    V: Float[Tensor, "gates units"],
    bias: Float[Tensor, " units"],
    mask: Bool[Tensor, "time batch"] | None = None,
    activation: str = "tanh",
    threshold: Float[Tensor, " units"] | None = None,
) -> Float[Tensor, "time batch units"]:
    """Return the states of all steps; the `bias` is that of `V h` in the candidate, which the reset gate multiplies.

    The `activation` of the candidate is one of `ACTIVATIONS`; the `threshold` is the bias of modReLU.

    >>> gru_scan(torch.zeros(3, 2, 12), torch.ones(2, 4), torch.zeros(12, 4), torch.zeros(4))[:, 0, 0].tolist()
    [0.5, 0.25, 0.125]
    """
    save = _needs_gradient(us, h0, V, bias, *([] if threshold is None else [threshold]))
    return _gru(us, h0, V, bias, activation, threshold, mask, save)[0]


def _needs_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _on_cpu(x: Tensor) -> bool:
    """Whether a scan of this tensor runs in torch's operations; tests replace it to interpret Triton's kernels."""
    return x.device.type == "cpu"


def _launch(
    kernel: str,
    given: tuple[Tensor, ...],
    mask: Tensor | None,
    out: tuple[Tensor, ...],
    units: int,
    **constants: Any,
) -> None:
    """Launch a kernel, which needs Triton; the first tensor to fill has one row for each step and sequence."""
    from mnemoscope.kernels.triton_gated_launch import launch

    time, batch = out[0].shape[:2]
    plan = gated_plan(out[0].device, units, batch)
    if plan is None:
        raise ValueError(no_room(units, batch))
    if batch:
        launch(kernel, plan, given, mask, out, (time, batch, units), **constants)


def _refuse_second_derivatives(x: Tensor) -> None:
    if not _on_cpu(x):
        raise RuntimeError("The fused scan of gates has no second derivative on a GPU; pass backend='loop' to scan.")


def _matrix_gradient(D: Tensor, h0: Tensor, hs: Tensor) -> Tensor:
    """Return the gradient of V from those of the sums and the states before each step."""
    # backward inside autocast must not round these products
    with torch.autocast(D.device.type, enabled=False), useful_threads(h0, D.shape[-1]):
        dV = D[0].mT @ h0  # separately, to avoid a copy of the states with h0
        later, earlier = D[1:].reshape(-1, D.shape[2]), hs[:-1].reshape(-1, hs.shape[2])  # vmap cannot flatten
        return dV + later.mT @ earlier


# --- LSTM -------------------------------------------------------------------------------------------------------------


@custom_op(
    "mnemoscope::lstm_scan",
    mutates_args=(),
    schema="(Tensor us, Tensor h0, Tensor c0, Tensor V, Tensor? mask, bool save) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _lstm(us: Tensor, h0: Tensor, c0: Tensor, V: Tensor, mask: Tensor | None, save: bool) -> tuple[Tensor, ...]:
    """Return h of all steps, the last c, c of all steps, and the gates if they are to be saved."""
    if _on_cpu(us):
        hs, cs, gates = gated_cpu.lstm_forward(us, h0, c0, V, mask, save)
        return hs, cs[-1].clone(), cs, gates
    us, h0, c0, V = (x.contiguous() for x in (us, h0, c0, V))
    hs, cs = (us.new_empty(len(us), *h0.shape) for _ in range(2))
    gates = us.new_empty(us.shape if save else 0)
    _launch("lstm_forward", (us, h0, c0, V), mask, (hs, cs, gates), h0.shape[1], SAVE=save)
    return hs, cs[-1].clone(), cs, gates


@_lstm.register_fake
def _(us: Tensor, h0: Tensor, c0: Tensor, V: Tensor, mask: Tensor | None, save: bool) -> tuple[Tensor, ...]:
    states = us.new_empty(len(us), *h0.shape)
    return states, us.new_empty(c0.shape), torch.empty_like(states), us.new_empty(us.shape if save else 0)


@custom_op(
    "mnemoscope::lstm_scan_adjoint",
    mutates_args=(),
    schema="(Tensor g, Tensor g_last, Tensor c0, Tensor cs, Tensor gates, Tensor V, Tensor? mask) -> "
    "(Tensor, Tensor, Tensor)",
)
def _lstm_adjoint(
    g: Tensor, g_last: Tensor, c0: Tensor, cs: Tensor, gates: Tensor, V: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the sums, of h0 and of c0."""
    if _on_cpu(g):
        return gated_cpu.lstm_adjoint(g, g_last, c0, cs, gates, V, mask)
    g, V, c0 = g.contiguous(), V.contiguous(), c0.contiguous()
    D, dh0, dc0 = torch.empty_like(gates), torch.zeros_like(c0), g_last.clone(memory_format=torch.contiguous_format)
    _launch("lstm_adjoint", (g, c0, cs, gates, V), mask, (D, dh0, dc0), c0.shape[1])
    return D, dh0, dc0


@_lstm_adjoint.register_fake
def _(
    g: Tensor, g_last: Tensor, c0: Tensor, cs: Tensor, gates: Tensor, V: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    return gates.new_empty(gates.shape), gates.new_empty(c0.shape), gates.new_empty(c0.shape)


def _save_lstm(ctx: Any, inputs: tuple, output: tuple) -> None:
    us, h0, c0, V, mask, _ = inputs
    hs, _, cs, gates = output
    ctx.mark_non_differentiable(cs, gates)
    ctx.save_for_backward(us if _on_cpu(us) else None, h0, c0, V, mask, hs, cs, gates)


def _backward_lstm(ctx: Any, g: Tensor, g_last: Tensor, *_: Tensor) -> tuple:
    us, h0, c0, V, mask, hs, cs, gates = ctx.saved_tensors
    if torch.is_grad_enabled():
        _refuse_second_derivatives(g)
        return *loop_gradients(partial(lstm_loop, mask=mask), [us, h0, c0, V], (g, g_last)), None, None
    D, dh0, dc0 = _lstm_adjoint(g, g_last, c0, cs, gates, V, mask)
    return D, dh0, dc0, _matrix_gradient(D, h0, hs) if ctx.needs_input_grad[3] else None, None, None


_lstm.register_autograd(_backward_lstm, setup_context=_save_lstm)


# --- GRU --------------------------------------------------------------------------------------------------------------


@custom_op(
    "mnemoscope::gru_scan",
    mutates_args=(),
    schema="(Tensor us, Tensor h0, Tensor V, Tensor bias, str activation, Tensor? threshold, Tensor? mask, bool save) "
    "-> (Tensor, Tensor)",
)
def _gru(
    us: Tensor,
    h0: Tensor,
    V: Tensor,
    bias: Tensor,
    activation: str,
    threshold: Tensor | None,
    mask: Tensor | None,
    save: bool,
) -> tuple[Tensor, Tensor]:
    """Return the states, and the gates if they are to be saved."""
    if _on_cpu(us):
        return gated_cpu.gru_forward(us, h0, V, bias, activation, threshold, mask, save)
    us, h0, V, bias = (x.contiguous() for x in (us, h0, V, bias))
    limit = bias if threshold is None else threshold.contiguous()  # the bias takes its place, and is not read
    hs = us.new_empty(len(us), *h0.shape)
    gates = us.new_empty((*hs.shape[:2], 4 * hs.shape[2]) if save else 0)
    _launch("gru_forward", (us, h0, V, bias, limit), mask, (hs, gates), h0.shape[1], SAVE=save, PHI=activation)
    return hs, gates


@_gru.register_fake
def _(
    us: Tensor,
    h0: Tensor,
    V: Tensor,
    bias: Tensor,
    activation: str,
    threshold: Tensor | None,
    mask: Tensor | None,
    save: bool,
) -> tuple[Tensor, Tensor]:
    states = us.new_empty(len(us), *h0.shape)
    return states, us.new_empty((*states.shape[:2], 4 * states.shape[2]) if save else 0)


@custom_op(
    "mnemoscope::gru_scan_adjoint",
    mutates_args=(),
    schema="(Tensor g, Tensor h0, Tensor hs, Tensor gates, Tensor V, str activation, Tensor? threshold, Tensor? mask) "
    "-> (Tensor, Tensor)",
)
def _gru_adjoint(
    g: Tensor,
    h0: Tensor,
    hs: Tensor,
    gates: Tensor,
    V: Tensor,
    activation: str,
    threshold: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `V h + bias` in the candidate and of the sums of r, z and n, and that of h0."""
    if _on_cpu(g):
        return gated_cpu.gru_adjoint(g, h0, hs, gates, V, activation, threshold, mask)
    g, h0, V = g.contiguous(), h0.contiguous(), V.contiguous()
    limit = h0 if threshold is None else threshold.contiguous()  # h0 takes its place, and is not read
    D, dh0 = torch.empty_like(gates), torch.zeros_like(h0)
    _launch("gru_adjoint", (g, h0, hs, gates, V, limit), mask, (D, dh0), h0.shape[1], PHI=activation)
    return D, dh0


@_gru_adjoint.register_fake
def _(
    g: Tensor,
    h0: Tensor,
    hs: Tensor,
    gates: Tensor,
    V: Tensor,
    activation: str,
    threshold: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    return gates.new_empty(gates.shape), gates.new_empty(h0.shape)


def _save_gru(ctx: Any, inputs: tuple, output: tuple) -> None:
    us, h0, V, bias, ctx.activation, threshold, mask, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(us if _on_cpu(us) else None, h0, V, bias, threshold, mask, *output)


def _backward_gru(ctx: Any, g: Tensor, _: Tensor) -> tuple:
    us, h0, V, bias, threshold, mask, hs, gates = ctx.saved_tensors
    if torch.is_grad_enabled():
        _refuse_second_derivatives(g)
        loop = partial(gru_loop, activation=ctx.activation, mask=mask)
        *found, dthreshold = loop_gradients(loop, [us, h0, V, bias, threshold], (g,))
        return *found, None, dthreshold, None, None
    D, dh0 = _gru_adjoint(g, h0, hs, gates, V, ctx.activation, threshold, mask)
    units, dV, dthreshold = h0.shape[1], None, None
    if ctx.needs_input_grad[2]:
        dV = _matrix_gradient(D[..., : 3 * units], h0, hs).roll(-units, 0)  # D has the candidate first, V has it last
    if threshold is not None:
        dthreshold = ACTIVATIONS[ctx.activation].bias_gradient(D[..., 3 * units :], gates[..., 3 * units :])
    return D[..., units:], dh0, dV, D[..., :units].sum((0, 1)), None, dthreshold, None, None


_gru.register_autograd(_backward_gru, setup_context=_save_gru)
