"""Interval arithmetic for the boxes that bound a state."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box


def product_range(W: Float[Tensor, "rows columns"], low: float | Tensor, high: float | Tensor) -> Box:
    """Return the smallest box that contains `W v` for all v between `low` and `high`.

    >>> product_range(torch.tensor([[2.0, -1.0]]), 0.0, 1.0)
    (tensor([-1.]), tensor([2.]))
    """
    positive, negative = W.clamp_min(0), W.clamp_max(0)
    ones = torch.ones_like(W[0])
    low, high = ones * low, ones * high
    return positive @ low + negative @ high, positive @ high + negative @ low
