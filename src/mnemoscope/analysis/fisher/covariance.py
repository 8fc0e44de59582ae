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
from torch.autograd.function import once_differentiable
from torch.linalg import solve_triangular

from mnemoscope.analysis.fisher.maps import Dense, Map
from mnemoscope.shapes import Float

WELL_CONDITIONED = 1e-5
"""Reciprocal condition from which the factor of Cholesky is taken: ten digits are left then."""
LARGEST_QR = 2500
"""Numbers of a state up to which the factor itself is doubled where C is ill-conditioned: minutes, and gigabytes."""
MOST_DOUBLINGS = 50
"""Noise of 1e15 steps."""
SUSPICIOUS = 12
"""Doublings after which one asks whether there is a stationary state at all."""
ROUNDING = 1e-17
"""A share of the variance that float64 would not keep."""


class Unstable(ValueError):  # noqa: N818 (what it is, in one word)
    """Noise piles up without end."""

    def __init__(self, radius: float) -> None:
        super().__init__(
            f"The spectral radius is {radius:.6g}: noise piles up without end, and no stationary state remembers "
            f"anything. Scale the matrix below 1, or pass horizon=<steps> for noise and signals of so many steps."
        )


def covariance_factor(
    A: Dense, L: Float[Tensor, "size sources"], horizon: int | None = None
) -> Float[Tensor, "size size"]:
    """The lower triangular S with `S S^T = C = sum_k A^k L L^T A^kT`, over all k or `horizon` steps; differentiable.

    >>> S = covariance_factor(Dense(torch.tensor([[0.6]], dtype=torch.float64)), torch.eye(1, dtype=torch.float64))
    >>> round((S @ S.mT).item(), 10)  # 1 / (1 - 0.36)
    1.5625
    """
    return _Factor.apply(A.A, L, horizon)


class _Factor(torch.autograd.Function):
    """Backward: with `Phi` the lower triangle, its diagonal halved, and K the symmetric part of `Phi(S^T dS)`, the
    gradient at C is `S^-T K S^-1`; what comes back through the Stein equation solves its transpose, `Y = A^T Y A + dC`,
    in the coordinates of S: `Y = S^-T (sum_k B^kT K B^k) S^-1`. Then `dA = 2 Y A C` and `dL = 2 Y L`.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, L: Tensor, horizon: int | None) -> Tensor:
        S = _factor(Dense(A), L, horizon)
        ctx.save_for_backward(A, L, S)
        ctx.horizon = horizon
        return S

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        A, L, S = ctx.saved_tensors
        if ctx.horizon is not None:
            raise NotImplementedError("Gradients go through the stationary state alone; leave horizon away.")
        K = (S.mT @ gradients[0]).tril()
        K.diagonal().mul_(0.5)
        B = solve_triangular(S, A @ S, upper=False)
        Y = solve_triangular(S.mT, gramian(B, (K + K.mT) / 2), upper=True)  # times S from the right
        dA = 2 * Y @ B @ S.mT
        dL = 2 * Y @ solve_triangular(S, L, upper=False)
        return dA, dL, None


def structured_factor(A: Map, Q: Float[Tensor, "size size"]) -> Float[Tensor, "size size"] | None:
    """The factor of Cholesky, by whatever structure A has; None where it would keep less than ten digits."""
    return _cholesky(covariance(A, Q))


def _cholesky(C: Tensor) -> Tensor | None:
    scale = C.diagonal().clamp(min=torch.finfo(C.dtype).tiny).sqrt()
    scaled = C / scale[:, None] / scale
    triangle, failed = torch.linalg.cholesky_ex(scaled)
    if failed.item():
        return None
    (pocon,) = get_lapack_funcs(("pocon",), (triangle.numpy(),))
    condition = pocon(triangle.numpy(), float(scaled.abs().sum(0).max()), uplo="L")[0]
    return scale[:, None] * triangle if condition > WELL_CONDITIONED else None


def _factor(A: Dense, L: Tensor, horizon: int | None) -> Tensor:
    S = _cholesky(covariance(A, L @ L.mT, horizon))
    if S is not None:
        return S
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
                raise Unstable(radius)
            if not isfinite(share):
                raise OverflowError("Noise is amplified beyond the numbers of float64 before it decays.")
        power = power.then(power)
    return seen
