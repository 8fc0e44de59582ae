"""Scans of leaky units as one operator: on the CPU without a graph per step, on a GPU by kernels (`triton_leaky`).

With the rates `r = phi(x)` and `G` the gradient at a state, the two forms of a step and of its gradient are

    current:  x_t = (1 - leak) x_{t-1} + leak (W r_{t-1} + u_t),   D_t = leak G_t,
              G_{t-1} = (1 - leak) G_t + phi'(x_{t-1}) (g_{t-1} + W^T D_t),   g the gradient at the rates;
    rate:     r_t = (1 - leak) r_{t-1} + leak p_t,   p_t = phi(W r_{t-1} + u_t),   D_t = leak phi' G_t,
              G_{t-1} = g_{t-1} + (1 - leak) G_t + W^T D_t.

`D` is the gradient of the drive, and `dW = sum_t D_t r_{t-1}^T`. Where the mask is False the state is held: D is 0, and
G passes by. A backward pass that builds a graph runs a loop, so that second derivatives work.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.torch_state import flushed_denormals
from mnemoscope.kernels.activation import ACTIVATIONS, Activation
from mnemoscope.kernels.devices import no_float32_scan, useful_threads
from mnemoscope.kernels.gated_loops import loop_gradients
from mnemoscope.kernels.grids import Grid
from mnemoscope.kernels.stepping import held_steps


def leaky_scan(
    us: Float[Tensor, "time batch units"],
    state: Float[Tensor, "batch units"],
    W: Float[Tensor, "units units"],
    leak: float,
    activation: str = "tanh",
    rate: bool = False,
    mask: Bool[Tensor, "time batch"] | None = None,
) -> tuple[Float[Tensor, "time batch units"], Float[Tensor, "batch units"]]:
    """Return the rates of all steps and the last state, of units in the current form or in the `rate` form.

    The `activation` is one of `ACTIVATIONS` without a bias.

    >>> rates, last = leaky_scan(torch.zeros(2, 1, 1), torch.ones(1, 1), torch.zeros(1, 1), 0.5, "linear")
    >>> rates.flatten().tolist(), last.item()
    ([0.5, 0.25], 0.25)
    """
    rates, last, _ = _leaky(us, state, W, leak, activation, rate, mask)
    return rates, last


FEW_UNITS = 512
"""Units up to which the programs of a grid have 4 warps."""


def no_leaky_scan(device: torch.device, dtype: torch.dtype, units: int, batch: int, phi: Activation) -> str | None:
    """Return the reason why the scan does not take these arguments, or None if it does."""
    name = "fused scan of leaky units"
    if phi.takes_bias:
        return f"the {name} has no bias, which {phi.name} has"
    reason = no_float32_scan(name, device, dtype)
    if reason is None and device.type != "cpu" and _grid(device, units, batch) is None:
        return f"the {name} has no room for {units} units and {batch} sequences on this GPU"
    return reason


def _grid(device: torch.device, units: int, batch: int) -> Grid | None:
    """Return a grid for which the GPU has room, or None; with 4 warps the numbers of more units leave the registers."""
    grids = (Grid(16, 4 if units <= FEW_UNITS else 8), Grid(8, 8))
    return next((grid for grid in grids if grid.fits(device, batch, units, grid.share)), None)


def _on_cpu(x: Tensor) -> bool:
    """Whether a scan of this tensor runs in torch's operations; tests replace it to interpret Triton's kernels."""
    return x.device.type == "cpu"


def _launch(
    kernel: str,
    given: tuple[Tensor, ...],
    mask: Tensor | None,
    out: tuple[Tensor, ...],
    leak: float,
    activation: str,
    rate: bool,
) -> None:
    """Launch a kernel for the sequences of the first tensor (time, batch, units)."""
    from mnemoscope.kernels import triton_leaky
    from mnemoscope.kernels.triton_grid import launch_scan

    time, batch, units = given[0].shape
    grid = _grid(given[0].device, units, batch)
    if grid is None:
        raise ValueError(f"The GPU has no room for {units} leaky units and {batch} sequences.")
    constants = {"PHI": activation, "RATE": rate}
    launch_scan(triton_leaky, kernel, grid, given, mask, out, (time, batch, units), constants, more=(leak,))


@custom_op(
    "mnemoscope::leaky_scan",
    mutates_args=(),
    schema="(Tensor us, Tensor state, Tensor W, float leak, str activation, bool rate, Tensor? mask) "
    "-> (Tensor, Tensor, Tensor)",
)
def _leaky(
    us: Tensor, state: Tensor, W: Tensor, leak: float, activation: str, rate: bool, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rates of all steps, the last state, and p of all steps in the rate form (otherwise no numbers)."""
    if not _on_cpu(us):
        us, W, phi = us.contiguous(), W.contiguous(), ACTIVATIONS[activation]
        last = state.clone(memory_format=torch.contiguous_format)
        first = (state if rate else phi(state)).contiguous()  # no program writes into it, as into `last`
        rates, inner = torch.empty_like(us), torch.empty_like(us) if rate else us.new_empty(0)
        _launch("leaky_forward", (us, first, W), mask, (rates, inner, last), leak, activation, rate)
        return rates, last, inner
    with useful_threads(state), flushed_denormals():
        forward = _rate_forward if rate else _current_forward
        return forward(us, state, W, leak, ACTIVATIONS[activation], mask)


def _current_forward(
    us: Tensor, state: Tensor, W: Tensor, leak: float, phi: Activation, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    rates, W_T = torch.mul(us, leak).contiguous(), W.mT * leak
    x, apply = state.clone(memory_format=torch.contiguous_format), phi.in_place(state)
    r = apply(x.clone())
    for row, keep in zip(rates.unbind(), held_steps(mask, len(us)), strict=True):
        row.addmm_(r, W_T).add_(x, alpha=1 - leak)
        if keep is not None:
            torch.where(keep, x, row, out=row)
        x.copy_(row)
        apply(row)
        r = row
    return rates, x, us.new_empty(0)


def _rate_forward(
    us: Tensor, state: Tensor, W: Tensor, leak: float, phi: Activation, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    inner, W_T = us.clone(memory_format=torch.contiguous_format), W.mT.contiguous()
    rates, r, apply = torch.empty_like(inner), state, phi.in_place(state)
    for p, new, keep in zip(inner.unbind(), rates.unbind(), held_steps(mask, len(us)), strict=True):
        apply(p.addmm_(r, W_T))
        torch.lerp(r, p, leak, out=new)
        if keep is not None:
            torch.where(keep, r, new, out=new)
        r = new
    return rates, r.clone(memory_format=torch.contiguous_format), inner


@_leaky.register_fake
def _(
    us: Tensor, state: Tensor, W: Tensor, leak: float, activation: str, rate: bool, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    return us.new_empty(us.shape), us.new_empty(state.shape), us.new_empty(us.shape if rate else 0)


@custom_op(
    "mnemoscope::leaky_scan_adjoint",
    mutates_args=(),
    schema="(Tensor g, Tensor g_last, Tensor state, Tensor rates, Tensor inner, Tensor W, float leak, "
    "str activation, bool rate, Tensor? mask) -> (Tensor, Tensor)",
)
def _adjoint(
    g: Tensor,
    g_last: Tensor,
    state: Tensor,
    rates: Tensor,
    inner: Tensor,
    W: Tensor,
    leak: float,
    activation: str,
    rate: bool,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the drive and of the first state."""
    phi = ACTIVATIONS[activation]
    if not _on_cpu(g):
        D, carried = torch.empty_like(rates), g_last.clone(memory_format=torch.contiguous_format)
        given = (g.contiguous(), phi(state).contiguous(), inner if rate else rates, W.contiguous())
        _launch("leaky_adjoint", given, mask, (D, carried), leak, activation, rate)
        return D, carried
    with useful_threads(state), flushed_denormals():
        outputs = inner if rate else torch.cat([phi(state).unsqueeze(0), rates])
        adjoint = partial(_rate_adjoint if rate else _current_adjoint, g, g_last, W=W, leak=leak, mask=mask)
        D, dstate = adjoint(_slopes(phi, outputs))
        if phi.stops and not (D.sum().isfinite() and dstate.sum().isfinite()):
            D, dstate = adjoint(_slopes(phi, outputs), blocks=True)
    return D, dstate.contiguous()


@_adjoint.register_fake
def _(
    g: Tensor,
    g_last: Tensor,
    state: Tensor,
    rates: Tensor,
    inner: Tensor,
    W: Tensor,
    leak: float,
    activation: str,
    rate: bool,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    return rates.new_empty(rates.shape), rates.new_empty(state.shape)


def _slopes(phi: Activation, outputs: Tensor) -> Tensor:
    """Return phi' from the outputs of phi, as a new tensor."""
    factors = phi.gates(outputs)
    return factors[0].clone() if factors else torch.ones_like(outputs)


def _passed(G: Tensor, slope: Tensor, blocks: bool) -> Tensor:
    """Return the gradient behind phi."""
    return torch.where(slope == 0, 0, G * slope) if blocks else G * slope


def _current_adjoint(
    g: Tensor, g_last: Tensor, slopes: Tensor, W: Tensor, leak: float, mask: Tensor | None, blocks: bool = False
) -> tuple[Tensor, Tensor]:
    """Take the slopes at the first state and at all others (time + 1, ...).

    With `blocks`, a slope of 0 stops also an infinite gradient, as in the loop; it takes longer.
    """
    D, W = torch.empty_like(slopes[1:]), W.contiguous()
    into, time = torch.cat([torch.zeros_like(g[:1]), g]), len(g)
    G = g_last + _passed(g[-1], slopes[-1], blocks)
    each = (D.unbind(), into[:-1].unbind(), slopes[:-1].unbind(), held_steps(mask, time))
    for row, g_t, slope, keep in zip(*(rows[::-1] for rows in each), strict=True):
        torch.mul(G, leak, out=row)
        if keep is not None:
            row.masked_fill_(keep, 0)
        if blocks:
            kept = (1 - leak) * G if keep is None else torch.where(keep, G, (1 - leak) * G)
            G = kept + _passed(torch.addmm(g_t, row, W), slope, blocks)
        else:
            G.sub_(row)  # (1 - leak) G, or G where the state is held
            G.addcmul_(torch.addmm(g_t, row, W), slope)
    return D, G


def _rate_adjoint(
    g: Tensor, g_last: Tensor, slopes: Tensor, W: Tensor, leak: float, mask: Tensor | None, blocks: bool = False
) -> tuple[Tensor, Tensor]:
    """Take the slopes at all steps; `blocks` as above."""
    D, W, held = torch.empty_like(slopes), W.contiguous(), held_steps(mask, len(g))
    factors = slopes.mul_(leak)
    if mask is not None:
        factors.masked_fill_(~mask.unsqueeze(-1), 0)
    G, spare = torch.add(g_last, g[-1]), torch.empty_like(slopes[0])
    into = torch.cat([torch.zeros_like(g[:1]), g[:-1]])
    each = (D.unbind(), into.unbind(), factors.unbind(), held)
    for row, g_t, factor, keep in zip(*(rows[::-1] for rows in each), strict=True):
        torch.mul(G, factor, out=row)
        if blocks:
            row.masked_fill_(factor == 0, 0)
        torch.add(g_t, G, alpha=1 - leak, out=spare).addmm_(row, W)
        if keep is not None:
            spare.addcmul_(G, keep, value=leak)
        G, spare = spare, G
    return D, G


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    us, state, W, ctx.leak, ctx.activation, ctx.rate, mask = inputs
    rates, _, inner = output
    ctx.mark_non_differentiable(inner)
    ctx.save_for_backward(us, state, W, mask, rates, inner)


def _backward(ctx: Any, g: Tensor, g_last: Tensor, _: Tensor) -> tuple:
    us, state, W, mask, rates, inner = ctx.saved_tensors
    options = {"leak": ctx.leak, "activation": ctx.activation, "rate": ctx.rate, "mask": mask}
    if torch.is_grad_enabled():
        return *loop_gradients(partial(leaky_loop, **options), [us, state, W], (g, g_last)), None, None, None, None
    D, dstate = _adjoint(g, g_last, state, rates, inner, W, **options)
    dW = None
    if ctx.needs_input_grad[2]:
        first = state if ctx.rate else ACTIVATIONS[ctx.activation](state)
        # backward inside autocast must not round these products
        with torch.autocast(D.device.type, enabled=False), useful_threads(state):
            later, earlier = (part.reshape(-1, D.shape[2]) for part in (D[1:], rates[:-1]))  # vmap cannot flatten
            dW = D[0].mT @ first + later.mT @ earlier
    return D, dstate, dW, None, None, None, None


_leaky.register_autograd(_backward, setup_context=_save)


def leaky_loop(
    us: Tensor, state: Tensor, W: Tensor, leak: float, activation: str, rate: bool, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute what `leaky_scan` does, with a graph for autograd."""
    phi, rates = ACTIVATIONS[activation], []
    for t, u in enumerate(us.unbind()):
        target = phi(state @ W.mT + u) if rate else phi(state) @ W.mT + u
        new = (1 - leak) * state + leak * target
        state = new if mask is None else torch.where(mask[t].unsqueeze(-1), new, state)
        rates.append(state if rate else phi(state))
    return torch.stack(rates), state
