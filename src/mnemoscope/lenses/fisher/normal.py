"""Route for normal networks: in the eigenbases of U and V every entry of the state is an independent scalar network.

With `U^T = E diag(l) E^H`, `V = F diag(m) F^H` (the Schur form of a normal matrix is diagonal) and `Y = E^H X F`, the
entry (j, k) follows `y(n) = l_j m_k y(n-1) + sum_t alpha_t y(n-1-t) + b_jk s(n) + z(n)`, `B = E^H W F`. Without a
queue, `J(k) = sum (1 - p) p^k |b|^2 / eps` with `p = |l_j m_k|^2`, and the total is `|W|^2 / eps`: nothing is lost.
"""

from __future__ import annotations

import scipy.linalg
import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.solution import Solution
from mnemoscope.lenses.fisher.square_root import TOLERANCE
from mnemoscope.lenses.fisher.stein import UnstableError, power_sum

ROUTE = "eigenbases of a normal network"


def is_normal(A: Float[Tensor, "size size"]) -> bool:
    """Whether `A A^T = A^T A`, up to rounding."""
    A = A.detach()
    commutator = torch.linalg.matrix_norm(A @ A.mT - A.mT @ A)
    return bool(commutator <= 1e-13 * len(A) ** 0.5 * torch.linalg.matrix_norm(A) ** 2)


def solve_normal(system: MatrixSystem, lags: int, observed: int) -> Solution:
    """Compute traces and total of a network with normal U and V and white noise."""
    (left, E), (right, F) = _eigenbasis(system.U.mT), _eigenbasis(system.V)
    modes = (left[:, None] * right).flatten()
    variance = float(system.covariances[0][0, 0] * system.covariances[1][0, 0])
    b = (E.mH @ system.W.to(E.dtype) @ F).flatten() / variance**0.5
    step = torch.zeros(len(modes), system.slots + 1, system.slots + 1, dtype=modes.dtype)
    step[:, 0, 0] = modes
    step[:, 0, 1:] = system.weights
    for slot in range(system.slots):
        step[:, slot + 1, slot] = 1
    radius = float(torch.linalg.eigvals(step).abs().max())
    if radius >= 1:
        raise UnstableError(radius)
    source = torch.zeros(system.slots + 1, 1, dtype=modes.dtype)
    source[0] = 1
    S = torch.linalg.cholesky(power_sum(step, source @ source.mH, step.mH))
    column = torch.linalg.solve_triangular(S, source.expand(len(modes), -1, -1), upper=False)
    B = torch.linalg.solve_triangular(S, step @ S, upper=False)
    observed_slots = 1 if observed == system.W.numel() else system.slots + 1
    weight = torch.diag((torch.arange(system.slots + 1) < observed_slots).to(modes.dtype))
    total = (b.abs().square() * (column.mH @ power_sum(B.mH, weight, B) @ column).real.flatten()).sum()
    total = total if system.slots else b.abs().square().sum()  # near radius 1 more exact than the sum
    traces = []
    for _ in range(lags):
        traces.append((b[:, None] * column[:, :observed_slots, 0]).flatten())
        column = B @ column
    error = torch.finfo(b.real.dtype).eps / (1 - radius)
    if not error < TOLERANCE:
        raise ValueError(f"The spectral radius, {radius:.15g}, is so near to 1 that rounding determines the curve.")
    return Solution(torch.stack(traces), total, None, error, ROUTE)


def _eigenbasis(A: Tensor) -> tuple[Complex[Tensor, " size"], Complex[Tensor, "size size"]]:
    triangle, basis = scipy.linalg.schur(A.detach().numpy(), output="complex")[:2]
    return torch.from_numpy(triangle.diagonal().copy()), torch.from_numpy(basis)
