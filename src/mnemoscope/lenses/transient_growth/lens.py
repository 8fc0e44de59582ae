"""The transient lens: how the norm and the spread of an ensemble of states change over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Inexact
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import as_cell
from mnemoscope.connectivity import Connectivity
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.systems import System, matrix_of
from mnemoscope.lenses.transient_growth.result import Transients

Step = Callable[[Tensor], Tensor]


@show_slow("transients")
def transients(
    system: System,
    steps: int = 100,
    starts: str | Inexact[Tensor, "starts size"] | np.ndarray = "sphere",
    *,
    number: int = 1000,
    centre: Inexact[Tensor, " size"] | np.ndarray | None = None,
    radius: float = 1.0,
    seed: int = 0,
) -> Transients:
    """Run an ensemble of states from a sphere, and record its norms and spreads.

    Args:
        system: a square matrix or a `Connectivity`, applied repeatedly; any network or a `Dynamics`,
            with its nonlinear step at its constant input; or one fixed point, `fp[0]`, for the linearisation there.
        steps: number of steps.
        starts: "sphere" for directions uniform on the sphere; "inputs" for random directions in which the input of a
            network can push its resting state; or the states (starts, size) themselves.
        number: number of starts to draw.
        centre: centre of the sphere (size,), such as a fixed point; the origin by default.
        radius: radius of the sphere.
        seed: seed of the draw.

    """
    check_whole(1, steps=steps, number=number)
    if not 0 < radius < float("inf"):
        raise ValueError(f"The radius must be positive and finite, but is {radius}.")
    step, size, dtype, dynamics = _step(system, starts)
    generator = seeded_generator(seed)
    middle = torch.zeros(size, dtype=dtype) if centre is None else _as_states(centre, "centre", dtype)
    if middle.shape != (size,) or not torch.isfinite(middle).all():
        raise ValueError(f"The centre must be {size} finite numbers, but has shape {tuple(middle.shape)}.")
    if not isinstance(starts, str):
        states = _as_states(starts, "starts", dtype)
        if states.dim() != 2 or states.shape[1] != size or len(states) == 0 or not torch.isfinite(states).all():
            raise ValueError(f"The starts must be finite, of shape (starts, {size}), but have {tuple(states.shape)}.")
    else:
        states = middle + radius * _draw_directions(starts, number, size, dtype, dynamics, generator)
    return _run(step, states, middle, steps)


def _as_states(given: Tensor | np.ndarray, noun: str, dtype: torch.dtype) -> Tensor:
    """Convert to the dtype of the system; raise if a real system would lose an imaginary part."""
    states = torch.as_tensor(given).detach().cpu()
    if states.is_complex() and not dtype.is_complex:
        raise ValueError(f"The system is real, but the {noun} are complex: their imaginary part would be lost.")
    return states.to(dtype)


def _run(step: Step, states: Tensor, centre: Tensor, steps: int) -> Transients:
    norms, spreads = [], []
    with torch.no_grad():
        for time in range(steps + 1):
            states = step(states) if time else states
            difference = states - centre
            deviation = difference - difference.mean(1, keepdim=True)
            norms.append(torch.linalg.vector_norm(difference, dim=1))
            spreads.append(torch.linalg.vector_norm(deviation, dim=1) / difference.shape[1] ** 0.5)
    return Transients(torch.stack(norms), torch.stack(spreads))


def _step(system: System, starts: Any) -> tuple[Step, int, torch.dtype, Dynamics | None]:
    """Return the step of a system, the size and dtype of its states, and its `Dynamics` or None."""
    if callable(system) and not isinstance(system, Connectivity | Dynamics):
        states = starts if isinstance(starts, Tensor) else None
        system = Dynamics(as_cell(system, states), device="cpu")
    if isinstance(system, Dynamics):
        if system.continuous:
            raise ValueError("A flow takes no steps: pass a map, or the matrix exp(dt A) of its linearisation.")
        if system.device.type != "cpu":
            raise ValueError(f"The network is on {system.device}: pass Dynamics(..., device='cpu').")
        return system, system.size, system.dtype, system
    if isinstance(system, FixedPoints) and system.continuous:
        raise ValueError("A flow takes no steps: pass the matrix exp(dt A) of its linearisation.")
    A = matrix_of(system)[0]
    A_T = A.to(torch.complex128 if A.is_complex() else torch.float64).mT
    return lambda states: states @ A_T, len(A_T), A_T.dtype, None


def _draw_directions(
    starts: str, number: int, size: int, dtype: torch.dtype, dynamics: Dynamics | None, generator: torch.Generator
) -> Tensor:
    """Return random unit vectors (number, size)."""
    if starts == "sphere":
        vectors = torch.randn(number, size, dtype=dtype, generator=generator)
    elif starts != "inputs":
        raise ValueError(f'starts must be "sphere", "inputs" or a tensor (starts, {size}), but is {starts!r}.')
    elif dynamics is None:
        raise ValueError("A matrix has no input: pass a cell or a Dynamics, or the starts themselves.")
    else:
        U = dynamics.input_jacobian(dynamics.origin)  # (size, features)
        if not U.any():
            raise ValueError("The input does not reach the resting state of this network in one step.")
        vectors = torch.randn(number, U.shape[1], dtype=dtype, generator=generator) @ U.mT
    return vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
