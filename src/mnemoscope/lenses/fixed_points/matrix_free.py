"""Matrix-free solvers for large states: Krylov methods that only multiply by the Jacobian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics, Product
from mnemoscope.lenses.fixed_points.solvers import Linearisation, Patience, Solver, limit_step


@dataclass(frozen=True)
class GaussNewtonCG(Solver):
    """Minimisation of q(x) = 1/2 |f|^2 with the Gauss-Newton Hessian `H = J^T J` (Jang, Eq 4-13).

    Each step solves `(J^T J + mu I) p = -J^T f` with mu = damping |f|, as in `LevenbergMarquardt`, but by conjugate
    gradients from products with J and J^T, to a relative accuracy that tightens as q falls.
    """

    iterations: int = 500
    """Upper limit of conjugate-gradient iterations in one step."""

    def chunk(self, size: int, device: torch.device) -> int:
        return max(8, min(256, 2**20 // size))

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Linearisation:
        """Return nothing: the products depend on the damping."""
        return ()

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Linearisation, damping: Tensor) -> Tensor:
        push, pull = dynamics.residual_products(x)
        norm = f.norm(dim=1, keepdim=True)
        mu = damping.unsqueeze(1) * norm
        accuracy = (0.1 * norm).clamp(1e-10, 1e-2)
        return conjugate_gradients(lambda p: pull(push(p)) + mu * p, -pull(f), accuracy, self.iterations)


@dataclass(frozen=True)
class NewtonKrylov(Solver):
    """`Newton` for the largest states: GMRES solves `J p = -f` to a relative accuracy that tightens as f falls."""

    settle: ClassVar[Solver | None] = GaussNewtonCG()

    iterations: int = 80
    """Dimension of the Krylov space."""
    reach: float = 0.3

    def chunk(self, size: int, device: torch.device) -> int:
        return max(8, min(64, 2**16 // size))  # the Krylov bases of a chunk take at most about 40 MB

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Linearisation:
        """Return the full Newton step, to the accuracy of GMRES."""
        push, _ = dynamics.residual_products(x)
        accuracy = f.norm(dim=1).clamp(1e-8, 0.03)
        return (gmres(push, -f, accuracy, self.iterations),)

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Linearisation, damping: Tensor) -> Tensor:
        return limit_step(parts[0], self.reach, x, damping)


@dataclass(frozen=True)
class BriefNewtonKrylov(NewtonKrylov):
    """`NewtonKrylov` that soon gives up: a trial before a solver that factorises matrices.

    Where the state contracts along most directions, GMRES needs few products, which all starts share. Where it does
    not, as in a chaotic reservoir, the trial costs less than one factorisation.
    """

    max_steps: int = 30
    iterations: int = 30

    @property
    def patience(self) -> Patience:
        return Patience(window=3, part=0.5)


def conjugate_gradients(
    multiply: Product, b: Float[Tensor, "batch size"], accuracy: Float[Tensor, "batch 1"], iterations: int
) -> Float[Tensor, "batch size"]:
    """Solve `A x = b` for a batch of symmetric positive definite A, until |b - A x| <= accuracy |b| for all."""
    x = torch.zeros_like(b)
    r = b.clone()
    p = r
    rr = r.square().sum(1, keepdim=True)
    goal = accuracy.square() * rr
    for _ in range(iterations):
        active = rr > goal
        if not active.any():
            break
        Ap = multiply(p)
        alpha = torch.where(active, rr / (p * Ap).sum(1, keepdim=True), 0)
        x = x + alpha * p
        r = r - alpha * Ap
        rr, previous = torch.where(active, r.square().sum(1, keepdim=True), rr), rr
        p = torch.where(active, r + rr / previous * p, p)
    return x


def gmres(
    multiply: Product, b: Float[Tensor, "batch size"], accuracy: Float[Tensor, " batch"], iterations: int
) -> Float[Tensor, "batch size"]:
    """Minimise |b - A x| over the Krylov space of each matrix of a batch, until it is <= accuracy |b| for all.

    Saad & Schultz (1986), with Gram-Schmidt applied twice; the residual is computed every `CHECK_EVERY` iterations.
    """
    n, size = b.shape
    m = min(iterations, size)
    beta = b.norm(dim=1)
    Q = b.new_zeros(n, m + 1, size)  # orthonormal bases in rows
    H = b.new_zeros(n, m + 1, m)
    Q[:, 0] = b / beta.clamp_min(_TINY).unsqueeze(1)
    y = b.new_zeros(n, 0)
    for j in range(m):
        w = multiply(Q[:, j])
        for _ in range(2):
            h = torch.bmm(Q[:, : j + 1], w.unsqueeze(2))  # (n, j+1, 1)
            w = w - torch.bmm(h.mT, Q[:, : j + 1]).squeeze(1)
            H[:, : j + 1, j] += h.squeeze(2)
        length = w.norm(dim=1)
        # an exhausted space (w = 0 up to rounding) holds the solution: further basis vectors are 0
        length = torch.where(length > 1e-14 * H[:, : j + 1, j].norm(dim=1), length, 0)
        H[:, j + 1, j] = length
        Q[:, j + 1] = torch.where(length[:, None] > 0, w / length.clamp_min(_TINY)[:, None], 0)
        if (j + 1) % CHECK_EVERY == 0 or j + 1 == m:
            y, residual = _least_squares(H[:, : j + 2, : j + 1], beta)
            if (residual <= accuracy * beta).all():
                break
    return torch.bmm(y.unsqueeze(1), Q[:, : y.shape[1]]).squeeze(1)


CHECK_EVERY = 10
"""Iterations of GMRES between two computations of the residual."""
_TINY = 1e-300
"""Avoids a division by 0."""


def _least_squares(H: Float[Tensor, "batch rows columns"], beta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the minimiser y of |beta e1 - H y|, and the minimum."""
    Q, R = torch.linalg.qr(H, mode="complete")
    right = Q[:, 0] * beta[:, None]  # Q^T (beta e1)
    R = R[:, :-1].clone()
    diagonal = R.diagonal(dim1=1, dim2=2)
    diagonal[diagonal == 0] = 1  # columns of an exhausted space, where the right-hand side is zero
    y = torch.linalg.solve_triangular(R, right[:, :-1].unsqueeze(2), upper=True).squeeze(2)
    return y, right[:, -1].abs()
