r"""Dimension of a signal that is seen through noise: moments of its covariance from independent parts of the trials.

The averages of four disjoint parts of the trials are X_a = S + E_a, with the same signal S and independent noise E_a
of mean 0. So tr(X_a' X_b) tr(X_c' X_d) has the expectation (tr S'S)^2, and tr(X_a' X_b X_c' X_d) has tr((S'S)^2): noise
adds to neither, while it adds to both moments of the covariance of one average.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int

PARTS = 4
PAIRINGS = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2))


def participation_ratio(variances: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch"]:
    """Return (sum v)^2 / sum v^2: n if n variances are equal and the others 0.

    >>> participation_ratio(torch.tensor([2.0, 2.0, 0.0])).item()
    2.0
    """
    return variances.sum(-1) ** 2 / (variances**2).sum(-1)


def centred(means: Float[Tensor, "*parts time cells units"]) -> Float[Tensor, "*parts samples units"]:
    """Return steps and cells as rows, without the mean over the rows."""
    rows = means.flatten(-3, -2)
    return rows - rows.mean(-2, keepdim=True)


def signal_moments(parts: Float[Tensor, "4 samples units"]) -> tuple[Tensor, Tensor]:
    """Return estimates of (tr S'S)^2 and tr((S'S)^2) without bias, averaged over the three pairings of four parts."""
    square, fourth = [], []
    for a, b, c, d in PAIRINGS:
        square.append((parts[a] * parts[b]).sum() * (parts[c] * parts[d]).sum())
        # tr(A'B C'D) = tr((B C')(D A')): samples x samples or units x units, whichever is smaller
        if parts.shape[1] < parts.shape[2]:
            fourth.append(((parts[b] @ parts[c].T) * (parts[a] @ parts[d].T)).sum())
        else:
            fourth.append(((parts[a].T @ parts[b]) * (parts[d].T @ parts[c])).sum())
    return torch.stack(square).mean(), torch.stack(fourth).mean()


def signal_dimension(
    sums: Float[Tensor, "groups time cells units"],
    counts: Float[Tensor, "groups time cells units"],
    partitions: Int[Tensor, "draws groups"],
) -> float:
    """Return the participation ratio of the signal; NaN if no variance is left, or if an average has no trial.

    `partitions` assign each group of trials to one of four parts, or to none (-1).
    """
    moments = []
    for places in partitions:
        members = torch.stack([places == part for part in range(PARTS)]).double()
        parts = torch.einsum("pg,gtcu->ptcu", members, sums) / torch.einsum("pg,gtcu->ptcu", members, counts)
        moments.append(torch.stack(signal_moments(centred(parts))))
    square, fourth = torch.stack(moments).mean(0).tolist()
    return square / fourth if square > 0 and fourth > 0 else torch.nan


def signal_shares(
    sums: Float[Tensor, "groups time cells units"],
    counts: Float[Tensor, "groups time cells units"],
    partitions: Int[Tensor, "draws groups"],
    components: int,
) -> tuple[float, Float[Tensor, " components"]]:
    """Return the variance of the signal, and the shares of it along principal components of other trials.

    The components come from two of the four parts of the trials, and the variance from the covariance of the other two.
    """
    total, along = [], []
    for places in partitions:
        members = torch.stack([places < 2, places == 2, places == 3]).double()
        fitted, first, second = centred(
            torch.einsum("pg,gtcu->ptcu", members, sums) / torch.einsum("pg,gtcu->ptcu", members, counts)
        )
        axes = torch.linalg.svd(fitted, full_matrices=False)[2][:components]
        total.append((first * second).sum())
        along.append(((first @ axes.T) * (second @ axes.T)).sum(0))
    variance = torch.stack(total).mean()
    return variance.item(), torch.stack(along).mean(0) / variance


def jackknife_interval(estimate: float, without_one: Float[Tensor, " groups"]) -> tuple[float, float] | None:
    """Return the 95% interval from the estimates without each group of trials, by Student's t; None if one is NaN."""
    from scipy.special import stdtrit  # scipy.stats takes longer to import

    groups = len(without_one)
    spread = (groups - 1) / groups * (without_one - without_one.mean()).square().sum().item()
    if not spread >= 0:
        return None
    half = float(stdtrit(groups - 1, 0.975)) * sqrt(spread)
    return max(estimate - half, 1.0), estimate + half
