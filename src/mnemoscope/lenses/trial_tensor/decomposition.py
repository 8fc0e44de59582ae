"""Canonical polyadic decomposition by alternating least squares, with missing entries, and the match of two of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float

Factors = tuple[Tensor, Tensor, Tensor]
"""Matrices (trials, rank), (time, rank) and (units, rank)."""
_OTHERS = ((1, 2), (0, 2), (0, 1))
RIDGE = 1e-10
"""Added to the normal equations, relative to their trace: components may become collinear."""


@dataclass(frozen=True)
class Fit:
    """One decomposition: factors with columns of length 1, and the length of every component."""

    factors: Factors
    lengths: Float[Tensor, " rank"]
    error: float
    """Squared error of the known entries, as a share of their sum of squares."""
    converged: bool


def reconstruct(factors: Factors, lengths: Float[Tensor, " rank"]) -> Float[Tensor, "trials time units"]:
    """Return the sum over components of the products of their factors."""
    return torch.einsum("r,ir,jr,kr->ijk", lengths, *factors)


def decompose(
    data: Float[Tensor, "trials time units"],
    known: Bool[Tensor, "trials time units"],
    rank: int,
    generator: torch.Generator,
    *,
    iterations: int = 500,
    tolerance: float = 1e-8,
) -> Fit:
    """Fit a decomposition to the known entries from a random start.

    Each factor in turn is the solution of a linear least-squares problem, one for each of its rows; the rows share
    their normal equations where nothing is missing.
    """
    values = torch.where(known, data, 0.0)
    power = float((values**2).sum())
    factors = [torch.randn(size, rank, dtype=torch.float64, generator=generator) for size in data.shape]
    complete, error, converged = bool(known.all()), torch.inf, False
    for _ in range(iterations):
        for mode in range(3):
            factors[mode] = _solve(values, known, factors, mode, complete)
            if mode < 2:  # the last factor carries the lengths
                factors[mode] = factors[mode] / factors[mode].norm(dim=0).clamp_min(1e-150)
        rest = torch.where(known, values - torch.einsum("ir,jr,kr->ijk", *factors), 0.0)
        before, error = error, float((rest**2).sum()) / power
        if before - error < tolerance:
            converged = True
            break
    lengths = factors[2].norm(dim=0)
    order = lengths.argsort(descending=True)
    factors[2] = factors[2] / lengths.clamp_min(1e-150)
    first, second, third = _positive(*(factor[:, order] for factor in factors))
    return Fit((first, second, third), lengths[order], error, converged)


def _solve(values: Tensor, known: Tensor, factors: list[Tensor], mode: int, complete: bool) -> Tensor:
    one, other = (factors[place] for place in _OTHERS[mode])
    products = torch.einsum("jr,kr->jkr", one, other).flatten(0, 1)  # Khatri-Rao
    right = values.movedim(mode, 0).flatten(1) @ products  # (rows, rank)
    if complete:
        normal = ((one.T @ one) * (other.T @ other)).unsqueeze(0)
    else:
        squares = torch.einsum("nr,ns->nrs", products, products).flatten(1)
        normal = (known.movedim(mode, 0).flatten(1).double() @ squares).unflatten(1, (len(one.T), -1))
    scale = RIDGE * normal.diagonal(dim1=1, dim2=2).sum(1) + 1e-300
    normal = normal + scale[:, None, None] * torch.eye(normal.shape[1], dtype=torch.float64)
    return torch.linalg.solve(normal, right.unsqueeze(2))[..., 0]


def _positive(first: Tensor, second: Tensor, third: Tensor) -> Factors:
    """Turn the signs of factors, in pairs, so that those of time and units are positive in sum."""
    time, units = (torch.where(each.sum(0) < 0, -1.0, 1.0) for each in (second, third))
    return first * time * units, second * time, third * units


def similarity(one: Fit, other: Fit) -> float:
    """Return how well the components of two fits match, 1 if they are the same but for their order.

    The score of a pair is the product of the cosines of its factors, which must not be negative, times one minus the
    relative difference of the lengths; pairs are matched one to one for the largest sum.
    """
    from scipy.optimize import linear_sum_assignment

    score = torch.ones(len(one.lengths), len(one.lengths), dtype=torch.float64)
    for first, second in zip(one.factors, other.factors, strict=True):
        score = score * (first.T @ second)
    lengths = torch.stack(torch.meshgrid(one.lengths, other.lengths, indexing="ij"))
    score = score * (1 - (lengths[0] - lengths[1]).abs() / lengths.amax(0).clamp_min(1e-300))
    rows, columns = linear_sum_assignment(-score.numpy())
    return float(score[rows, columns].mean())
