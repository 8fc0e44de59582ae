"""Memory bases by the published method: the pseudo-inverse of the readout, and powers of W_hh."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.structure import Structure


def structure_by_powers(
    A: Float[Tensor, "units units"], C: Float[Tensor, "outputs units"], variables: int
) -> Structure | str:
    """Return the structure with Psi_N = C^+, Psi_(N-i) = A^i Psi_N and the duals Psi^+ (Karuvally et al. 2023).

    This is exact for orthogonal memories if the readout reads nothing else. If it also reads transients, or the
    memories are far from orthogonal, C^+ has other components, and powers of A amplify them.
    """
    if variables < 1:
        raise ValueError(f"There is at least one variable, but number is {variables}.")
    blocks = [torch.linalg.pinv(C)]
    for _ in range(variables - 1):
        blocks.insert(0, A @ blocks[0])
    Psi = torch.cat(blocks, 1)
    try:
        basis = MemoryBasis.from_vectors(Psi, variables)
    except ValueError as error:
        return f"the published method yields no memory basis: {error}"
    memories, size = Psi.shape[1], len(C)
    F = basis.dual(-1) @ A @ Psi
    try:
        selection = SignedSelection.from_matrix(F.round(), 0.5) if bool(torch.isfinite(F).all()) else None
    except ValueError:
        selection = None
    singular = torch.linalg.svdvals(Psi)
    ranks = torch.arange(size, memories + 1, size)
    margins = torch.stack([singular[ranks - 1], torch.zeros_like(singular[ranks - 1])], 1)
    groups, signs = torch.arange(memories), torch.ones(memories, dtype=torch.int64)
    # the lowest share, over the rows of F, that the largest entry has of the row's norm
    worst = float((F.abs().max(1).values / F.norm(dim=1)).min())
    projection, outputs = basis.projection(), torch.arange(size)
    return Structure(basis, projection, ranks, margins, groups, signs, F, outputs, worst, selection)
