"""Route by the dense matrix of the flat state: signals whitened by a factor of the noise covariance.

`J_kl = (A^k w)^T C^-1 (A^l w)` is a product of traces, `y_k = S^-1 A^k w`, where `C = S S^T`. In the coordinates of S,
`y_k = B^k y_0` with a contraction B, so that `J(k) = |y_k|^2` never rises.
"""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher import square_root
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, Map, powers
from mnemoscope.lenses.fisher.solution import Solution
from mnemoscope.lenses.fisher.stein import covariance, gramian

MOST_SIGNALS = 4000
"""Largest number of past signals that are added individually; beyond it, their covariance is summed by doubling."""
BLOCK = 64
"""Signals that are whitened by one triangular solve."""
EPS = torch.finfo(torch.float64).eps


def solve_dense(
    A: Map, w: Float[Tensor, " size"], L: Float[Tensor, "size sources"], lags: int, horizon: int | None, observed: int
) -> Solution:
    """Compute traces and total by the dense matrix of A, of the first `observed` numbers of the state.

    Signals enter in the direction w, and noise of covariance `L L^T`, over `horizon` steps or, if it is None, for ever.
    """
    matrix = Dense(A.dense())
    if horizon is not None:
        return _solve_over_steps(matrix, w, L, lags, horizon, observed)
    S = square_root.covariance_factor(matrix, L)
    B = solve_triangular(S, matrix(S), upper=False)
    y = solve_triangular(S, w[:, None], upper=False)
    residual = _contraction_residual(B.detach(), solve_triangular(S, L, upper=False).detach())
    if not residual < square_root.TOLERANCE:
        raise ValueError(
            f"Noise is amplified so much (up to {float(S.detach().norm(dim=1).max()):.1e} times) that float64 cannot "
            f"distinguish the state from it: the covariance is inverted with an error of {residual:.1e}. Weaken the "
            f"recurrent matrix, use fewer units, or pass horizon=<steps>."
        )
    traces, total, steps = _traces_by_contraction(B, y, lags, observed)
    error = max(residual, EPS * steps)
    if not error < square_root.TOLERANCE:
        raise ValueError(
            f"The spectral radius, {matrix.radius():.15g}, is so near to 1 that rounding changes the sum over "
            f"{steps:.0e} steps by {error:.1e}. Move it away from 1, or pass horizon=<steps>."
        )
    return Solution(traces, total, S, error, "a factor of the covariance, doubled")


def solve_kronecker(
    A: Kronecker, w: Float[Tensor, " size"], Q: Float[Tensor, "size size"], lags: int
) -> Solution | None:
    """Compute traces and total by the Kronecker structure of A, without gradients.

    Return None where this would keep less than ten digits.
    """
    factor = square_root.structured_factor(A, Q)
    if factor is None:
        return None
    S, error = factor
    traces, total = _traces_by_powers(A, w, S, lags, None, len(w))
    steps = 1 / max(1 - A.radius(), EPS)  # over which rounding errors accumulate in the powers of A
    return Solution(traces, total, S, max(error, EPS * steps), "Kronecker products, doubled")


def _solve_over_steps(A: Dense, w: Tensor, L: Tensor, lags: int, horizon: int, observed: int) -> Solution:
    """Sum noise and signals over finitely many steps: by doubling if that keeps ten digits, otherwise step by step."""
    factor = square_root.structured_factor(A, L @ L.mT, horizon)
    if factor is not None:
        S, error = factor
        traces, total = _traces_by_powers(A, w, S, lags, horizon, observed)
        return Solution(traces, total, S, max(error, EPS * horizon), f"{horizon} steps, doubled")
    if any(tensor.requires_grad for tensor in (A.A, w, L)):
        raise ValueError("Noise is amplified too much for gradients over so many steps; take fewer, horizon=...")
    if horizon > MOST_SIGNALS:
        raise ValueError(
            f"Noise is amplified so much that steps must be taken individually, at most {MOST_SIGNALS}, but horizon is "
            f"{horizon}."
        )
    if L.shape != A.A.shape or L.triu(1).any():
        return _solve_singular_noise(A, w, L, lags, horizon, observed)
    step = solve_triangular(L, A.A @ L, upper=False)[None]
    b = solve_triangular(L, w[:, None], upper=False)[None]
    S, traces, error = torch.zeros_like(step), b[:, :, :0], 0.0
    for _ in range(horizon):
        S, B, new, difference = square_root.next_factor(step, S, b)
        traces, error = torch.cat([new, B @ traces], dim=2), max(error, difference)
    square_root.check_steps(S, error)
    kept = traces[0, :observed].mT
    padded = torch.cat([kept[:lags], kept.new_zeros(max(0, lags - horizon), observed)])
    return Solution(padded, kept.square().sum(), L @ S[0], max(error, EPS * horizon), f"{horizon} single steps")


def _solve_singular_noise(A: Dense, w: Tensor, L: Tensor, lags: int, horizon: int, observed: int) -> Solution:
    """Double the factor of noise that does not enter every direction.

    The whitened noise must add up to the identity, `sum_k S^-1 A^k L L^T A^kT S^-T = I`; its residual is the error.
    """
    S = square_root.triangular_factor(A, L, horizon)
    entered, whitened = L, torch.zeros_like(A.A)
    for _ in range(horizon):
        noise = solve_triangular(S, entered, upper=False)
        whitened, entered = whitened + noise @ noise.mT, A(entered)
    whitened.diagonal().sub_(1)
    error = float(whitened.abs().max())
    square_root.check_steps(S[None], error)
    traces, total = _traces_by_powers(A, w, S, lags, horizon, observed)
    route = f"{horizon} steps, a factor of the covariance, doubled"
    return Solution(traces, total, S, max(error, EPS * horizon), route)


def _contraction_residual(B: Tensor, noise: Tensor) -> float:
    """Return the largest entry of `B B^T + S^-1 Q S^-T - I`, which is 0 for the exact factor S."""
    residual = B @ B.mT + noise @ noise.mT
    residual.diagonal().sub_(1)
    return float(residual.abs().max())


def _traces_by_contraction(B: Tensor, y: Tensor, lags: int, observed: int) -> tuple[Tensor, Tensor, float]:
    """Return y, B y, B^2 y, ... by doubling; the infinite sum of their squares; and its effective number of steps."""
    traces, power = y, B
    while True:
        later = power @ traces
        shrunk = float(power.detach().square().sum())
        faded = shrunk < 0.5 and float(later.detach().square().sum()) <= 1e-17 * float(traces.detach().square().sum())
        if traces.shape[1] >= lags and (faded or traces.shape[1] >= len(B)):
            break
        traces, power = torch.cat([traces, later], dim=1), power @ power
    steps = float(traces.shape[1])
    if faded:
        total = traces[:observed].square().sum() + later[:observed].square().sum()
    else:
        mask = torch.zeros(len(B), len(B), dtype=B.dtype)
        mask.diagonal()[:observed] = 1
        G = gramian(power, mask)
        steps *= float(torch.linalg.matrix_norm(G.detach(), 1))
        total = (traces * (G @ traces)).sum()
    return traces[:observed, :lags].mT, total, steps


def _traces_by_powers(
    A: Map, w: Tensor, S: Tensor, lags: int, horizon: int | None, observed: int
) -> tuple[Tensor, Tensor]:
    """Return `S^-1 A^k w` and the sum of their squares."""
    most = max(lags, MOST_SIGNALS) if horizon is None else min(horizon, max(lags, MOST_SIGNALS))
    signals, blocks, sum_so_far, faded = powers(A, w), [], 0.0, False
    while not faded and (left := most - sum(block.shape[1] for block in blocks)) > 0:
        block = torch.stack(list(islice(signals, min(left, BLOCK))), 1)
        blocks.append(solve_triangular(S, block, upper=False)[:observed])
        added = float(blocks[-1].detach().square().sum())
        sum_so_far += added
        faded = horizon is None and added <= 1e-17 * sum_so_far and len(blocks) * BLOCK >= lags  # later ones hold less
    traces = torch.cat(blocks, dim=1)
    if faded or traces.shape[1] == horizon:
        total = traces.square().sum()
    else:
        P = covariance(A, w[:, None] * w, horizon)[:observed, :observed]
        total = torch.cholesky_solve(P, S[:observed, :observed]).trace()
    kept = traces[:, :lags].mT
    return torch.cat([kept, kept.new_zeros(lags - len(kept), observed)]), total
