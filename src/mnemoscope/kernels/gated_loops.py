"""The recurrences of `gated` as loops that autograd differentiates, for second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mnemoscope.kernels.activation import ACTIVATIONS


def loop_gradients(loop: Callable[..., Any], given: list[Tensor | None], into: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the gradients of the given tensors through a differentiable loop, with a graph for further derivatives."""
    # separate graph nodes: a given tensor may be a function of another one, which must not be counted here
    apart = [None if x is None else x.view_as(x) if x.requires_grad else x for x in given]
    wanted = [x for x in apart if x is not None and x.requires_grad]
    found = iter(torch.autograd.grad(loop(*apart), wanted, into, create_graph=True, materialize_grads=True))
    return [next(found) if x is not None and x.requires_grad else None for x in apart]


def lstm_loop(us: Tensor, h: Tensor, c: Tensor, V: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Compute what `lstm_scan` does, with a graph for autograd."""
    hs = []
    for t, u in enumerate(us.unbind()):
        i, f, g, o = (u + h @ V.mT).chunk(4, -1)
        c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h_new = torch.sigmoid(o) * torch.tanh(c_new)
        goes = None if mask is None else mask[t].unsqueeze(-1)
        h, c = (h_new, c_new) if goes is None else (torch.where(goes, h_new, h), torch.where(goes, c_new, c))
        hs.append(h)
    return torch.stack(hs), c


def gru_loop(
    us: Tensor,
    h: Tensor,
    V: Tensor,
    bias: Tensor,
    threshold: Tensor | None,
    activation: str,
    mask: Tensor | None,
) -> Tensor:
    """Compute what `gru_scan` does, with a graph for autograd."""
    hs, phi = [], ACTIVATIONS[activation]
    for t, u in enumerate(us.unbind()):
        (u_r, u_z, u_n), (v_r, v_z, v_n) = u.chunk(3, -1), (h @ V.mT).chunk(3, -1)
        n = phi(u_n + torch.sigmoid(u_r + v_r) * (v_n + bias), threshold)
        new = n + torch.sigmoid(u_z + v_z) * (h - n)
        h = new if mask is None else torch.where(mask[t].unsqueeze(-1), new, h)
        hs.append(h)
    return torch.stack(hs)
