"""Initial values that several families share."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


def log_uniform(*shape: int, low: float = 1e-3, high: float = 1e-1) -> Float[Tensor, " ..."]:
    """Return numbers between `low` and `high` whose logarithm is uniform, the time steps of state-space models."""
    return torch.exp(torch.empty(*shape).uniform_(log(low), log(high)))


def inverse_softplus(positive: Float[Tensor, " ..."]) -> Float[Tensor, " ..."]:
    """Return the numbers whose softplus is given.

    >>> torch.nn.functional.softplus(inverse_softplus(torch.tensor(0.25))).item()
    0.25
    """
    return positive + torch.log(-torch.expm1(-positive))
