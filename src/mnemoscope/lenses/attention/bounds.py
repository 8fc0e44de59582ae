"""Lower bounds on gradients under attention (Kerg, Theorems 4.4.2 and 4.4.3), to compare with measured norms.

Both theorems leave a constant open; `scaled` fixes it by the norm at the last step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact, Int


def uniform_bound(length: int) -> Float[Tensor, " time"]:
    """Return `1 / T` at every step, which uniform attention of the last step passes to each state (Theorem 4.4.2).

    >>> uniform_bound(4)
    tensor([0.2500, 0.2500, 0.2500, 0.2500], dtype=torch.float64)
    """
    if length < 1:
        raise ValueError(f"A sequence has at least one step, but {length} were given.")
    return torch.full((length,), 1 / length, dtype=torch.float64)


def sparse_bound(kappa: int, exponent: Int[Tensor, " time"]) -> Float[Tensor, " time"]:
    """Return `1 / kappa^d` (Theorem 4.4.3), with the exponent of each step.

    The proof (B.1.286) has one weight for each of the d + 1 factors of a chain over d states, which gives
    kappa^-(d + 1). The factors due to recurrence are 1 or more. So the exponent is the number of attention weights on
    the path, `AttentionDependencies.skips`, which is at most d + 1.

    >>> sparse_bound(10, torch.tensor([2, 1, 0]))
    tensor([0.0100, 0.1000, 1.0000], dtype=torch.float64)
    """
    if kappa < 1:
        raise ValueError(f"A step attends to at least one state, but kappa is {kappa}.")
    return float(kappa) ** -exponent.double()


def scaled(bound: Float[Tensor, " time"], norms: Float[Tensor, " time"]) -> Float[Tensor, " time"]:
    """Return the bound times its constant: the norm at the last step, where the loss is evaluated."""
    return bound * float(norms[-1])


def uniform_exponent(eigenvalues: Inexact[Tensor, " size"]) -> float:
    """Return the exponent of T in `|ds_T / dh_t|` as T grows, for a linear network with uniform attention.

    It is the largest `Re(lambda / (1 - lambda)) - 1` over the eigenvalues of a normal matrix, all of modulus below 1.

    With S_k the sum of `C_j = ds_{t+j}/dh_t` up to k, the recursion `S_k - S_{k-1} = (1 + lambda S_{k-1}) / (t + k) +
    lambda (S_{k-1} - S_{k-2})` is solved by the constant -1 / lambda, which adds nothing to C, and by sums that grow as
    `T^(lambda / (1 - lambda))`. The source prints `c / T + c' T^(lambda - 1)` (B.1.243): its second term equals this to
    first order in lambda, and its first term exists only for lambda = 0. So the bound 1 / T of Theorem B.1.34 needs an
    eigenvalue with `|lambda - 1/2| <= 1/2`; if all eigenvalues are negative, for example, the gradient fades faster.

    >>> uniform_exponent(torch.tensor([0.0, -0.5])), round(uniform_exponent(torch.tensor([-0.5])), 4)
    (-1.0, -1.3333)
    """
    largest = float(eigenvalues.abs().max())
    if largest >= 1:
        raise ValueError(f"The exponent is known for eigenvalues of modulus below 1, but one is {largest:.4g}.")
    wide = eigenvalues.to(torch.promote_types(eigenvalues.dtype, torch.complex128))
    return float((wide / (1 - wide)).real.max()) - 1
