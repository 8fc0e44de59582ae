"""Lowest and highest values, from which boxes that a network never leaves are made."""

from __future__ import annotations

from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.matrix import Bilinear

Range = tuple[Tensor, Tensor]
"""Lowest and highest values."""


def interval_product(W: Float[Tensor, "out in"], box: Range) -> Range:
    """Of W x, x in the box.

    >>> import torch
    >>> interval_product(torch.tensor([[1.0, -2.0]]), (torch.zeros(2), torch.ones(2)))
    (tensor([-2.]), tensor([1.]))
    """
    middle, reach = W @ ((box[0] + box[1]) / 2), W.abs() @ ((box[1] - box[0]) / 2)
    return middle - reach, middle + reach


def interval_affine(layer: nn.Module, box: Range) -> Range:
    """Of `W x + b`, x in the box, where the layer is linear or bilinear; flat."""
    assert isinstance(layer, (nn.Linear, Bilinear))
    low, high = interval_product(layer.weight if isinstance(layer, nn.Linear) else layer.matrix(), box)
    return (low, high) if layer.bias is None else (low + layer.bias.flatten(), high + layer.bias.flatten())
