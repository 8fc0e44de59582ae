"""Clipping of gradients on their way back through time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def clip_gradient(x: Tensor, most: float) -> Tensor:
    """Return `x` unchanged, with each number of its gradient clipped to +-`most` (Graves et al. 2014, section 4.6).

    >>> x = torch.zeros(3, requires_grad=True)
    >>> (clip_gradient(x, 10.0) * torch.tensor([1.0, 50.0, -float("inf")])).sum().backward()
    >>> x.grad
    tensor([  1.,  10., -10.])
    """
    return _ClipGradient.apply(x, most)  # pyright: ignore[reportReturnType]


class _ClipGradient(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, most: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.most = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0].clamp(-ctx.most, ctx.most), None
