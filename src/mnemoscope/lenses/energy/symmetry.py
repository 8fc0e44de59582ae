"""Symmetry of a matrix W, or of `D W` with a positive diagonal D of row weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from torch import Tensor

from mnemoscope.base.array_types import Float

MOST_UNEVEN = 1e12
"""Largest ratio of row weights that is accepted; beyond it, products of weights are rounding."""
FEW = 8
"""Machine epsilons that count as rounding of a weight."""


@dataclass(frozen=True)
class Symmetry:
    """Row weights D, and the asymmetry that remains with them."""

    weights: Float[Tensor, " size"]
    asymmetry: float
    """|antisymmetric part| / |matrix| of D^(1/2) W D^(-1/2), as spectral norms."""
    lowest: float
    """Lowest eigenvalue of the symmetric part of D^(1/2) W D^(-1/2); that of W if D W is symmetric."""
    norm: float
    """Spectral norm of D^(1/2) W D^(-1/2)."""

    @classmethod
    def from_matrix(cls, W: Float[Tensor, "size size"], weights: Float[Tensor, " size"] | None = None) -> Symmetry:
        """Measure how far W is from symmetric, with weights of its rows if they are given.

        >>> round(Symmetry.from_matrix(torch.tensor([[0.0, -1.0], [1.0, 0.0]])).asymmetry, 6)  # a rotation
        1.0
        """
        D = torch.ones_like(W[0]) if weights is None else weights
        root = D.sqrt()
        B = root[:, None] * W / root
        norm = float(torch.linalg.matrix_norm(B, 2))
        odd = float(torch.linalg.matrix_norm((B - B.mT) / 2, 2))
        return cls(D, odd / norm if norm else 0.0, float(torch.linalg.eigvalsh((B + B.mT) / 2)[0]), norm)


def within_rounding(rounding: float, size: int = 1) -> float:
    """Return the largest antisymmetric part, relative to its matrix, that rounding of the entries explains.

    Entries are off by one machine epsilon of their dtype, or by a few if they are products in that dtype. Products in
    float64 add `size` epsilons of float64.

    >>> within_rounding(torch.finfo(torch.float32).eps) < 1e-6
    True
    """
    return FEW * (rounding + size * torch.finfo(torch.float64).eps)


def describe_asymmetry(asymmetry: float, rounding: bool) -> str:
    """Return the qualification that follows "symmetric"; `rounding`: whether rounding explains the asymmetry."""
    left = "" if asymmetry == 0 else f" up to {asymmetry:.1e} of its norm"
    return left if rounding else f"{left} (more than rounding of its entries: that much can raise the energy)"


def symmetriser(W: Float[Tensor, "size size"]) -> Float[Tensor, " size"] | None:
    """Return weights D > 0 that make D W symmetric if any do; `Symmetry.from_matrix` shows how well.

    `d_i W_ij = d_j W_ji` fixes d_j / d_i for every pair of linked units. The ratios are multiplied along a tree of the
    strongest links. Whether they agree around every loop (Kolmogorov's criterion) shows in D W itself.

    >>> S = torch.tensor([[1.0, 2.0], [2.0, -1.0]])
    >>> symmetriser(S * torch.tensor([1.0, 4.0])).tolist()  # W = S diag(1, 4): D = diag(1, 4), here halved
    [0.5, 2.0]
    """
    logs = _log_weights(W)
    if logs is None or np.ptp(logs) > np.log(MOST_UNEVEN):
        return None
    return torch.from_numpy(np.exp(logs)).to(W.dtype)


def why_no_weights(W: Float[Tensor, "size size"]) -> str:
    """Return why no weights of its units make W symmetric, as the end of a sentence."""
    logs = _log_weights(W)
    if logs is None or np.ptp(logs) <= np.log(MOST_UNEVEN):
        return " and no weights of its units make it symmetric"
    uneven = np.exp(min(np.ptp(logs), 700.0))
    return f"; weights of its units were not tried, as they would differ by a factor of {uneven:.0e}"


def _log_weights(W: Tensor) -> np.ndarray | None:
    M = W.double().numpy()
    link = np.minimum(np.abs(M), np.abs(M.T)) * (M * M.T > 0)
    np.fill_diagonal(link, 0)
    if not link.any():
        return None
    cost = np.where(link > 0, 1 + np.log(link.max() / np.where(link > 0, link, link.max())), 0)
    tree = minimum_spanning_tree(cost)
    tree = tree + tree.T
    logs = np.zeros(len(M))
    _, component = connected_components(tree, directed=False)
    for label in range(component.max() + 1):
        order, before = breadth_first_order(tree, int(np.flatnonzero(component == label)[0]), directed=False)
        for j in order[1:]:
            i = before[j]
            logs[j] = logs[i] + np.log(M[i, j] / M[j, i])
        logs[component == label] -= logs[component == label].mean()
    return logs
