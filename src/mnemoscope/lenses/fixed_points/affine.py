"""Fixed points of a step that is affine in the state, `S' = A S + W` at a constant input, in closed form.

Each head solves `(I - A) S = W` by itself. If A has no eigenvalue 1, there is exactly one solution. Otherwise there is
none, or a whole linear space of them: one dimension for each eigenvector with the eigenvalue 1, and each value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine import AffineCell
from mnemoscope.cells.affine.parts import step_state, transition
from mnemoscope.lenses.dynamics import Dynamics

SINGULAR = 1e-10
"""Singular values of `I - A`, as a share of the largest of A and 1, that count as 0."""


@dataclass(frozen=True)
class AffineSolution:
    """All fixed points of an affine step."""

    nearest: Float[Tensor, "1 size"]
    """The fixed point nearest to 0, as a flat state; where none exists, the state that moves least."""
    dimension: int | None
    """Dimension of the set of fixed points; 0 for a single one, None if no fixed point exists."""


def affine_solution(dynamics: Dynamics) -> AffineSolution | None:
    """Return the fixed points of an affine cell; None for other systems, and for states that are stored scaled."""
    cell = dynamics.cell
    if not isinstance(cell, AffineCell) or cell.scaled or dynamics.continuous:
        return None
    with torch.no_grad():
        parts = cell.parts(cell.project(dynamics.input))
        A, start = transition(parts), cell.initial_state(1).S
        W = step_state(parts, torch.zeros_like(start))
        eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        U, singular, V = torch.linalg.svd(eye - A)
        scale = torch.linalg.matrix_norm(A, ord=2).clamp(min=1).unsqueeze(-1)
        regular = singular > SINGULAR * scale
        inverse = torch.where(regular, 1 / torch.where(regular, singular, 1), 0).to(A.dtype)
        S = V.mH @ (inverse.unsqueeze(-1) * (U.mH @ W))
        missed = torch.linalg.vector_norm((eye - A) @ S - W)
        exists = bool(missed <= SINGULAR * scale.max() * (torch.linalg.vector_norm(W) + torch.linalg.vector_norm(S)))
    free = int((~regular).sum()) * W.shape[-1] * (2 if A.is_complex() else 1)
    return AffineSolution(dynamics.layout.flatten(type(cell.initial_state(1))(S)), free if exists else None)
