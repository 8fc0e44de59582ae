"""Batched linear algebra of the fixed-point search: solutions, inverses, indices and norms."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int


def magnitude(states: Float[Tensor, "batch size"]) -> Float[Tensor, " batch"]:
    """Return the norm of each state, at least sqrt(size): the scale of distances and of rounding errors."""
    return vector_norm(states).clamp_min(states.shape[1] ** 0.5)


def vector_norm(vectors: Float[Tensor, "batch size"]) -> Float[Tensor, " batch"]:
    """Return the Euclidean norm of each vector."""
    return torch.linalg.vector_norm(vectors, dim=1)  # half the time of Tensor.norm for small tensors


def multiply(matrices: Float[Tensor, "batch rows columns"], vectors: Float[Tensor, "batch columns"]) -> Tensor:
    """Return each matrix times its vector (batch, rows)."""
    return torch.bmm(matrices, vectors.unsqueeze(2)).squeeze(2)


def solve(A: Float[Tensor, "batch size size"], b: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
    """Solve `A x = b` for each matrix of a batch; x is not finite where A is singular."""
    if no_batched_lu(A):
        return torch.stack([torch.linalg.solve_ex(matrix, right)[0] for matrix, right in zip(A, b, strict=True)])
    return torch.linalg.solve_ex(A, b)[0]


def inverse_and_index(
    G: Float[Tensor, "batch size size"],
) -> tuple[Float[Tensor, "batch size size"], Int[Tensor, " batch"]]:
    """Return the (pseudo-)inverse and the index sign det(-G) of each G; the index is 0 where rounding may change it."""
    if len(G) > 1 and no_batched_lu(G):
        inverses, indices = zip(*(inverse_and_index(matrix[None]) for matrix in G), strict=True)
        return torch.cat(inverses), torch.cat(indices)
    size = G.shape[1]
    LU, pivots, failed = torch.linalg.lu_factor_ex(G)
    inverse = torch.linalg.lu_solve(LU, pivots, torch.eye(size, dtype=G.dtype, device=G.device).expand_as(G))
    condition = largest_column_sum(G) * largest_column_sum(inverse)
    certain = (failed == 0) & (rounding_of_determinant(G.dtype, size) * condition < 1)
    for row in (~torch.isfinite(inverse).all(2).all(1)).nonzero()[:, 0].tolist():
        inverse[row] = torch.linalg.pinv(G[row]) if torch.isfinite(G[row]).all() else torch.zeros_like(G[row])
    return inverse, torch.where(certain, index_of_factors(LU, pivots), 0)


def index_of_factors(LU: Float[Tensor, "... size size"], pivots: Int[Tensor, "... size"]) -> Int[Tensor, "..."]:
    """Return the index sign det(-G) from the LU factors of G: the signs of U, of the swaps and of -1."""
    size = LU.shape[-1]
    swaps = (pivots != torch.arange(1, size + 1, device=LU.device)).sum(-1)
    negative = (LU.diagonal(dim1=-2, dim2=-1) < 0).sum(-1) + swaps + size
    return 1 - 2 * (negative % 2)


def matrices_at_once(size: int, device: torch.device) -> int:
    """Return how many matrices of this size to work on together.

    On a CPU, about 8 MB: more would not be faster. On a GPU, as many as fit six times into its free memory.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(1, min(1024, free // (6 * 8 * size**2)))
    return max(1, min(256, 2**20 // size**2))


def largest_column_sum(matrices: Float[Tensor, "batch rows columns"]) -> Float[Tensor, " batch"]:
    """Return the 1-norm of each matrix."""
    return matrices.abs().sum(1).amax(1)


def rounding_of_determinant(dtype: torch.dtype, size: int) -> float:
    """Return the relative error of an LU factorisation; times the condition number < 1, the sign of det is certain."""
    return 10 * torch.finfo(dtype).eps * size**0.5


def no_batched_lu(matrices: Float[Tensor, "... rows columns"]) -> bool:
    """Whether to factorise matrices in a loop.

    On a CPU: torch 2.13's batched LU can hang on several threads, seen with two or more matrices of 160 or more rows
    (pytorch #141358, #142815). On a GPU: MAGMA, to which torch gives batches, warns that its routines for batches are
    slow for large matrices; it does so for 4,096 rows, and not for 1,024.
    """
    return matrices.shape[-1] >= (128 if matrices.device.type == "cpu" else 2048)
