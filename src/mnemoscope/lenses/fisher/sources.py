"""The linear step of a system, the direction by which signals enter it, and the noise."""

from __future__ import annotations

from math import inf

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Cell, Elman, adapt
from mnemoscope.cells.from_torch import TORCH_NETWORKS
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher.matrix_system import Noise, is_symmetric
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.systems import System, checked_matrix, matrix_of


def linear_step(
    system: System, direction: Inexact[Tensor, " size"] | np.ndarray | int | None, state: Tensor | None
) -> tuple[Float[Tensor, "size size"], Float[Tensor, " size"]]:
    """A and w in float64; gradients go through where a tensor is given."""
    if isinstance(system, Tensor) and system.requires_grad:
        checked_matrix(system)
        A, continuous = system.cpu(), False
    else:
        A, continuous = matrix_of(system, state)
    if continuous:
        raise ValueError("A flow takes no steps: pass the matrix exp(dt A) of its linearisation.")
    if A.is_complex():
        raise ValueError("Fisher memory is of real networks; of a complex one, write real and imaginary part apart.")
    A = A.to(torch.float64).clone()  # the user's may change
    return A, checked_direction(_direction(system, direction, state), len(A))


def entering(
    dynamics: Dynamics, direction: Inexact[Tensor, " size"] | np.ndarray | int | None, state: Float[Tensor, "1 size"]
) -> Float[Tensor, " size"]:
    """The w of `linear_step` alone, where A need not be formed."""
    return checked_direction(_direction(dynamics, direction, state), dynamics.size)


def checked_direction(w: Tensor | np.ndarray, size: int) -> Float[Tensor, " size"]:
    """In float64 on the CPU, or an error in words."""
    w = torch.as_tensor(w).to(device="cpu", dtype=torch.float64).clone()
    if w.shape != (size,) or not 0 < float(w.detach().square().sum()) < inf:
        raise ValueError(
            f"direction must be {size} finite numbers, not all of them 0, and of a length whose square float64 can "
            f"hold, but it has the shape {tuple(w.shape)} and the length {float(w.detach().norm()):.3g}."
        )
    return w


def _direction(
    system: System, direction: Inexact[Tensor, " size"] | np.ndarray | int | None, state: Tensor | None
) -> Tensor | np.ndarray:
    if direction is not None and not isinstance(direction, (int, np.integer)):
        return direction
    number = int(direction or 0)
    if isinstance(system, Dynamics):
        assert state is not None
        U = system.input_jacobian(state.detach().to(system.dtype).reshape(1, -1))
    elif isinstance(system, (Cell, *TORCH_NETWORKS)):
        cell = adapt(system).frozen()
        assert isinstance(cell, Elman)  # matrix_of has seen to it
        assert cell.input_size is not None
        eye = torch.eye(cell.input_size, dtype=cell.initial_state(1).dtype)
        U = (cell.drive(eye) - cell.drive(torch.zeros_like(eye))).mT
    else:
        what = "A fixed point" if isinstance(system, FixedPoints) else "A matrix"
        raise ValueError(f"{what} has no input: pass direction, the vector by which signals enter.")
    if not 0 <= number < U.shape[1]:
        raise ValueError(f"The network has {U.shape[1]} input features, numbered from 0, but direction is {number}.")
    if direction is None and U.shape[1] > 1:
        raise ValueError(
            f"The network has {U.shape[1]} input features: pass direction=0 ... {U.shape[1] - 1}, or a vector."
        )
    return U[:, number]


def noise_factor(noise: Noise, size: int) -> Float[Tensor, "size sources"]:
    """L with `L L^T = Q`."""
    if not isinstance(noise, (int, float, np.number, Tensor, np.ndarray)):
        raise ValueError(f"noise must be a variance or a covariance ({size}, {size}), but is {noise!r}.")
    Q = torch.as_tensor(noise, dtype=torch.float64)
    if Q.dim() == 0:
        if not 0 < float(Q.detach()) < inf:
            raise ValueError(f"noise must be positive (and finite), but is {float(Q.detach()):.3g}.")
        return Q.sqrt() * torch.eye(size, dtype=torch.float64)
    if Q.shape != (size, size) or not torch.isfinite(Q).all() or not is_symmetric(Q):
        raise ValueError(f"noise must be a variance or a symmetric covariance ({size}, {size}).")
    Q = (Q + Q.mT) / 2
    L, failed = torch.linalg.cholesky_ex(Q)
    if not failed.item():
        return L
    values, vectors = torch.linalg.eigh(Q)
    if float(values[0]) < -1e-12 * float(values[-1].abs()) or float(values[-1]) <= 0:
        raise ValueError(f"noise must be positive (semi-definite), but has the eigenvalue {float(values[0]):.3g}.")
    kept = values > 1e-14 * values[-1]
    return vectors[:, kept] * values[kept].sqrt()
