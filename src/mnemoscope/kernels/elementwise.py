"""Elementwise recurrences `h_t = phi(V h_{t-1} + u_t)` as one operator: no graph per step.

Forward: one product and one `phi` per step, into a preallocated buffer. Backward, with `G_t` the gradient at `h_t` and
`D_t` that at `z_t = V h_{t-1} + u_t`:

    D_t = pull_back(G_t, h_t),   G_{t-1} = g_{t-1} + V^H D_t,   dV = sum_t D_t h_{t-1}^H,   du_t = D_t,   dh_0 = V^H D_1

so the loop has two calls per step and the gradient of V is one large product after it. Where the mask is False the
state is held, `h_t = h_{t-1}`, and the gradient passes by. Second derivatives come from a differentiable loop over the
same formulas, at the loop's cost.

Operators instead of an `autograd.Function`: `torch.compile` then takes the scan as one node instead of unrolling it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from mnemoscope.base.array_types import Bool, Float, Inexact
from mnemoscope.base.torch_state import flushed_denormals
from mnemoscope.kernels import complex_modrelu, small_scan
from mnemoscope.kernels.activation import ACTIVATIONS, Activation
from mnemoscope.kernels.devices import exact_products, no_triton, useful_threads
from mnemoscope.kernels.stepping import held_steps, pieces


def elementwise_scan(
    us: Inexact[Tensor, "time batch units"],
    h0: Inexact[Tensor, "batch units"],
    V: Inexact[Tensor, "units units"],
    activation: str,
    bias: Float[Tensor, " units"] | None = None,
    mask: Bool[Tensor, "time batch"] | None = None,
) -> Inexact[Tensor, "time batch units"]:
    """Return the states `h_t = phi(V h_{t-1} + u_t)`, t = 1..time; all tensors have the same dtype, real or complex.

    The `activation` is the name of `phi`, one of `ACTIVATIONS`. The `bias` is that of modReLU, and real. The state is
    held where the `mask` is False.

    >>> hs = elementwise_scan(torch.zeros(20, 5, 3), torch.ones(5, 3), 0.5 * torch.eye(3), "linear")
    >>> hs[:3, 0, 0].tolist()
    [0.5, 0.25, 0.125]
    """
    _check(us, h0, V, activation, bias)
    return _scan(us, h0, V, activation, bias, mask)


def no_elementwise_scan(device: torch.device, dtype: torch.dtype, activation: str) -> str | None:
    """Return the reason why there is no fused scan for these arguments, or None if there is one."""
    if activation not in ACTIVATIONS:
        return f"{activation!r} has no description in mnemoscope.kernels.ACTIVATIONS"
    if dtype.is_complex and not ACTIVATIONS[activation].takes_complex:
        return f"{activation} is not defined for complex numbers"
    if device.type == "cpu":
        return None
    reason = no_triton("fused scan", device)
    if reason is None and dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.complex64):
        return f"the fused scan on a GPU computes in float32, bfloat16, float16 or complex64, not in {dtype}"
    if reason is None and dtype.is_complex and activation not in ("modrelu", "linear"):
        return f"a complex {activation} has no fused scan on a GPU"
    return reason


def elementwise_limit(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> str:
    """Return how the GPU limits the choice of kernels for a drive (time, batch, units), to end a name; "" if not."""
    if device.type != "cuda" or torch.compiler.is_compiling():
        return ""
    *sizes, units = shape
    real = (*sizes, 2 * units) if dtype.is_complex else shape
    limit = _triton().limited_choice(_triton().Drive(real, dtype.to_real(), device), tiled=dtype.is_complex)
    return "" if limit is None else f"; {limit}"


def _triton() -> ModuleType:
    """Import the kernels for CUDA, which need Triton."""
    from mnemoscope.kernels import triton_elementwise

    return triton_elementwise


def _check(us: Tensor, h0: Tensor, V: Tensor, activation: str, bias: Tensor | None) -> None:
    if activation not in ACTIVATIONS:
        raise ValueError(f"Unknown activation {activation!r}; choose one of {', '.join(ACTIVATIONS)}.")
    phi = ACTIVATIONS[activation]
    if phi.takes_bias != (bias is not None):
        raise ValueError(f"{activation} takes {'a' if phi.takes_bias else 'no'} bias, but bias is {bias}.")
    if V.is_complex() and not phi.takes_complex:
        raise ValueError(f"{activation} is not defined for complex numbers, but V is {V.dtype}.")
    if not us.dtype == h0.dtype == V.dtype:
        raise ValueError(f"us, h0 and V must have one dtype, but have {us.dtype}, {h0.dtype} and {V.dtype}.")
    if bias is not None and bias.dtype != V.real.dtype:
        raise ValueError(f"For V of {V.dtype} the bias must be {V.real.dtype}, but is {bias.dtype}.")


# --- the forward operator ---------------------------------------------------------------------------------------------


@custom_op(
    "mnemoscope::elementwise_scan",
    mutates_args=(),
    schema="(Tensor us, Tensor h0, Tensor V, str activation, Tensor? bias, Tensor? mask) -> Tensor",
)
def _scan(us: Tensor, h0: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    if us.is_cuda:
        return _triton().forward(us, h0, V, activation, bias, mask)
    phi = ACTIVATIONS[activation]
    with useful_threads(h0), flushed_denormals():
        if small_scan.is_small(h0, phi):
            return small_scan.forward(us, h0, V, phi, bias, mask)
        if bias is not None and complex_modrelu.applies(h0, phi):
            return complex_modrelu.forward(us, h0, V, bias, mask)
        hs, h = us.clone(memory_format=torch.contiguous_format), h0
        V_T, apply = V.mT.contiguous(), phi.in_place(h0, bias)
        for z, keep in zip(hs.unbind(), held_steps(mask, len(hs)), strict=True):
            z.addmm_(h, V_T)
            apply(z)
            if keep is not None:
                torch.where(keep, h, z, out=z)
            h = z
    return hs


@_scan.register_fake
def _(us: Tensor, h0: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return us.new_empty(us.shape)


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, h0, V, ctx.activation, bias, mask = inputs
    ctx.save_for_backward(output, h0, V, bias, mask)


def _backward(ctx: Any, g: Tensor) -> tuple:
    hs, h0, V, bias, mask = ctx.saved_tensors
    D, dh0, dbias = _adjoint(g, hs, V, ctx.activation, bias, mask)
    dV = None
    # backward inside autocast must not round these products
    with torch.autocast(hs.device.type, enabled=False), useful_threads(h0):
        if ctx.needs_input_grad[2]:
            dV = D[0].mT @ h0.conj()  # separately, to avoid a copy of the states with h0
            if len(D) > 1:
                dV = dV + _transpose_times(D[1:].reshape(-1, D.shape[2]), hs[:-1].reshape(-1, D.shape[2]))
    return D, dh0, dV, None, None if bias is None else dbias, None


_scan.register_autograd(_backward, setup_context=_save)


# --- the gradient of V ------------------------------------------------------------------------------------------------

WIDE, LONG = 512, 2**32
"""Least units and multiplications for which matrix units of a GPU repay splitting float32 numbers (on an H200)."""


def _transpose_times(left: Tensor, right: Tensor) -> Tensor:
    """Return `left^T conj(right)`, a sum over many rows."""
    large = right.shape[1] >= WIDE and left.numel() * right.shape[1] >= LONG
    if large and left.is_cuda and left.dtype == torch.float32 and exact_products():
        return _outer_products(left.contiguous(), right.contiguous())
    return (right.mH @ left).mT if right.is_complex() else left.mT @ right  # BLAS has no conj without a transpose


@custom_op("mnemoscope::outer_products", mutates_args=(), schema="(Tensor left, Tensor right) -> Tensor")
def _outer_products(left: Tensor, right: Tensor) -> Tensor:
    return _triton().outer_products(left, right)


@_outer_products.register_fake
def _(left: Tensor, right: Tensor) -> Tensor:
    return left.new_empty(left.shape[1], right.shape[1])


def _backward_outer(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    left, right = ctx.saved_tensors
    return right @ g.mT, left @ g


_outer_products.register_autograd(
    _backward_outer, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
)


# --- its adjoint ------------------------------------------------------------------------------------------------------


@custom_op(
    "mnemoscope::elementwise_scan_adjoint",
    mutates_args=(),
    schema="(Tensor g, Tensor hs, Tensor V, str activation, Tensor? bias, Tensor? mask) -> (Tensor, Tensor, Tensor)",
)
def _adjoint(
    g: Tensor, hs: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the sums, of h0, and of the bias (without a bias: no numbers)."""
    phi = ACTIVATIONS[activation]
    if hs.is_cuda:
        D, dh0 = _triton().adjoint(g, hs, V, activation, bias, mask)
        return D, dh0, _bias_gradient(phi, D, hs)
    with useful_threads(hs[0]), flushed_denormals():
        if bias is not None and complex_modrelu.applies(hs[0], phi):
            D, dh0, dbias = complex_modrelu.adjoint(g, hs, V, bias, mask)
        elif small_scan.is_small(hs[0], phi):
            D, dh0, dbias = small_scan.adjoint(g, hs, V, phi, bias, mask)
        else:
            D, dh0, dbias = _adjoint_on_cpu(g, hs, V, phi, bias, mask)
        if phi.stops and not (_all_finite(hs) and _all_finite(D)):
            with torch.no_grad():  # infinite or NaN: use formulas in which units that are off block gradients
                return _differentiable_adjoint(g, hs, V, phi, bias, mask)
        return D, dh0, dbias


def _adjoint_on_cpu(
    g: Tensor, hs: Tensor, V: Tensor, phi: Activation, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    D, V_conj = g.clone(memory_format=torch.contiguous_format), V.conj().resolve_conj().contiguous()
    carried, later = torch.zeros_like(D[0]), None
    held = held_steps(mask, len(D))
    for steps in reversed(pieces(hs[0], len(D), 3)):
        gates = phi.gates(hs[steps], bias)
        rows = D[steps].unbind()[::-1]
        by_time = zip(*(gate.unbind()[::-1] for gate in gates), strict=True) if gates else ((),) * len(rows)
        for G, gate, keep in zip(rows, by_time, held[steps][::-1], strict=True):
            if later is not None:
                G.addmm_(later, V_conj)
            if keep is not None:
                carried = torch.where(keep, G.add_(carried), 0)
            phi.pull_back_(G, *gate)
            later = G if keep is None else G.masked_fill_(keep, 0)
    return D, torch.addmm(carried, D[0], V_conj), _bias_gradient(phi, D, hs)


def _all_finite(x: Tensor) -> bool:
    """Whether the sum of all numbers is finite; torch adds complex numbers more slowly than real ones."""
    return bool((torch.view_as_real(x) if x.is_complex() else x).sum().isfinite())


def _bias_gradient(phi: Activation, D: Tensor, hs: Tensor) -> Tensor:
    return phi.bias_gradient(D, hs) if phi.takes_bias else hs.new_empty(0)


@_adjoint.register_fake
def _(
    g: Tensor, hs: Tensor, V: Tensor, activation: str, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    dbias = hs.new_empty(0) if bias is None else torch.empty_like(bias)
    return hs.new_empty(hs.shape), hs.new_empty(hs.shape[1:]), dbias


def _save_adjoint(ctx: Any, inputs: tuple, output: tuple) -> None:
    g, hs, V, ctx.activation, bias, mask = inputs
    ctx.save_for_backward(g, hs, V, bias, mask)


def _backward_adjoint(ctx: Any, *given: Tensor) -> tuple:
    g, hs, V, bias, mask = ctx.saved_tensors
    needed = [ctx.needs_input_grad[position] for position in (0, 1, 2, 4)]
    again = torch.is_grad_enabled()  # third derivatives and above
    with torch.enable_grad(), torch.autocast(hs.device.type, enabled=False):
        # separate graph nodes: hs is a function of V, which must not be counted here
        g, hs, V, bias = (_own(x, again) for x in (g, hs, V, bias))
        outputs = _differentiable_adjoint(g, hs, V, ACTIVATIONS[ctx.activation], bias, mask)
        outputs, given = (parts if bias is not None else parts[:2] for parts in (outputs, given))
        wanted: list[Any] = [x for x, need in zip((g, hs, V, bias), needed, strict=True) if need]
        found = iter(torch.autograd.grad(outputs, wanted, given, create_graph=again, materialize_grads=True))
    dg, dhs, dV, dbias = (next(found) if need else None for need in needed)
    return dg, dhs, dV, None, dbias, None


def _own(x: Tensor | None, attached: bool) -> Any:
    if x is None:
        return None
    return x.view_as(x) if attached else x.detach().requires_grad_()


def _differentiable_adjoint(
    g: Tensor, hs: Tensor, V: Tensor, phi: Activation, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute what `_adjoint` does, with a graph for autograd."""
    V_conj, D = V.conj(), []
    carry = torch.zeros_like(g[0])
    for t in reversed(range(len(g))):
        G = g[t] + carry
        D_t = phi.pull_back(G, hs[t], bias)
        if mask is not None:
            D_t = torch.where(mask[t].unsqueeze(-1), D_t, 0)
        carry = D_t @ V_conj
        if mask is not None:
            carry = carry + torch.where(mask[t].unsqueeze(-1), 0, G)
        D.append(D_t)
    all_D = torch.stack(D[::-1])
    return all_D, carry, _bias_gradient(phi, all_D, hs)


_adjoint.register_autograd(_backward_adjoint, setup_context=_save_adjoint)
