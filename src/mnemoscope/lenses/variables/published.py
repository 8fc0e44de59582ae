"""The published way to the memory bases of a trained network: the pseudo-inverse of the readout, and powers of W_hh."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.structure import Structure


def published_structure(
    A: Float[Tensor, "units units"], C: Float[Tensor, "outputs units"], variables: int
) -> Structure | str:
    """Psi_N = C^+, Psi_(N-i) = A^i Psi_N, and the duals by the pseudo-inverse of them all (Karuvally et al. 2023).

    Exact for orthogonal memories that the readout reads alone. Where it also reads what fades, or the memories are far
    from orthogonal, C^+ points elsewhere, and powers carry it further away.
    """
    if variables < 1:
        raise ValueError(f"There is at least one variable, but number is {variables}.")
    blocks = [torch.linalg.pinv(C)]
    for _ in range(variables - 1):
        blocks.insert(0, A @ blocks[0])
    Psi = torch.cat(blocks, 1)
    try:
        basis = MemoryBasis.of(Psi, variables)
    except ValueError as error:
        return f"by the published way there is no memory basis: {error}"
    memories, size = Psi.shape[1], len(C)
    F = basis.dual(-1) @ A @ Psi
    try:
        selected = SignedSelection.from_matrix(F.round(), 0.5) if bool(torch.isfinite(F).all()) else None
    except ValueError:
        selected = None
    singular = torch.linalg.svdvals(Psi)
    ranks = torch.arange(size, memories + 1, size)
    margins = torch.stack([singular[ranks - 1], torch.zeros_like(singular[ranks - 1])], 1)
    trivial = torch.arange(memories), torch.ones(memories, dtype=torch.int64)
    # of each element, how much of what comes next is the one entry it was taken to be
    worst = float((F.abs().max(1).values / F.norm(dim=1)).min())
    return Structure(basis, basis.projection(), ranks, margins, *trivial, F, selected, torch.arange(size), worst)
