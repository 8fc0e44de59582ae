"""The solution that every route to the Fisher memory returns: whitened signals and their total information."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact


@dataclass(frozen=True)
class Solution:
    """Fisher memory of a linear system, by one of the routes."""

    traces: Inexact[Tensor, "lags observed"]
    """Whitened signals `y_k = S^-1 A^k w`, k = 0 ... lags - 1."""
    total: Float[Tensor, ""]
    """`sum_k |y_k|^2` over all k."""
    factor: Float[Tensor, "size size"] | None
    """S, where the route forms it."""
    error: float
    """Estimate of the relative error, from residuals measured on the way; an upper bound on the matrix-free route."""
    route: str
    """Description of how the solution was computed."""
