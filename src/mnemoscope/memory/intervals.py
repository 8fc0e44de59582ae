"""Interval arithmetic, for boxes that a network never leaves."""

from __future__ import annotations

from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.matrix import Bilinear

Interval = tuple[Tensor, Tensor]
"""Lowest and highest values, elementwise."""


def interval_product(W: Float[Tensor, "out in"], box: Interval) -> Interval:
    """Return the range of `W x` for x in the box.

    >>> import torch
    >>> interval_product(torch.tensor([[1.0, -2.0]]), (torch.zeros(2), torch.ones(2)))
    (tensor([-2.]), tensor([1.]))
    """
    centre, radius = W @ ((box[0] + box[1]) / 2), W.abs() @ ((box[1] - box[0]) / 2)
    return centre - radius, centre + radius


def interval_affine(layer: nn.Module, box: Interval) -> Interval:
    """Return the flat range of `W x + b` for x in the box; the layer is linear or bilinear."""
    assert isinstance(layer, (nn.Linear, Bilinear))
    low, high = interval_product(layer.weight if isinstance(layer, nn.Linear) else layer.matrix(), box)
    return (low, high) if layer.bias is None else (low + layer.bias.flatten(), high + layer.bias.flatten())
