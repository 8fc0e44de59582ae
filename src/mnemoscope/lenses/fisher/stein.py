"""The Stein equation `C = A C A^T + Q`, the covariance that noise builds up in a linear system, solved by doubling.

With `A_m = A^(2^m)` and `C_m` the noise of the last `2^m` steps, `C_(m+1) = C_m + A_m C_m A_m^T`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TypeVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.operators import Map

MOST_DOUBLINGS = 50
"""Largest number of doublings: noise of 1e15 steps."""
STABILITY_CHECK = 12
"""Doublings after which the spectral radius is checked; eigenvalues cost as much as several doublings."""
ROUNDING = 1e-17
"""A share of the variance that float64 would round away."""


class UnstableError(ValueError):
    """A linear system has no stationary state, because noise accumulates without bound."""

    def __init__(self, radius: float) -> None:
        super().__init__(
            f"The spectral radius is {radius:.6g}: noise and signals accumulate without bound, and there is no "
            f"stationary state. Scale the matrix below 1, or pass a finite number of steps (horizon=<steps> of "
            f"fisher_memory)."
        )


def covariance(A: Map, Q: Float[Tensor, "size size"], horizon: int | None = None) -> Float[Tensor, "size size"]:
    """Return `sum_k A^k Q A^kT` over all k, or over `horizon` steps."""
    return sum_by_doubling(A, Q, _join_covariances, horizon)


def gramian(B: Float[Tensor, "size size"], X: Float[Tensor, "size size"]) -> Float[Tensor, "size size"]:
    """Return `sum_k B^kT X B^k` for a contraction B."""
    for _ in range(MOST_DOUBLINGS):
        X = X + B.mT @ X @ B
        B = B @ B
        if float(B.detach().square().sum()) <= ROUNDING:
            break
    return X


def power_sum(A: Tensor, X: Tensor, B: Tensor) -> Tensor:
    """Return `sum_k A^k X B^k`, for matrices or batches of matrices."""
    for _ in range(60):
        added = A @ X @ B
        X, A, B = X + added, A @ A, B @ B
        if float(added.detach().abs().max()) <= ROUNDING * float(X.detach().abs().max()):
            break
    return X


Sum = TypeVar("Sum")
Join = Callable[[Sum, Map, Sum], tuple[Sum, float]]
"""A function that joins the sum over some steps with the sum over the steps before them, which a power of A carries
forward. It returns the sum over all steps, and the largest share of the earlier ones in the variance of a unit."""


def sum_by_doubling(A: Map, first: Sum, join: Join[Sum], horizon: int | None) -> Sum:
    """Sum over all steps by doubling their number, starting from the sum of one step.

    With a horizon, sum over that many steps, following its binary digits.
    """
    total, power = first, A
    if horizon is not None:
        for bit in f"{horizon:b}"[1:]:
            total, power = join(total, power, total)[0], power.then(power)
            if bit == "1":
                total, power = join(first, A, total)[0], power.then(A)
        return total
    for number in range(MOST_DOUBLINGS):
        total, share = join(total, power, total)
        if share <= ROUNDING:
            return total
        if number == STABILITY_CHECK or not isfinite(share):
            radius = A.radius()
            if radius >= 1:
                raise UnstableError(radius)
            if not isfinite(share):
                raise OverflowError("Noise is amplified beyond the range of float64 before it decays.")
        power = power.then(power)
    return total


def largest_share(added: Float[Tensor, " ..."], before: Float[Tensor, " ..."]) -> float:
    """Return the largest ratio, over units, of the added variance to the variance before."""
    added, before = added.detach().abs(), before.detach().abs()
    return float(torch.where(before > 0, added / before, added.sign()).max())  # noise may not have reached a unit yet


def _join_covariances(later: Tensor, power: Map, earlier: Tensor) -> tuple[Tensor, float]:
    added = power(power(earlier).mT)
    return later + added, largest_share(added.diagonal(), later.diagonal())
