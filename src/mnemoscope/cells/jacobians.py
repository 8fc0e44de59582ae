"""Jacobians of steps by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


def batched_jacobian(
    step: Callable[[Tensor], Tensor], states: Float[Tensor, "batch size"]
) -> Float[Tensor, "batch size size"]:
    """Return the derivative of a step of independent flat states, with one pull-back per coordinate for all of them.

    >>> batched_jacobian(torch.square, torch.tensor([[1.0, 2.0]])).tolist()
    [[[2.0, 0.0], [0.0, 4.0]]]
    """
    pull_back = torch.func.vjp(step, states)[1]
    basis = torch.eye(states.shape[1], dtype=states.dtype, device=states.device)
    rows = torch.func.vmap(lambda row: pull_back(row.expand_as(states))[0])(basis)
    return rows.transpose(0, 1).contiguous()  # not an expanded view, which could not be written to
