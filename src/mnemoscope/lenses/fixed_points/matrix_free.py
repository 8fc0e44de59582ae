"""Matrix-free solvers for large states: Krylov methods that only multiply by the Jacobian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics, Product
from mnemoscope.lenses.fixed_points.linear_algebra import vector_norm
from mnemoscope.lenses.fixed_points.solvers import BRIEF, Linearisation, Patience, Solver, limit_step

KRYLOV_VECTORS = 100
"""Upper estimate of the vectors that a start keeps on a GPU."""


@dataclass(frozen=True)
class GaussNewtonCG(Solver):
    """Minimisation of q(x) = 1/2 |f|^2 with the Gauss-Newton Hessian `H = J^T J` (Jang, Eq 4-13).

    Each step solves `(J^T J + mu I) p = -J^T f` with mu = damping |f|, as in `LevenbergMarquardt`, but by conjugate
    gradients from products with J and J^T, to a relative accuracy that tightens as q falls.
    """

    iterations: int = 500
    """Upper limit of conjugate-gradient iterations in one step."""

    def chunk(self, size: int, device: torch.device) -> int:
        return vectors_at_once(size, device, 256, 2**20)

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
    thorough: bool = True
    """Whether to follow every stuck start to a minimum of q (see `Patience`)."""

    @property
    def patience(self) -> Patience:
        return Patience() if self.thorough else BRIEF

    def chunk(self, size: int, device: torch.device) -> int:
        return vectors_at_once(size, device, 64, 2**16)  # the Krylov bases of a chunk take at most about 40 MB on a CPU

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


def vectors_at_once(size: int, device: torch.device, most: int, numbers: int) -> int:
    """Return how many starts to iterate together: `most` or `numbers` in all on a CPU, as many as fit on a GPU."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(8, min(1024, free // (4 * 8 * KRYLOV_VECTORS * size)))
    return max(8, min(most, numbers // size))


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

    Saad & Schultz (1986), with Gram-Schmidt applied twice. Rotations keep the Hessenberg matrices triangular. Their
    product is stored, so that one product rotates a new column.
    """
    n, size = b.shape
    m = min(iterations, size)
    beta = vector_norm(b)
    Q = b.new_zeros(n, m + 1, size)  # orthonormal bases in rows
    Q[:, 0] = b / beta.clamp_min(_TINY).unsqueeze(1)
    R = b.new_zeros(n, m, m)
    rotations = b.new_zeros(n, m + 1, m + 1)
    rotations[:, 0, 0] = 1
    right = b.new_zeros(n, m + 1)
    right[:, 0] = beta
    used = 0
    for j in range(m):
        w, column = multiply(Q[:, j]), b.new_zeros(n, j + 1)
        for _ in range(2):
            h = torch.bmm(Q[:, : j + 1], w.unsqueeze(2))  # (n, j+1, 1)
            w = w - torch.bmm(h.mT, Q[:, : j + 1]).squeeze(1)
            column += h.squeeze(2)
        length = vector_norm(w)
        # an exhausted space (w = 0 up to rounding) holds the solution: further basis vectors are 0
        length = torch.where(length > 1e-14 * vector_norm(column), length, 0)
        Q[:, j + 1] = torch.where(length[:, None] > 0, w / length.clamp_min(_TINY)[:, None], 0)
        R[:, : j + 1, j] = torch.bmm(rotations[:, : j + 1, : j + 1], column.unsqueeze(2)).squeeze(2)
        _rotate(R, rotations, right, length, j)
        used = j + 1
        if (right[:, used].abs() <= accuracy * beta).all():  # the residuals
            break
    R, right = R[:, :used, :used], right[:, :used]
    diagonal = R.diagonal(dim1=1, dim2=2)
    diagonal[diagonal == 0] = 1  # columns of an exhausted space, where the right-hand side is zero
    y = torch.linalg.solve_triangular(R, right.unsqueeze(2), upper=True)
    return torch.bmm(y.mT, Q[:, :used]).squeeze(1)


def _rotate(R: Tensor, rotations: Tensor, right: Tensor, length: Float[Tensor, " batch"], j: int) -> None:
    """Rotate rows j and j + 1 in place so that the entry `length` below the diagonal of column j vanishes."""
    radius = torch.hypot(R[:, j, j], length)
    cosine = torch.where(radius > 0, R[:, j, j] / radius.clamp_min(_TINY), 1)
    sine = length / radius.clamp_min(_TINY)
    R[:, j, j] = radius
    rotations[:, j + 1] = -sine[:, None] * rotations[:, j]
    rotations[:, j] *= cosine[:, None]
    rotations[:, j, j + 1], rotations[:, j + 1, j + 1] = sine, cosine
    right[:, j + 1], right[:, j] = -sine * right[:, j], cosine * right[:, j]


_TINY = 1e-300
"""Avoids a division by 0."""
