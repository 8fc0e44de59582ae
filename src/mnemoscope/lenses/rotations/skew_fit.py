"""Linear dynamics dx = M x by least squares, with any matrix or with a skew-symmetric one; planes of rotation."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


def fit_any(
    states: Float[Tensor, "samples size"], changes: Float[Tensor, "samples size"]
) -> Float[Tensor, "size size"]:
    """Return the matrix M with the least squared error of changes = states M'."""
    return torch.linalg.lstsq(states, changes).solution.T


def fit_skew(
    states: Float[Tensor, "samples size"], changes: Float[Tensor, "samples size"]
) -> Float[Tensor, "size size"]:
    """Return the skew-symmetric matrix with the least squared error (Churchland et al. 2012), in closed form.

    With C = X'X and K = Y'X - X'Y, the error is least where M C + C M = K, since the gradient has no skew part there.
    In the basis of eigenvectors of C with eigenvalues c, M_ij = K_ij / (c_i + c_j).
    """
    powers, basis = torch.linalg.eigh(states.T @ states)
    crossed = basis.T @ (changes.T @ states) @ basis
    sums = powers.unsqueeze(0) + powers.unsqueeze(1)
    known = sums > 1e-14 * powers.max()  # no data along the other pairs
    entries = torch.where(known, (crossed - crossed.T) / torch.where(known, sums, 1), 0)
    return basis @ entries @ basis.T


def explained(
    states: Float[Tensor, "samples size"], changes: Float[Tensor, "samples size"], matrix: Float[Tensor, "size size"]
) -> float:
    """Return R^2: the share of the squared changes that the matrix predicts."""
    rest = changes - states @ matrix.T
    return 1 - float((rest**2).sum() / (changes**2).sum())


def rotation_planes(
    matrix: Float[Tensor, "size size"],
) -> tuple[Float[Tensor, "planes 2 size"], Float[Tensor, " planes"]]:
    """Return orthonormal planes of a skew-symmetric matrix and their angles per step in radians, fastest first.

    In each plane, the rotation goes from the first vector to the second. Directions that do not rotate are paired.
    """
    values, vectors = torch.linalg.eigh(1j * matrix)  # Hermitian; the eigenvalues of M are -i times these
    fast = values.flip(0)[: len(matrix) // 2]
    chosen = vectors.flip(1)[:, : len(matrix) // 2].T  # M v = -i w v: M Re v = w Im v, so that Re v turns to Im v
    planes = torch.stack([chosen.real, chosen.imag], 1) * 2**0.5
    # At w = 0, Re v and Im v need not be orthogonal: any basis of the rest serves.
    turning = fast > 1e-12 * fast[0]
    basis = torch.linalg.svd(planes[turning].flatten(0, 1), full_matrices=True)[2]
    still = basis[2 * int(turning.sum()) :][: 2 * int((~turning).sum())]
    return torch.cat([planes[turning], still.unflatten(0, (-1, 2))]), torch.where(turning, fast, 0.0)
