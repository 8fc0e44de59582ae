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

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.lenses.fisher.covariance import (
    ROUGH,
    check_steps,
    covariance,
    covariance_factor,
    gramian,
    next_factor,
    structured_factor,
    triangular_factor,
)
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, Map, powers

MOST_SIGNALS = 4000
"""Past signals that are added one by one; beyond, their covariance is summed by doubling."""
AT_ONCE = 64
"""Of these."""
EPS = torch.finfo(torch.float64).eps


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
    """An estimate of the relative error, from what was measured on the way; matrix-free, a bound."""
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
    if horizon is not None:
        return _over_steps(matrix, w, L, lags, horizon, seen)
    S = covariance_factor(matrix, L)
    B = solve_triangular(S, matrix(S), upper=False)
    y = solve_triangular(S, w[:, None], upper=False)
    off = _error(B.detach(), solve_triangular(S, L, upper=False).detach())
    if not off < ROUGH:
        raise ValueError(
            f"Noise is amplified so much (up to {float(S.detach().norm(dim=1).max()):.1e} times) that float64 cannot "
            f"tell the state from it: the covariance is inverted with an error of {off:.1e}. Weaken the recurrent "
            f"matrix, look at fewer units, or pass horizon=<steps>."
        )
    traces, total, gain = _by_contraction(B, y, lags, seen)
    error = max(off, EPS * gain)
    if not error < ROUGH:
        raise ValueError(
            f"The spectral radius is so near to 1, {matrix.radius():.15g}, that rounding changes what is summed over "
            f"{gain:.0e} steps by {error:.1e}. Move it away from 1, or pass horizon=<steps>."
        )
    return Solved(traces, total, S, error, "a factor of the covariance, doubled")


def solve_products(A: Kronecker, w: Float[Tensor, " size"], Q: Float[Tensor, "size size"], lags: int) -> Solved | None:
    """By the structure of A, without gradients; None where that would give less than ten digits."""
    found = structured_factor(A, Q)
    if found is None:
        return None
    S, error = found
    traces, total = _by_powers(A, w, S, lags, None, len(w))
    steps = 1 / max(1 - A.radius(), EPS)  # whose roundings add up in the powers of A
    return Solved(traces, total, S, max(error, EPS * steps), "Kronecker products, doubled")


def _over_steps(A: Dense, w: Tensor, L: Tensor, lags: int, horizon: int, seen: int) -> Solved:
    """Noise and signals of so many steps: doubled where that leaves ten digits, otherwise step by step."""
    found = structured_factor(A, L @ L.mT, horizon)
    if found is not None:
        S, error = found
        traces, total = _by_powers(A, w, S, lags, horizon, seen)
        return Solved(traces, total, S, max(error, EPS * horizon), f"{horizon} steps, doubled")
    if any(x.requires_grad for x in (A.A, w, L)):
        raise ValueError("Noise is amplified too much for gradients over so many steps; take fewer, horizon=...")
    if horizon > MOST_SIGNALS:
        raise ValueError(f"Noise is amplified so much that steps are taken one by one: at most {MOST_SIGNALS}.")
    if L.shape != A.A.shape or L.triu(1).any():
        return _where_noise_enters_some(A, w, L, lags, horizon, seen)
    step = solve_triangular(L, A.A @ L, upper=False)[None]
    b = solve_triangular(L, w[:, None], upper=False)[None]
    S, traces, error = torch.zeros_like(step), b[:, :, :0], 0.0
    for _ in range(horizon):
        S, B, new, off = next_factor(step, S, b)
        traces, error = torch.cat([new, B @ traces], dim=2), max(error, off)
    check_steps(S, error)
    kept = traces[0, :seen].mT
    padded = torch.cat([kept[:lags], kept.new_zeros(max(0, lags - horizon), seen)])
    return Solved(padded, kept.square().sum(), L @ S[0], max(error, EPS * horizon), f"{horizon} steps, one by one")


def _where_noise_enters_some(A: Dense, w: Tensor, L: Tensor, lags: int, horizon: int, seen: int) -> Solved:
    """The factor doubled; what it whitens must add up to 1, `sum_k S^-1 A^k L L^T A^kT S^-T = I`, or it is refused."""
    S = triangular_factor(A, L, horizon)
    entered, whitened = L, torch.zeros_like(A.A)
    for _ in range(horizon):
        one = solve_triangular(S, entered, upper=False)
        whitened, entered = whitened + one @ one.mT, A(entered)
    whitened.diagonal().sub_(1)
    error = float(whitened.abs().max())
    check_steps(S[None], error)
    traces, total = _by_powers(A, w, S, lags, horizon, seen)
    return Solved(traces, total, S, max(error, EPS * horizon), f"{horizon} steps, a factor of the covariance, doubled")


def _error(B: Tensor, noise: Tensor) -> float:
    off = B @ B.mT + noise @ noise.mT
    off.diagonal().sub_(1)
    return float(off.abs().max())


def _by_contraction(B: Tensor, y: Tensor, lags: int, seen: int) -> tuple[Tensor, Tensor, float]:
    """y, B y, B^2 y, ... by doubling; the sum of their squares, without end; and how many steps that is in effect."""
    traces, power = y, B
    while True:
        later = power @ traces
        shrunk = float(power.detach().square().sum())
        faded = shrunk < 0.5 and float(later.detach().square().sum()) <= 1e-17 * float(traces.detach().square().sum())
        if traces.shape[1] >= lags and (faded or traces.shape[1] >= len(B)):
            break
        traces, power = torch.cat([traces, later], dim=1), power @ power
    gain = float(traces.shape[1])
    if faded:
        total = traces[:seen].square().sum() + later[:seen].square().sum()
    else:
        mask = torch.zeros(len(B), len(B), dtype=B.dtype)
        mask.diagonal()[:seen] = 1
        G = gramian(power, mask)
        gain *= float(torch.linalg.matrix_norm(G.detach(), 1))
        total = (traces * (G @ traces)).sum()
    return traces[:seen, :lags].mT, total, gain


def _by_powers(A: Map, w: Tensor, S: Tensor, lags: int, horizon: int | None, seen: int) -> tuple[Tensor, Tensor]:
    """`S^-1 A^k w`; and the sum of their squares."""
    most = max(lags, MOST_SIGNALS) if horizon is None else min(horizon, max(lags, MOST_SIGNALS))
    signals, pieces, held, faded = powers(A, w), [], 0.0, False
    while not faded and (left := most - sum(piece.shape[1] for piece in pieces)) > 0:
        some = torch.stack(list(islice(signals, min(left, AT_ONCE))), 1)
        pieces.append(solve_triangular(S, some, upper=False)[:seen])
        added = float(pieces[-1].detach().square().sum())
        held += added
        faded = horizon is None and added <= 1e-17 * held and len(pieces) * AT_ONCE >= lags  # none holds more later
    traces = torch.cat(pieces, dim=1)
    if faded or traces.shape[1] == horizon:
        total = traces.square().sum()
    else:
        P = covariance(A, w[:, None] * w, horizon)[:seen, :seen]
        total = torch.cholesky_solve(P, S[:seen, :seen]).trace()
    kept = traces[:, :lags].mT
    return torch.cat([kept, kept.new_zeros(lags - len(kept), seen)]), total
