"""The formulas of Renanse et al. for matrix networks, as they stand in the paper, to be laid beside the exact ones.

The covariance of a matrix state is taken to be a product, `Sigma (x) Psi`, of the sums over rows and over columns
(their Theorem 1). A sum of products is not the product of the sums: this adds the cross terms, overstates the noise,
and so understates the memory at every lag.
With a queue of one slot, weight 1 (Theorem 4), sums over what the queue gives back do not converge; they are cut off
after a number of terms that the paper does not tell.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.covariance import UnstableError, covariance, covariance_factor
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, powers, spectral_radius
from mnemoscope.lenses.fisher.solving import Solved

TERMS = 8
"""Passes through the queue that are summed."""


def solve_published(system: MatrixSystem, lags: int, terms: int = TERMS) -> Solved:
    """`J_ij = Tr(Sigma^-1 D_i^T Psi^-1 D_j)`: Eq 8 and 12-16 without a queue, Eq 41-42 with one of one slot.

    Eq 13 is read with its misprint put right, `U^i` beside `V^iT`. `U / c` and `c V` make the same network, but other
    sums, and so another J: they are taken as they come.
    """
    if system.slots > 1 or (system.slots == 1 and float(system.weights[0]) != 1):
        raise ValueError(
            f"The paper treats a queue of one slot of weight 1 (its Theorem 4), not of {system.weights.tolist()}; "
            f'method="exact" takes any.'
        )
    _check_sums(system)
    rows = _factor(system.U.mT, system.covariances[0], terms if system.slots else 0)
    columns = _factor(system.V.mT, system.covariances[1], terms if system.slots else 0)
    W = _passed(system, terms) if system.slots else system.W
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
    factor = torch.kron(rows, columns) if system.W.numel() <= 2500 else None
    return Solved(torch.stack(traces), total, factor, float("nan"), f"as published{cut}")


def _check_sums(system: MatrixSystem) -> None:
    """Whether the sums over rows and over columns exist, which is more than that the network has a stationary state."""
    rows, columns = spectral_radius(system.U), spectral_radius(system.V)
    if max(rows, columns) < 1:
        return
    if not system.slots and rows * columns >= 1:
        raise UnstableError(rows * columns)
    remedy = (
        'method="exact" with horizon=<steps> takes any'
        if system.slots
        else f"The network has a stationary state, its spectral radius being their product, {rows * columns:.6g}: "
        f'method="exact" takes it'
    )
    raise ValueError(
        f"The published formulas sum over powers of U and of V apart (Renanse et al. 2021, Eq 9), so that the spectral "
        f"radius of each must be below 1, but they are {rows:.6g} and {columns:.6g}. {remedy}."
    )


def _factor(A: Float[Tensor, "size size"], noise: Tensor, passes: int) -> Float[Tensor, "size size"]:
    """Of Psi or Sigma (Eq 9 and 49); with a queue of the sum of what every pass through it adds."""
    S = covariance_factor(Dense(A), torch.linalg.cholesky(noise))
    if not passes:
        return S
    once = S @ S.mT
    everything = once
    for _ in range(passes):
        once = covariance(Dense(A), once)
        everything = everything + once
    S, failed = torch.linalg.cholesky_ex(everything)
    if failed.item():
        raise ValueError(
            f"After {passes} passes through the queue the published covariance is too ill-conditioned to be inverted: "
            f"its sums do not converge. Take fewer, terms=..., or the exact method."
        )
    return S


def _passed(system: MatrixSystem, passes: int) -> Float[Tensor, "rows columns"]:
    """`sum_m D^m`, `D^m = sum_i U^iT D^(m-1) V^i`: what passes through the queue leave of W, without their delay."""
    everything = once = system.W
    for _ in range(passes):
        once = _summed(system, once)
        everything = everything + once
    return everything


def _summed(system: MatrixSystem, X: Tensor) -> Tensor:
    """`sum_i U^iT X V^i`, by doubling."""
    U, V = system.U, system.V
    for _ in range(60):
        added = U.mT @ X @ V
        X, U, V = X + added, U @ U, V @ V
        if float(added.detach().abs().max()) <= 1e-17 * float(X.detach().abs().max()):
            break
    return X
