"""The covariance that noise builds up in a linear system: `C = A C A^T + Q`, a Stein equation.

It is summed by doubling: with `A_m = A^(2^m)` and `C_m` the noise of the last `2^m` steps, `C_(m+1) = C_m + A_m C_m
A_m^T`. What the lens needs is a factor, `C = S S^T`. Of a well-conditioned C it is Cholesky's. Where noise is amplified
by orders of magnitude (delay lines), C holds the small directions only as differences of large numbers; the factor is
then doubled itself, `S_(m+1)` being the triangle of `[S_m, A_m S_m]`, which never forms C and keeps every row of S to
its own precision.

In the coordinates of S the noise is white and A is a contraction, `B = S^-1 A S`, `B B^T = I - S^-1 Q S^-T`: whatever
is done there is stable.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, TypeVar

import torch
from scipy.linalg import get_lapack_funcs
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.operators import Dense, Map

WELL_CONDITIONED = 1e-5
"""Reciprocal condition from which the factor of Cholesky is taken: ten digits are left then."""
LARGEST_QR = 2500
"""Numbers of a state up to which the factor itself is doubled where C is ill-conditioned: minutes, and gigabytes."""
ROUGH = 1e-4
"""Relative error from which a result is refused."""
MOST_DOUBLINGS = 50
"""Noise of 1e15 steps."""
SUSPICIOUS = 12
"""Doublings after which one asks whether there is a stationary state at all."""
ROUNDING = 1e-17
"""A share of the variance that float64 would not keep."""


class UnstableError(ValueError):
    """Noise piles up without end."""

    def __init__(self, radius: float) -> None:
        super().__init__(
            f"The spectral radius is {radius:.6g}: what enters piles up without end, and there is no stationary state. "
            f"Scale the matrix below 1, or look at finitely many steps (horizon=<steps> of fisher_memory)."
        )


def covariance_factor(A: Dense, L: Float[Tensor, "size sources"]) -> Float[Tensor, "size size"]:
    """The lower triangular S with `S S^T = C = sum_k A^k L L^T A^kT`; differentiable.

    >>> S = covariance_factor(Dense(torch.tensor([[0.6]], dtype=torch.float64)), torch.eye(1, dtype=torch.float64))
    >>> round((S @ S.mT).item(), 10)  # 1 / (1 - 0.36)
    1.5625
    """
    return _Factor.apply(A.A, L)


class _Factor(torch.autograd.Function):
    """Backward: with `Phi` the lower triangle, its diagonal halved, and K the symmetric part of `Phi(S^T dS)`, the
    gradient at C is `S^-T K S^-1`; what comes back through the Stein equation solves its transpose, `Y = A^T Y A + dC`,
    in the coordinates of S: `Y = S^-T (sum_k B^kT K B^k) S^-1`. Then `dA = 2 Y A C` and `dL = 2 Y L`.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, L: Tensor) -> Tensor:
        S = _factor(Dense(A), L)
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
    """The factor of Cholesky, by whatever structure A has, and about its relative error; differentiable.

    None where it would keep less than ten digits.
    """
    return _cholesky(covariance(A, Q, horizon))


def _cholesky(C: Tensor) -> tuple[Tensor, float] | None:
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


def _factor(A: Dense, L: Tensor) -> Tensor:
    found = _cholesky(covariance(A, L @ L.mT))
    if found is not None:
        return found[0]
    return triangular_factor(A, L)


def triangular_factor(
    A: Dense, L: Float[Tensor, "size sources"], horizon: int | None = None
) -> Float[Tensor, "size size"]:
    """The same factor without forming C: the factor itself is doubled."""
    if A.size > LARGEST_QR:
        raise ValueError(
            f"The covariance of the noise is ill-conditioned, and {A.size} numbers are too many for the square-root "
            f"recursion, which goes up to {LARGEST_QR}."
        )
    S = doubled(A, L, _triangle, horizon)
    if S.shape[0] != S.shape[1] or not (S.diagonal().abs() > 1e-14 * S.norm(dim=1)).all():
        raise ValueError(
            "The noise does not reach every direction of the state, or is amplified beyond float64: there the signal "
            "would be known without any error. Add noise, noise=..., or look at fewer units."
        )
    return S * torch.where(S.diagonal() < 0, -1.0, 1.0)


def covariance(A: Map, Q: Float[Tensor, "size size"], horizon: int | None = None) -> Float[Tensor, "size size"]:
    """`sum_k A^k Q A^kT`, over all k or over `horizon` steps, by doubling."""
    return doubled(A, Q, _sum, horizon)


def gramian(B: Float[Tensor, "size size"], X: Float[Tensor, "size size"]) -> Float[Tensor, "size size"]:
    """`sum_k B^kT X B^k` of a contraction B."""
    for _ in range(MOST_DOUBLINGS):
        X = X + B.mT @ X @ B
        B = B @ B
        if float(B.detach().square().sum()) <= ROUNDING:
            break
    return X


Known = TypeVar("Known")
Join = Callable[[Known, Map, Known], tuple[Known, float]]
"""From what is known of some steps, the power of A that leads past them, and what is known of the steps before: what is
known of all, and the largest share that the steps before have in the variance of a unit."""


def _sum(later: Tensor, power: Map, earlier: Tensor) -> tuple[Tensor, float]:
    added = power(power(earlier).mT)
    return later + added, largest_share(added.diagonal(), later.diagonal())


def _triangle(later: Tensor, power: Map, earlier: Tensor) -> tuple[Tensor, float]:
    added = power(earlier)
    triangle = torch.linalg.qr(torch.cat([later, added], dim=1).mT, mode="r")[1].mT
    return triangle, largest_share(added.square().sum(1), later.square().sum(1))


def largest_share(added: Float[Tensor, " ..."], before: Float[Tensor, " ..."]) -> float:
    """The largest share that what was added has in the variance of a unit."""
    added, before = added.detach().abs(), before.detach().abs()
    return float(torch.where(before > 0, added / before, added.sign()).max())  # a unit may have had no noise yet


def doubled(A: Map, one: Known, join: Join[Known], horizon: int | None) -> Known:
    """What is known of one step, for all steps, by doubling their number (or for `horizon` steps, bit by bit)."""
    seen, power = one, A
    if horizon is not None:
        for bit in f"{horizon:b}"[1:]:
            seen, power = join(seen, power, seen)[0], power.then(power)
            if bit == "1":
                seen, power = join(one, A, seen)[0], power.then(A)
        return seen
    for number in range(MOST_DOUBLINGS):
        seen, share = join(seen, power, seen)
        if share <= ROUNDING:
            return seen
        if number == SUSPICIOUS or not isfinite(share):  # eigenvalues take as long as some doublings
            radius = A.radius()
            if radius >= 1:
                raise UnstableError(radius)
            if not isfinite(share):
                raise OverflowError("Noise is amplified beyond the numbers of float64 before it decays.")
        power = power.then(power)
    return seen


def next_factor(
    A: Float[Tensor, "batch size size"], S: Float[Tensor, "batch size size"], b: Float[Tensor, "batch size 1"]
) -> tuple[Tensor, Tensor, Tensor, float]:
    """One more step, where its noise is 1: `S_t`, lower triangular; the contraction `B_t = S_t^-1 A S_(t-1)`; `S_t^-1
    b`; and, where C_t is ill-conditioned, how far two ways to that differ.
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
    """Refuse, in words, where the factor after many steps has lost its digits."""
    if not torch.isfinite(S).all():
        raise OverflowError("Noise is amplified beyond the numbers of float64; pass fewer steps.")
    if not error < ROUGH:
        raise ValueError(
            f"Noise is amplified so much (up to {float(S.norm(dim=2).max()):.1e} times) that "
            f"float64 cannot tell new signals from it: two ways differ by {error:.1e}. Pass fewer steps."
        )
