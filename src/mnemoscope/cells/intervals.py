"""Interval arithmetic for the boxes that bound a state."""

from __future__ import annotations

from math import isfinite

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box
from mnemoscope.cells.lagrangians import Lagrangian
from mnemoscope.cells.nonlinearities import Nonlinearity


def function_range(phi: Nonlinearity | Lagrangian, like: Float[Tensor, " size"]) -> Box | None:
    """Return the box of the range of `phi` in every unit; None if that range is not finite."""
    if not (isfinite(phi.low) and isfinite(phi.high)):
        return None
    return torch.full_like(like, phi.low), torch.full_like(like, phi.high)


def product_range(W: Float[Tensor, "rows columns"], low: float | Tensor, high: float | Tensor) -> Box:
    """Return the smallest box that contains `W v` for all v between `low` and `high`.

    >>> product_range(torch.tensor([[2.0, -1.0]]), 0.0, 1.0)
    (tensor([-1.]), tensor([2.]))
    """
    positive, negative = W.clamp_min(0), W.clamp_max(0)
    ones = torch.ones_like(W[0])
    low, high = ones * low, ones * high
    return positive @ low + negative @ high, positive @ high + negative @ low
