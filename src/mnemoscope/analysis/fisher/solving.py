"""Traces and totals: what of every past signal is left in the state, measured in the noise that lies over it.

`J_kl = (A^k w)^T C^-1 (A^l w)` is a product of traces, `y_k = S^-1 A^k w`, where `C = S S^T`. In the coordinates of S,
`y_k = B^k y_0` with a contraction B, so that `J(k) = |y_k|^2` never rises.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.analysis.fisher.covariance import covariance, covariance_factor, gramian, structured_factor
from mnemoscope.analysis.fisher.maps import Dense, Kronecker, Map, powers
from mnemoscope.shapes import Float, Inexact

MOST_SIGNALS = 4000
"""Past signals that are added one by one; beyond, their covariance is summed by doubling."""
ROUGH = 1e-4
"""Relative error from which a result is refused."""


@dataclass(frozen=True)
class Solved:
    """What a route found."""

    traces: Inexact[Tensor, "lags seen"]
    """y_k, k = 0 ... lags - 1."""
    total: Float[Tensor, ""]
    """`sum_k |y_k|^2` over all k."""
    factor: Float[Tensor, "size size"] | None
    """S, where it was formed."""
    error: float
    """Of the identity `B B^T + S^-1 Q S^-T = I`, where it was measured; matrix-free, a bound of the relative error."""
    route: str


def solve(
    A: Map, w: Float[Tensor, " size"], L: Float[Tensor, "size sources"], lags: int, horizon: int | None, seen: int
) -> Solved:
    """By the matrix of A.

    Args:
        A: one step.
        w: where signals enter.
        L: factor of the covariance of the noise of one step.
        lags: traces that are kept.
        horizon: steps that noise and signals have been coming in; None: for ever.
        seen: numbers of the state, from the first on, that are looked at.

    """
    matrix = Dense(A.dense())
    S = covariance_factor(matrix, L, horizon)
    if horizon is not None:
        traces, total = _by_powers(matrix, w, S, lags, horizon, seen)
        return Solved(traces, total, S, float("nan"), f"{horizon} steps, doubled")
    B = solve_triangular(S, matrix(S), upper=False)
    error = _error(B.detach(), solve_triangular(S, L, upper=False).detach())
    if not error < ROUGH:
        raise ValueError(
            f"Noise is amplified so much (up to {float(S.detach().norm(dim=1).max()):.1e} times) that float64 cannot "
            f"tell the state from it: the covariance is inverted with an error of {error:.1e}. Weaken the recurrent "
            f"matrix, look at fewer units, or pass horizon=<steps>."
        )
    y = solve_triangular(S, w[:, None], upper=False)
    traces, total = _by_contraction(B, y, lags, seen)
    return Solved(traces, total, S, error, "a factor of the covariance, doubled")


def solve_products(A: Kronecker, w: Float[Tensor, " size"], Q: Float[Tensor, "size size"], lags: int) -> Solved | None:
    """By the structure of A, without gradients; None where that would give less than ten digits."""
    S = structured_factor(A, Q)
    if S is None:
        return None
    traces, total = _by_powers(A, w, S, lags, None, len(w))
    return Solved(traces, total, S, float("nan"), "Kronecker products, doubled")


def _error(B: Tensor, noise: Tensor) -> float:
    off = B @ B.mT + noise @ noise.mT
    off.diagonal().sub_(1)
    return float(off.abs().max())


def _by_contraction(B: Tensor, y: Tensor, lags: int, seen: int) -> tuple[Tensor, Tensor]:
    """y, B y, B^2 y, ... by doubling; and the sum of their squares, without end."""
    traces, power = y, B
    while True:
        later = power @ traces
        shrunk = float(power.detach().square().sum())
        faded = shrunk < 0.5 and float(later.detach().square().sum()) <= 1e-17 * float(traces.detach().square().sum())
        if traces.shape[1] >= lags and (faded or traces.shape[1] >= len(B)):
            break
        traces, power = torch.cat([traces, later], dim=1), power @ power
    if faded:
        total = traces[:seen].square().sum() + later[:seen].square().sum()
    else:
        mask = torch.zeros(len(B), len(B), dtype=B.dtype)
        mask.diagonal()[:seen] = 1
        total = (traces * (gramian(power, mask) @ traces)).sum()
    return traces[:seen, :lags].mT, total


def _by_powers(A: Map, w: Tensor, S: Tensor, lags: int, horizon: int | None, seen: int) -> tuple[Tensor, Tensor]:
    """`S^-1 A^k w`; and the sum of their squares."""
    count = MOST_SIGNALS if horizon is None else min(horizon, max(lags, MOST_SIGNALS))
    signals, largest, faded = [], 0.0, False
    for x in islice(powers(A, w), max(count, lags)):
        if horizon is not None and len(signals) == horizon:
            break
        signals.append(x)
        size = float(x.detach().square().sum())
        largest = max(largest, size)
        faded = horizon is None and size <= 1e-24 * largest
        if faded and len(signals) >= lags:
            break
    traces = solve_triangular(S, torch.stack(signals, 1), upper=False)[:seen]
    if faded or len(signals) == horizon:
        total = traces.square().sum()
    else:
        P = covariance(A, w[:, None] * w, horizon)[:seen, :seen]
        total = torch.cholesky_solve(P, S[:seen, :seen]).trace()
    kept = traces[:, :lags].mT
    return torch.cat([kept, kept.new_zeros(lags - len(kept), seen)]), total
