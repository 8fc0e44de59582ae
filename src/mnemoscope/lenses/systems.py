"""The systems that lenses on matrices accept: a matrix, a module that yields one, a cell, a linearisation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Cell, Elman, Model
from mnemoscope.cells.from_torch import TORCH_NETWORKS
from mnemoscope.connectivity import Connectivity
from mnemoscope.lenses.dynamics import Dynamics, as_cell
from mnemoscope.lenses.fixed_points.result import FixedPoints

System = Tensor | np.ndarray | nn.Module | Dynamics | FixedPoints
"""Anything with a matrix; `matrix_of` returns it."""


def matrix_of(system: System, state: Float[Tensor, " ..."] | None = None) -> tuple[Inexact[Tensor, "size size"], bool]:
    """Return the matrix on the CPU, in the dtype it is given in, and whether it generates a flow instead of a map."""
    if isinstance(system, Dynamics):
        return checked_matrix(_jacobian(system, state)), system.continuous
    if state is not None:
        raise ValueError(f"A state belongs to a Dynamics, which is linearised there, not to a {type(system).__name__}.")
    if isinstance(system, FixedPoints):
        if len(system) != 1:
            raise ValueError(f"The lens takes one fixed point, but {len(system)} were given; choose one: fp[0].")
        return checked_matrix(system.jacobians[0]), system.continuous
    if isinstance(system, (Cell, Model, *TORCH_NETWORKS)):
        return checked_matrix(_recurrent_matrix(as_cell(system))), False
    if isinstance(system, nn.Module):
        if not isinstance(system, Connectivity):
            raise TypeError(
                f"A matrix can be read off a Connectivity, an Elman cell or a torch.nn.RNN, not a "
                f"{type(system).__name__}; linearise other networks: Dynamics(network) and a state."
            )
        with torch.no_grad():
            return checked_matrix(system()), False
    return checked_matrix(system), False


def checked_matrix(given: Tensor | np.ndarray) -> Inexact[Tensor, "size size"]:
    """Return a matrix of floating-point numbers on the CPU; raise unless it is square and finite."""
    matrix = torch.as_tensor(given).detach().cpu().resolve_conj()
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"A square matrix (size, size) is needed, but its shape is {tuple(matrix.shape)}.")
    matrix = matrix if matrix.is_complex() or matrix.is_floating_point() else matrix.double()
    bad = int((~torch.isfinite(matrix)).sum())
    if bad:
        raise ValueError(f"The matrix has {bad} NaN or infinite entr{'ies' if bad > 1 else 'y'} of {matrix.numel()}.")
    return matrix


def _recurrent_matrix(cell: Cell) -> Tensor:
    cell = cell.frozen()
    if not isinstance(cell, Elman):
        raise TypeError(
            f"A {type(cell).__name__} has no single recurrent matrix; use its linearisation: "
            f"Dynamics(cell) and a state, or one of its fixed points."
        )
    return cell.connectivity()


def _jacobian(dynamics: Dynamics, state: Tensor | None) -> Tensor:
    if state is None:
        raise ValueError("A Dynamics is linearised at a state: pass it, or pass one of its fixed points, fp[0].")
    flat = state.detach().to(dynamics.dtype).to(dynamics.device).reshape(-1)
    if len(flat) != dynamics.size:
        raise ValueError(f"The state must have {dynamics.size} numbers, but its shape is {tuple(state.shape)}.")
    return dynamics.jacobian(flat[None])[0]
