"""How well two samples are separated: d' and the area under the ROC curve."""

from __future__ import annotations

from math import nan

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


def d_prime(same: Float[Tensor, " same"], different: Float[Tensor, " different"]) -> float:
    """Return the distance of the means, divided by the root of the mean variance; NaN if a sample has fewer than 2.

    >>> round(d_prime(torch.tensor([3.0, 5.0]), torch.tensor([-1.0, 1.0])), 6)
    2.828427
    """
    if min(len(same), len(different)) < 2:
        return nan
    distance = same.double().mean() - different.double().mean()
    return float(distance / torch.sqrt((same.double().var() + different.double().var()) / 2))


def auc(same: Float[Tensor, " same"], different: Float[Tensor, " different"]) -> float:
    """Return the probability that a draw from `same` exceeds a draw from `different`; ties count half.

    It is `(sum of the ranks of same - n (n + 1) / 2) / (n m)` for samples of sizes n and m, with ranks in the joint
    sample, averaged over ties (Mann & Whitney 1947). It is NaN if a sample is empty.

    >>> auc(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 2.0]))
    0.875
    """
    from scipy.stats import rankdata  # not at the top: importing it takes 0.8 s

    n, m = len(same), len(different)
    ranks = rankdata(torch.cat([same, different]).numpy())
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m)) if n and m else nan
