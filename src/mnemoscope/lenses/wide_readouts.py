"""Readouts with more outputs than features, for lenses that need the distances of outputs alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


@torch.no_grad()
def narrow_readout(readout: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a linear readout with one output for each feature whose outputs have the same distances.

    With W = Q R, where the columns of Q are orthonormal, `|W h - W h'| = |R h - R h'|`, and the same holds for
    derivatives. A readout of thousands of classes takes most of the time of a lens that measures distances alone.
    Other readouts, and those with no more outputs than features, are returned unchanged.

    >>> _ = torch.manual_seed(0)
    >>> wide, features = nn.Linear(4, 1000), torch.randn(2, 4)
    >>> narrow = narrow_readout(wide)
    >>> narrow(features).shape, torch.allclose(torch.pdist(narrow(features)), torch.pdist(wide(features)))
    (torch.Size([2, 4]), True)
    """
    if not isinstance(readout, nn.Linear) or readout.out_features <= readout.in_features:
        return readout
    weight = readout.weight
    triangle = torch.linalg.qr(weight.double(), mode="r").R.to(weight)
    return lambda features: features @ triangle.T
