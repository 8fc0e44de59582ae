"""The systems that lenses on matrices accept: a matrix, a module that yields one, a cell, a linearisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Cell, Elman, Network, as_cell
from mnemoscope.connectivity import Connectivity
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints

System = Tensor | np.ndarray | Network | Dynamics | FixedPoints
"""Anything with a matrix; `matrix_of` returns it."""


def linearised_at(system: Any, state: Any) -> Any:
    """Return a network that is to be linearised at a state as a `Dynamics`, and any other system unchanged."""
    if state is None or isinstance(system, Dynamics | Connectivity) or not callable(system):
        return system
    return as_dynamics(system, state.reshape(1, -1) if isinstance(state, Tensor) else state)


def matrix_of(system: System, state: Float[Tensor, " ..."] | None = None) -> tuple[Inexact[Tensor, "size size"], bool]:
    """Return the matrix on the CPU, in the dtype it is given in, and whether it generates a flow instead of a map."""
    system = linearised_at(system, state)
    if isinstance(system, Dynamics):
        return checked_matrix(_jacobian(system, state)), system.continuous
    if state is not None:
        raise ValueError(
            f"A state belongs to a Dynamics or a network, which is linearised there, not to a {type(system).__name__}."
        )
    if isinstance(system, FixedPoints):
        if len(system) != 1:
            raise ValueError(f"The lens takes one fixed point, but {len(system)} were given; choose one: fp[0].")
        return checked_matrix(system.jacobians[0]), system.continuous
    if isinstance(system, Connectivity):
        with torch.no_grad():
            return checked_matrix(system()), False
    if callable(system):
        return checked_matrix(_recurrent_matrix(as_cell(system))), False
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
            f"A {type(cell).__name__} has no single recurrent matrix; use its linearisation: pass state=..., or one of "
            f"its fixed points, find_fixed_points(network)[0]."
        )
    return cell.connectivity()


def _jacobian(dynamics: Dynamics, state: Tensor | None) -> Tensor:
    if state is None:
        raise ValueError("A Dynamics is linearised at a state: pass it, or pass one of its fixed points, fp[0].")
    flat = state.detach().to(dynamics.dtype).to(dynamics.device).reshape(-1)
    if len(flat) != dynamics.size:
        raise ValueError(f"The state must have {dynamics.size} numbers, but its shape is {tuple(state.shape)}.")
    return dynamics.jacobian(flat[None])[0]
