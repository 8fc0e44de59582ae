"""Route for matrix networks whose flat state is too large for a covariance matrix: `C y = Y` without forming C.

In the coordinates in which the noise of one step is white, `C >= I`. For solutions y_k with residuals `r_k = Y_k -
C(y_k)` it follows that `J_kl = y_k . Y_l + r_k . y_l` has the error `r_k . C^-1 r_l`, at most `|r_k| |r_l|`: a residual
of 1e-8 gives sixteen digits, and the remaining residual bounds the error.

The preconditioner is the diagonal of C in the eigenbases of the covariances of rows and of columns. For a normal
network it is C itself.
"""

from __future__ import annotations

from itertools import islice
from math import inf

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.operators import Kronecker, Map, powers
from mnemoscope.lenses.fisher.products import Products, stationary_products, stein_residual
from mnemoscope.lenses.fisher.solution import Solution
from mnemoscope.lenses.fisher.square_root import TOLERANCE
from mnemoscope.lenses.fisher.stein import Join, largest_share, sum_by_doubling

DIGITS = 1e-15
"""Relative error of the information at which conjugate gradients stop."""
MOST_STEPS = 500
"""Largest number of conjugate-gradient steps; well-conditioned systems take twenty."""
MOST_DIRECTIONS = 2000
"""Largest number of directions that the signals beyond the last lag may span."""


def solve_matrix_free(system: MatrixSystem, lags: int, horizon: int | None = None) -> Solution:
    """Compute traces and total of a matrix network without a queue; no array of size n x n is formed.

    There is no S on this route. The traces are the rows of a square root of J, which has the same products.
    """
    A, W = _whitened(system)
    C = stationary_products(A, horizon)
    residual = stein_residual(C, A, horizon)
    E, F = C.eigenbases()
    C = C.in_basis(E, F)
    A = Kronecker(E.mT @ A.left @ E, F.mT @ A.right @ F)
    count = lags if horizon is None else min(lags, horizon)
    signals = torch.stack(list(islice(powers(A, (E.mT @ W @ F).flatten()), count)), 1)
    J, worst, steps = _information(C, signals)
    total = J.trace()
    older = _older_signals(A, signals, lags, horizon)
    if older is not None:
        older_J, older_worst, _ = _information(C, older, DIGITS * float(total) / older.shape[1])
        total = total + older_J.trace()
        worst = max(worst, older_worst)
    error = worst + residual
    if not error < TOLERANCE:
        raise ValueError(
            f"Noise is amplified so much (up to {float(C.diagonal().max()):.1e} times) that the matrix-free route has "
            f'an error of up to {error:.1e}. Weaken U and V, or pass route="dense" if the state is small enough.'
        )
    route = f"matrix-free: {len(C.P)} products, {steps} steps of conjugate gradients"
    traces = _square_root(J)
    padded = torch.cat([traces, traces.new_zeros(lags - len(traces), traces.shape[1])])
    return Solution(padded, total, None, error, route)


def _whitened(system: MatrixSystem) -> tuple[Kronecker, Float[Tensor, "rows columns"]]:
    """Return the step and the signal in coordinates where the noise of one step is white."""
    rows, columns = (torch.linalg.cholesky(covariance) for covariance in system.covariances)
    left = solve_triangular(rows, system.U.mT @ rows, upper=False)
    right = solve_triangular(columns, system.V.mT @ columns, upper=False)
    half = solve_triangular(rows, system.W, upper=False)
    return Kronecker(left, right).balanced(), solve_triangular(columns, half.mT, upper=False).mT


def _older_signals(
    A: Kronecker, signals: Tensor, lags: int, horizon: int | None
) -> Float[Tensor, "size directions"] | None:
    """Return Z with `Z Z^T = sum_(k >= lags) Y_k Y_k^T`, by doubling, without its empty directions."""
    if horizon is not None and horizon <= lags:
        return None
    first = A(signals[:, -1:])
    negligible = 1e-18 * float(signals[:, 0].square().sum())
    return sum_by_doubling(A, first, _join_spans(negligible), None if horizon is None else horizon - lags)


def _join_spans(negligible: float) -> Join[Tensor]:
    """Return a function that joins factors and drops directions that together hold less than `negligible`.

    A does not amplify them: in units of the noise around it, no signal grows.
    """

    def join(later: Tensor, power: Map, earlier: Tensor) -> tuple[Tensor, float]:
        added = power(earlier)
        basis, triangle = torch.linalg.qr(torch.cat([later, added], dim=1))
        u, s, _ = torch.linalg.svd(triangle, full_matrices=False)
        kept = max(1, int((s.square().flip(0).cumsum(0).flip(0) > negligible).sum()))
        if kept > MOST_DIRECTIONS:
            raise ValueError(
                f"Signals fade so slowly that those beyond the last lag span more than {MOST_DIRECTIONS} directions, "
                f"too many for the matrix-free route. Scale U or V down, or pass horizon=<steps> or a larger lags."
            )
        return basis @ (u[:, :kept] * s[:kept]), largest_share(added.square().sum(1), later.square().sum(1))

    return join


def _information(
    C: Products, signals: Float[Tensor, "size number"], enough: float = 0.0
) -> tuple[Float[Tensor, "number number"], float, int]:
    """Return `Y^T C^-1 Y`, the largest error on its diagonal, and the number of conjugate-gradient steps.

    The error is relative; where an entry is below `enough / DIGITS`, it is in units of that value.
    """
    rows, columns = C.P.shape[1], C.Q.shape[1]
    Y = signals.view(rows, columns, -1).mT.contiguous()  # (rows, number, columns)
    y, steps = conjugate_gradients(C, Y, enough)
    r = Y - C(y)
    flat_Y, flat_y, flat_r = (matrices.movedim(1, 0).flatten(1) for matrices in (Y, y, r))
    J = flat_y @ (flat_Y + flat_r).mT
    J = (J + J.mT) / 2
    squared_residuals = r.square().sum((0, 2))
    scale = J.diagonal().clamp(min=max(enough / DIGITS, torch.finfo(J.dtype).tiny))
    return J, float((squared_residuals / scale).max()), steps


def conjugate_gradients(
    C: Products, Y: Float[Tensor, "rows number columns"], enough: float = 0.0
) -> tuple[Float[Tensor, "rows number columns"], int]:
    """Solve `C(y) = Y` for many matrices, each with its step lengths, until `|r|^2` is below `enough` or 1e-15 `y . Y`.

    Return the solutions and the number of steps.
    """

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum((0, 2), keepdim=True)

    tiny = torch.finfo(Y.dtype).tiny
    scale = 1 / C.diagonal()[:, None]
    y, r = torch.zeros_like(Y), Y
    z = p = scale * r
    rz = dot(r, z)
    for number in range(MOST_STEPS):
        Cp = C(p)
        length = rz / dot(p, Cp).clamp(min=tiny)
        y, r = y + length * p, r - length * Cp
        if bool((dot(r, r) <= (DIGITS * dot(y, Y)).clamp(min=enough)).all()):
            return y, number + 1
        z = scale * r
        before, rz = rz, dot(r, z)
        p = z + rz / before.clamp(min=tiny) * p
    raise ValueError(
        f"Conjugate gradients do not converge within {MOST_STEPS} steps: noise is amplified too much (up to "
        f"{float(C.diagonal().max()):.1e} times). Weaken U and V, or pass "
        f'route="dense" if the state is small enough.'
    )


def _square_root(J: Float[Tensor, "number number"]) -> Float[Tensor, "number number"]:
    """Return R with `R R^T = J`, every row to full relative precision, however small."""
    length = J.diagonal().clamp(min=0).sqrt()
    scale = torch.where(length > 0, length, inf)
    values, vectors = torch.linalg.eigh(J / scale[:, None] / scale)
    return length[:, None] * vectors * values.clamp(min=0).sqrt()
