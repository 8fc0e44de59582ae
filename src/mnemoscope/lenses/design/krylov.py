"""A matrix in the Krylov basis of a vector, in which a delay line has only a sub-diagonal."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


def in_krylov_basis(A: Float[Tensor, "size size"], first: Float[Tensor, " size"]) -> Float[Tensor, "size size"]:
    """Return A in the orthonormal basis of x, A x, A^2 x, ... (Arnoldi); where these end, other directions follow."""
    basis = (first / torch.linalg.vector_norm(first))[:, None]
    while basis.shape[1] < len(A):
        eye = torch.eye(len(A), dtype=A.dtype)
        for candidates in (A @ basis[:, -1:], eye):
            rest = candidates
            for _ in range(2):  # a second orthogonalisation removes the rounding errors of the first
                rest = rest - basis @ (basis.mT @ rest)
            lengths = torch.linalg.vector_norm(rest, dim=0)
            if float(lengths.max()) > 1e-8:
                break
        chosen = int(lengths.argmax())
        basis = torch.cat([basis, rest[:, chosen : chosen + 1] / lengths[chosen]], dim=1)
    return basis.mT @ A @ basis
