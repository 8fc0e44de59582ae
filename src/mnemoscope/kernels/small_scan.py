"""Elementwise recurrences with few numbers per step on a CPU, in numpy: its calls cost half as much as those of torch.

The formulas are those of `elementwise`. A step takes some microseconds, and most of them are spent on calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mnemoscope.kernels.activation import Activation
from mnemoscope.kernels.stepping import as_array, pieces

ONE_THREAD = 2**18
"""Multiplications of a product up to which OpenBLAS, the library behind numpy's products, uses one thread."""


def is_small(state: Tensor, phi: Activation) -> bool:
    """Whether the steps of a scan with states like this one (batch, units) are small enough for numpy."""
    known = state.dtype in (torch.float32, torch.float64) and state.device.type == "cpu"
    return known and phi.runs_in_numpy and state.numel() * state.shape[-1] <= ONE_THREAD


def forward(us: Tensor, h0: Tensor, V: Tensor, phi: Activation, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """Return the states of all steps."""
    hs = us.clone(memory_format=torch.contiguous_format)
    h, V_T = as_array(h0.contiguous()), as_array(V.mT.contiguous())
    product = np.empty_like(h)
    with np.errstate(all="ignore"):
        apply = phi.on_arrays(product, None if bias is None else as_array(bias))
        for z, held in zip(as_array(hs), _held(mask, len(hs)), strict=True):
            np.add(z, np.dot(h, V_T, out=product), out=z)
            apply(z)
            if held is not None:
                np.copyto(z, h, where=held)
            h = z
    return hs


def adjoint(
    g: Tensor, hs: Tensor, V: Tensor, phi: Activation, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the sums, of h0, and of the bias (without a bias: no numbers)."""
    D, matrix, all_held = g.clone(memory_format=torch.contiguous_format), as_array(V.contiguous()), _held(mask, len(hs))
    dbias = hs.new_empty(0) if bias is None else torch.zeros_like(bias)
    later, product, carried = (np.zeros(D.shape[1:], matrix.dtype) for _ in range(3))
    with np.errstate(all="ignore"):
        for steps in reversed(pieces(hs[0], len(D), 3)):
            rows = as_array(D[steps])[::-1]
            gates = [as_array(gate)[::-1] for gate in phi.gates(hs[steps], bias)]
            factors = zip(*gates, strict=True) if gates else ((),) * len(rows)
            for G, factor, held in zip(rows, factors, all_held[steps][::-1], strict=True):
                np.add(G, np.dot(later, matrix, out=product), out=G)
                if held is not None:
                    np.add(G, carried, out=G)
                    carried = np.where(held, G, 0)
                for each in factor:
                    np.multiply(G, each, out=G)
                if held is not None:
                    np.copyto(G, 0, where=held)
                later = G
            if bias is not None:
                dbias += phi.bias_gradient(D[steps], hs[steps])
        return D, torch.from_numpy(carried + later @ matrix), dbias


def _held(mask: Tensor | None, time: int) -> Sequence[np.ndarray | None]:
    """Return for each step where the state is held, (batch, 1), or None if there is no mask."""
    return (None,) * time if mask is None else list(~as_array(mask)[..., None])
