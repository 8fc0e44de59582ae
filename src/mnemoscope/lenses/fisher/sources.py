"""The linear step of a system, the direction in which signals enter it, and the noise."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Elman, as_cell
from mnemoscope.connectivity import Connectivity
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher.matrix_system import Noise, is_symmetric
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.systems import System, checked_matrix, linearised_at, matrix_of

Direction = Inexact[Tensor, " ..."] | np.ndarray | int | None
"""A vector in which signals enter, or the number of an input feature; None where there is only one feature."""


def linear_step(
    system: System, direction: Direction, state: Tensor | None
) -> tuple[Float[Tensor, "size size"], Float[Tensor, " size"]]:
    """Return A and w in float64; gradients flow to tensors that are passed."""
    system = linearised_at(system, state)
    if isinstance(system, Tensor) and system.requires_grad:
        checked_matrix(system)
        A, continuous = system.cpu(), False
    else:
        A, continuous = matrix_of(system, state)
    if continuous:
        raise ValueError("A flow takes no steps: pass the matrix exp(dt A) of its linearisation.")
    if A.is_complex():
        raise ValueError(
            "Fisher memory is defined for real networks; write a complex one with separate real and imaginary parts."
        )
    A = A.to(torch.float64).clone()  # the caller may change theirs
    return A, _checked_vector(_vector(system, direction, state), len(A))


def signal_vector(dynamics: Dynamics, direction: Direction, state: Float[Tensor, "1 size"]) -> Float[Tensor, " size"]:
    """Return only the w of `linear_step`, without forming A."""
    return _checked_vector(_vector(dynamics, direction, state), dynamics.size)


def _checked_vector(w: Tensor | np.ndarray, size: int) -> Float[Tensor, " size"]:
    w = torch.as_tensor(w).to(device="cpu", dtype=torch.float64).clone()
    if w.shape != (size,) or not 0 < float(w.detach().square().sum()) < inf:
        raise ValueError(
            f"direction must be {size} finite numbers, not all of them 0, and of a length whose square float64 can "
            f"hold, but it has the shape {tuple(w.shape)} and the length {float(w.detach().norm()):.3g}."
        )
    return w


def _vector(system: System, direction: Direction, state: Tensor | None) -> Tensor | np.ndarray:
    if direction is not None and not isinstance(direction, (int, np.integer)):
        return direction
    if isinstance(system, Dynamics):
        assert state is not None
        U = system.input_jacobian(state.detach().to(system.origin).reshape(1, -1))
    elif callable(system) and not isinstance(system, Connectivity):
        cell = as_cell(system).frozen(device=torch.device("cpu"))
        assert isinstance(cell, Elman)  # `matrix_of` accepts no other cell
        assert cell.input_size is not None
        eye = torch.eye(cell.input_size, dtype=cell.initial_state(1).dtype)
        U = (cell.drive(eye) - cell.drive(torch.zeros_like(eye))).mT
    else:
        noun = "A fixed point" if isinstance(system, FixedPoints) else "A matrix"
        raise ValueError(f"{noun} has no input: pass direction, the vector by which signals enter.")
    return U[:, _feature(direction, U.shape[1])]


def _feature(direction: Any, features: int) -> int:
    """Return the number of an input feature; it may be omitted if there is only one."""
    if direction is None and features > 1:
        raise ValueError(f"There are {features} input features: pass direction=0 ... {features - 1}, or a vector.")
    if not 0 <= (direction or 0) < features:
        raise ValueError(f"There are {features} input features, numbered from 0, but direction is {direction}.")
    return int(direction or 0)


def input_vector(
    direction: Direction, features: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> Float[Tensor, " features"]:
    """Return a direction in the space of the inputs, given as a vector or as the number of a feature."""
    if direction is None or isinstance(direction, (int, np.integer)):
        return torch.eye(features, dtype=dtype, device=device)[_feature(direction, features)]
    d = torch.as_tensor(direction).detach().to(device=device, dtype=dtype)
    if d.shape != (features,) or not torch.isfinite(d).all() or not d.any():
        raise ValueError(
            f"direction must be {features} finite numbers, not all of them 0, but has the shape {tuple(d.shape)}: it "
            f"lies in the space of the inputs."
        )
    return d


def noise_factor(noise: Noise, size: int) -> Float[Tensor, "size sources"]:
    """Return L with `L L^T = Q`; lower triangular if Q is positive definite."""
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
