"""Linear recurrences whose matrix changes at every step, in O(log time) sequential operations.

    h_t = A_t h_{t-1} + u_t,   h before the first step is 0.

The state is divided into groups that do not see one another, each with its matrices: one group for a dense matrix, one
for each unit of a diagonal or block-diagonal one. Two steps are one, `(A_2 A_1, A_2 u_1 + u_2)`. Neighbours are paired,
the recurrence of half the length is solved, and the steps between are filled in (Blelloch 1990). Products of matrices
occur only on the way up: in all as many as there are steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.linear import diagonal_scan

WRITTEN_OUT = 3
"""Largest matrices whose products are sums of elementwise products: a library call per tiny matrix takes longer."""

Matrices = Float[Tensor, "time batch groups size size"]
Vectors = Float[Tensor, "time batch groups size"]


def block_scan(A: Matrices, us: Vectors) -> Vectors:
    """Return the states h_t; the first matrix has no effect.

    >>> block_scan(torch.full((3, 1, 1, 1, 1), 0.5), torch.ones(3, 1, 1, 1)).flatten().tolist()
    [1.0, 1.5, 1.75]
    """
    if us.shape[-1] == 1:
        return diagonal_scan(A[..., 0, 0], us[..., 0], torch.zeros_like(us[0, ..., 0])).unsqueeze(-1)
    return _pair_up(A, us)


def block_scan_backward(A: Matrices, gs: Vectors) -> Vectors:
    """Return the gradients of `us` from those of the states, `G_t = g_t + A_{t+1}^T G_{t+1}`."""
    time = len(gs)
    later = torch.arange(time, 0, -1, device=gs.device) % time  # the first matrix has no effect: it may be any
    return block_scan(A[later].mT, gs.flip(0)).flip(0)


def apply_blocks(A: Float[Tensor, "*batch size size"], v: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
    """Return `A v`."""
    if v.shape[-1] <= WRITTEN_OUT:
        return (A * v.unsqueeze(-2)).sum(-1)
    return (A @ v.unsqueeze(-1)).squeeze(-1)


def _multiply(A: Tensor, B: Tensor) -> Tensor:
    if A.shape[-1] <= WRITTEN_OUT:
        return (A.unsqueeze(-1) * B.unsqueeze(-3)).sum(-2)
    return A @ B


def _pair_up(A: Tensor, us: Tensor) -> Tensor:
    """Merge steps 2k and 2k + 1, solve for the odd steps, and fill in the even ones."""
    time = len(us)
    if time == 1:
        return us
    odd = A[1::2]
    joined = us[1::2] + apply_blocks(odd, us[: time - 1 : 2])
    hs_odd = _pair_up(_multiply(odd, A[: time - 1 : 2]), joined)
    hs_even = us[::2].clone()
    hs_even[1:] += apply_blocks(A[2::2], hs_odd[: (time - 1) // 2])
    hs = torch.empty_like(us, memory_format=torch.contiguous_format)
    hs[1::2], hs[::2] = hs_odd, hs_even
    return hs
