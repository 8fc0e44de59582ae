"""Square roots of the noise covariance: the lower triangular S with `C = S S^T`.

For a well-conditioned C it is the Cholesky factor. Where noise is amplified by orders of magnitude (delay lines), C
holds the small directions only as differences of large numbers. The factor itself is then doubled: `S_(m+1)` is the
triangle of `[S_m, A_m S_m]`. This never forms C and keeps every row of S to full precision.

In the coordinates of S the noise is white and A is a contraction, `B = S^-1 A S`, `B B^T = I - S^-1 Q S^-T`, so that
every further computation there is stable.
"""

from __future__ import annotations

from typing import Any

import torch
from scipy.linalg import get_lapack_funcs
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.operators import Dense, Map
from mnemoscope.lenses.fisher.stein import covariance, gramian, largest_share, sum_by_doubling

WELL_CONDITIONED = 1e-5
"""Reciprocal condition number above which the Cholesky factor is used; it then keeps ten digits."""
LARGEST_QR = 2500
"""Largest state, in numbers, for which the factor itself is doubled: minutes, and gigabytes."""
TOLERANCE = 1e-4
"""Relative error at which a result is refused."""


def covariance_factor(A: Dense, L: Float[Tensor, "size sources"]) -> Float[Tensor, "size size"]:
    """Return the lower triangular S with `S S^T = C = sum_k A^k L L^T A^kT`; differentiable.

    >>> S = covariance_factor(Dense(torch.tensor([[0.6]], dtype=torch.float64)), torch.eye(1, dtype=torch.float64))
    >>> round((S @ S.mT).item(), 10)  # 1 / (1 - 0.36)
    1.5625
    """
    return _CovarianceFactor.apply(A.A, L)


class _CovarianceFactor(torch.autograd.Function):
    """The factor of the stationary covariance, with its derivative.

    Backward: with `Phi` the lower triangle, its diagonal halved, and K the symmetric part of `Phi(S^T dS)`, the
    gradient at C is `S^-T K S^-1`. The gradient through the Stein equation solves the transposed equation,
    `Y = A^T Y A + dC`, which in the coordinates of S is `Y = S^-T (sum_k B^kT K B^k) S^-1`. Then `dA = 2 Y A C` and
    `dL = 2 Y L`.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, L: Tensor) -> Tensor:
        cholesky = _well_conditioned_cholesky(covariance(Dense(A), L @ L.mT))
        S = triangular_factor(Dense(A), L) if cholesky is None else cholesky[0]
        ctx.save_for_backward(A, L, S)
        return S

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        A, L, S = ctx.saved_tensors
        K = S.mT @ gradients[0]
        K = K.tril(-1) + 0.5 * torch.diag(K.diagonal())
        B = solve_triangular(S, A @ S, upper=False)
        Y = solve_triangular(S.mT, gramian(B, (K + K.mT) / 2), upper=True)  # times S from the right
        dA = 2 * Y @ B @ S.mT
        dL = 2 * Y @ solve_triangular(S, L, upper=False)
        return dA, dL


def structured_factor(
    A: Map, Q: Float[Tensor, "size size"], horizon: int | None = None
) -> tuple[Float[Tensor, "size size"], float] | None:
    """Return the Cholesky factor, computed by the structure of A, and an estimate of its relative error.

    It is differentiable. Return None where it would keep less than ten digits.
    """
    return _well_conditioned_cholesky(covariance(A, Q, horizon))


def _well_conditioned_cholesky(C: Tensor) -> tuple[Tensor, float] | None:
    scale = C.diagonal().clamp(min=torch.finfo(C.dtype).tiny).sqrt()
    scaled = C / scale[:, None] / scale
    triangle, failed = torch.linalg.cholesky_ex(scaled)
    if failed.item():
        return None
    known = triangle.detach().numpy()
    (pocon,) = get_lapack_funcs(("pocon",), (known,))
    condition = pocon(known, float(scaled.detach().abs().sum(0).max()), uplo="L")[0]
    if not condition > WELL_CONDITIONED:
        return None
    return scale[:, None] * triangle, torch.finfo(C.dtype).eps / condition


def triangular_factor(
    A: Dense, L: Float[Tensor, "size sources"], horizon: int | None = None
) -> Float[Tensor, "size size"]:
    """Return the factor without forming C, by doubling the factor itself."""
    if A.size > LARGEST_QR:
        raise ValueError(
            f"The covariance of the noise is ill-conditioned, and {A.size} numbers are too many for the square-root "
            f"recursion, which takes at most {LARGEST_QR}."
        )
    S = sum_by_doubling(A, L, _join_factors, horizon)
    if S.shape[0] != S.shape[1] or not (S.diagonal().abs() > 1e-14 * S.norm(dim=1)).all():
        raise ValueError(
            "The noise does not reach every direction of the state, or is amplified beyond float64: in such a "
            "direction the signal would be known without error. Add noise, noise=..., or use fewer units."
        )
    return S * torch.where(S.diagonal() < 0, -1.0, 1.0)


def _join_factors(later: Tensor, power: Map, earlier: Tensor) -> tuple[Tensor, float]:
    added = power(earlier)
    triangle = torch.linalg.qr(torch.cat([later, added], dim=1).mT, mode="r")[1].mT
    return triangle, largest_share(added.square().sum(1), later.square().sum(1))


def next_factor(
    A: Float[Tensor, "batch size size"], S: Float[Tensor, "batch size size"], b: Float[Tensor, "batch size 1"]
) -> tuple[Tensor, Tensor, Tensor, float]:
    """Advance the factor by one step, in coordinates where the noise of a step has covariance I.

    Return `S_t`, lower triangular; the contraction `B_t = S_t^-1 A S_(t-1)`; the new signal `S_t^-1 b`; and, where C_t
    is ill-conditioned, the relative difference between two ways of computing that signal.
    """
    AS = A @ S
    C = AS @ AS.mT
    C.diagonal(dim1=1, dim2=2).add_(1)
    if float(C.diagonal(dim1=1, dim2=2).sum(1).max()) < 1 / WELL_CONDITIONED:
        S = torch.linalg.cholesky(C)
        return S, solve_triangular(S, AS, upper=False), solve_triangular(S, b, upper=False), 0.0
    eye = torch.eye(A.shape[1], dtype=A.dtype, device=A.device).expand_as(A)
    orthogonal, triangle = torch.linalg.qr(torch.cat([AS.mT, eye], dim=1))
    B, inverse = orthogonal.mT.split(A.shape[1], dim=2)
    S, new = triangle.mT, inverse @ b
    scale = new.norm(dim=1).amax().clamp(min=torch.finfo(A.dtype).tiny)
    return S, B, new, float((new - solve_triangular(S, b, upper=False)).norm(dim=1).amax() / scale)


def check_steps(S: Float[Tensor, "batch size size"], error: float) -> None:
    """Raise if the factor has lost its digits after many steps."""
    if not torch.isfinite(S).all():
        raise OverflowError("Noise is amplified beyond the range of float64; pass fewer steps.")
    if not error < TOLERANCE:
        raise ValueError(
            f"Noise is amplified so much (up to {float(S.norm(dim=2).max()):.1e} times) that float64 cannot "
            f"distinguish new signals from it: two ways to compute them differ by {error:.1e}. Pass fewer steps."
        )
