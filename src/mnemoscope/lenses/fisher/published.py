"""The formulas of Renanse et al. for matrix networks as printed, for comparison with the exact ones.

The covariance of a matrix state is taken to be a product, `Sigma (x) Psi`, of the sums over rows and over columns
(their Theorem 1). A sum of products is not the product of the sums: this adds the cross terms, overstates the noise,
and so understates the memory at every lag.
With a queue of one slot of weight 1 (Theorem 4) the sums over passes through the queue do not converge. They are cut
off after a number of terms that the paper does not state.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, powers, spectral_radius
from mnemoscope.lenses.fisher.solution import Solution
from mnemoscope.lenses.fisher.square_root import LARGEST_QR, covariance_factor
from mnemoscope.lenses.fisher.stein import UnstableError, covariance, power_sum

TERMS = 8
"""Number of passes through the queue that are summed."""


def solve_published(system: MatrixSystem, lags: int, terms: int = TERMS) -> Solution:
    """Compute `J_ij = Tr(Sigma^-1 D_i^T Psi^-1 D_j)`: Eq 8 and 12-16 without a queue, Eq 41-42 with one slot.

    A misprint in Eq 13 is corrected: `U^i` with `V^iT`. `U / c` and `c V` define the same network, but give different
    sums and so a different J; U and V are used as given.
    """
    if system.slots > 1 or (system.slots == 1 and float(system.weights[0]) != 1):
        raise ValueError(
            f"The paper treats a queue of one slot of weight 1 (its Theorem 4), not of {system.weights.tolist()}; "
            f'method="exact" takes any.'
        )
    _check_convergence(system)
    passes = terms if system.slots else 0
    rows = _factor(system.U.mT, system.covariances[0], passes)
    columns = _factor(system.V.mT, system.covariances[1], passes)
    # sum_m D^m, D^m = sum_i U^iT D^(m-1) V^i: W after all passes through the queue, without their delay
    W = _sum_over_passes(lambda D: power_sum(system.U.mT, D, system.V), system.W, passes)
    step = Kronecker(system.U.mT, system.V.mT)
    traces, total = [], torch.zeros((), dtype=W.dtype)
    for number, signal in enumerate(powers(step, W.flatten())):
        whitened = solve_triangular(rows, signal.view(W.shape), upper=False)
        trace = solve_triangular(columns, whitened.mT, upper=False).mT.flatten()
        information = trace.square().sum()
        total = total + information
        if number < lags:
            traces.append(trace)
        elif not float(information.detach()) > 1e-18 * float(total.detach()):
            break
    cut = f", the queue cut off after {terms} passes" if system.slots else ""
    factor = torch.kron(rows, columns) if system.W.numel() <= LARGEST_QR else None
    return Solution(torch.stack(traces), total, factor, float("nan"), f"as published{cut}")


def _check_convergence(system: MatrixSystem) -> None:
    """Raise unless the sums over rows and over columns converge, which is more than the network's stability."""
    rows, columns = spectral_radius(system.U), spectral_radius(system.V)
    if max(rows, columns) < 1:
        return
    if not system.slots and rows * columns >= 1:
        raise UnstableError(rows * columns)
    remedy = (
        'method="exact" with horizon=<steps> takes any'
        if system.slots
        else f"The network has a stationary state, because the product, {rows * columns:.6g}, is below 1: "
        f'method="exact" takes it'
    )
    raise ValueError(
        f"The published formulas sum over the powers of U and of V separately (Renanse et al. 2021, Eq 9), so that the "
        f"spectral radius of each must be below 1, but they are {rows:.6g} and {columns:.6g}. {remedy}."
    )


def _factor(A: Float[Tensor, "size size"], noise: Tensor, passes: int) -> Float[Tensor, "size size"]:
    """Return the factor of Psi or Sigma (Eq 9 and 49), summed over the passes through a queue."""
    S = covariance_factor(Dense(A), torch.linalg.cholesky(noise))
    if not passes:
        return S
    S, failed = torch.linalg.cholesky_ex(_sum_over_passes(lambda Q: covariance(Dense(A), Q), S @ S.mT, passes))
    if failed.item():
        raise ValueError(
            f"After {passes} passes through the queue the published covariance is too ill-conditioned to be inverted: "
            f"its sums do not converge. Take fewer, terms=..., or the exact method."
        )
    return S


def _sum_over_passes(one_pass: Callable[[Tensor], Tensor], first: Tensor, passes: int) -> Tensor:
    total = term = first
    for _ in range(passes):
        term = one_pass(term)
        total = total + term
    return total
