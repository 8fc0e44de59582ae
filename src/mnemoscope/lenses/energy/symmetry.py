"""Whether a matrix is symmetric, or becomes so when its rows are weighted: `D W` with a positive diagonal D."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from torch import Tensor

from mnemoscope.base.array_types import Float

MOST_UNEVEN = 1e12
"""Weights are not taken where the largest is more than so many times the smallest: their products are rounding."""


FEW = 8
"""Units of the last place that count as rounding of a weight."""


@dataclass(frozen=True)
class Symmetry:
    """The weights D and what is left of asymmetry with them."""

    weights: Float[Tensor, " size"]
    asymmetry: float
    """|antisymmetric part| / |matrix| of D^(1/2) W D^(-1/2), largest singular values."""
    lowest: float
    """The lowest eigenvalue of the symmetric part of D^(1/2) W D^(-1/2): of W itself, where D W is symmetric."""
    norm: float
    """The largest singular value of D^(1/2) W D^(-1/2)."""


def symmetry(W: Float[Tensor, "size size"], weights: Float[Tensor, " size"] | None = None) -> Symmetry:
    """How far W is from symmetric, with weights of its rows if they are given.

    >>> round(symmetry(torch.tensor([[0.0, -1.0], [1.0, 0.0]])).asymmetry, 6)  # a rotation
    1.0
    """
    D = torch.ones_like(W[0]) if weights is None else weights
    root = D.sqrt()
    B = root[:, None] * W / root
    norm = float(torch.linalg.matrix_norm(B, 2))
    odd = float(torch.linalg.matrix_norm((B - B.mT) / 2, 2))
    return Symmetry(D, odd / norm if norm else 0.0, float(torch.linalg.eigvalsh((B + B.mT) / 2)[0]), norm)


def within_rounding(rounding: float, size: int = 1) -> float:
    """How large the antisymmetric part may be, relative to its matrix, to be rounding of the entries.

    Entries are off by a unit of their last place, or a few where a product was made of them in their own precision.
    What was multiplied in float64 adds `size` units of that.

    >>> within_rounding(torch.finfo(torch.float32).eps) < 1e-6
    True
    """
    return FEW * (rounding + size * torch.finfo(torch.float64).eps)


def symmetric_up_to(asymmetry: float, rounding: bool) -> str:
    """How a matrix is symmetric, in words that follow "symmetric"."""
    left = "" if asymmetry == 0 else f" up to {asymmetry:.1e} of its norm"
    return left if rounding else f"{left} (more than rounding of its entries: that much can raise the energy)"


def symmetriser(W: Float[Tensor, "size size"]) -> Float[Tensor, " size"] | None:
    """Weights D > 0 that make D W symmetric, if any do; the caller sees by `symmetry` how well they do.

    `d_i W_ij = d_j W_ji` fixes d_j / d_i wherever i and j are linked. Ratios are followed along a tree of the strongest
    links, unit by unit; whether they agree around every loop (Kolmogorov's criterion), D W itself tells.

    >>> S = torch.tensor([[1.0, 2.0], [2.0, -1.0]])
    >>> symmetriser(S * torch.tensor([1.0, 4.0])).tolist()  # W = S diag(1, 4): D = diag(1, 4), here halved
    [0.5, 2.0]
    """
    logs = _logarithms(W)
    if logs is None or np.ptp(logs) > np.log(MOST_UNEVEN):
        return None
    return torch.from_numpy(np.exp(logs)).to(W.dtype)


def unevenness(W: Float[Tensor, "size size"]) -> float:
    """Largest weight over smallest, of those that would make D W symmetric if any do; 1 where no units are linked."""
    logs = _logarithms(W)
    return 1.0 if logs is None else float(np.exp(min(np.ptp(logs), 700.0)))


def _logarithms(W: Tensor) -> np.ndarray | None:
    M = W.double().numpy()
    link = np.minimum(np.abs(M), np.abs(M.T)) * (M * M.T > 0)
    np.fill_diagonal(link, 0)
    if not link.any():
        return None
    cost = np.where(link > 0, 1 + np.log(link.max() / np.where(link > 0, link, link.max())), 0)
    tree = minimum_spanning_tree(cost)
    tree = tree + tree.T
    logs = np.zeros(len(M))
    _, part = connected_components(tree, directed=False)
    for label in range(part.max() + 1):
        order, before = breadth_first_order(tree, int(np.flatnonzero(part == label)[0]), directed=False)
        for j in order[1:]:
            i = before[j]
            logs[j] = logs[i] + np.log(M[i, j] / M[j, i])
        logs[part == label] -= logs[part == label].mean()
    return logs
