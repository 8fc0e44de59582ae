"""Accuracy of recall from the ratio of signal to interference, in closed form."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

NODES = 81
"""Nodes of the Gauss-Hermite quadrature."""


def accuracy_at(ratio: Float[Tensor, "*shape"], dimension: float, classes: int) -> Float[Tensor, "*shape"]:
    """Return `E_z[Phi(z + sqrt(ratio * dimension))^(classes - 1)]` for a standard normal z.

    It is the chance that the right one of `classes` random codes in `dimension` dimensions has the largest product with
    itself plus Gaussian noise, where `ratio` is that of the powers of signal and noise.

    >>> accuracy_at(torch.tensor([0.0, 1.0], dtype=torch.float64), dimension=24, classes=64).round(decimals=3).tolist()
    [0.016, 0.989]
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    z, weight = torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())
    margin = (ratio.double().clamp_min(0) * dimension).sqrt().unsqueeze(-1).clamp_max(1e6)  # a ratio may be infinite
    beaten = torch.special.ndtr(z.to(ratio.device) + margin)
    return (beaten ** (classes - 1) * weight.to(ratio.device)).sum(-1)
