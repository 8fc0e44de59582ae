"""The transient lens: what becomes of an ensemble of small differences, in norm and in spread, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.connectivity import Connectivity
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.lenses.systems import System, matrix_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Step = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Transients:
    """An ensemble of trajectories from a small sphere (Kerg's thesis, Fig 1b), measured from its centre.

    >>> import mnemoscope as ms
    >>> line = torch.diag(torch.full((99,), 1.05), -1)  # a delay line (Eq 3.4.2 with alpha = 1.05, beta = d = 0)
    >>> seen = ms.transients(line, steps=100)
    >>> 40 < seen.time < 90, float(seen.norms[100].max())  # it amplifies while it passes on, and ends after N steps
    (True, 0.0)
    """

    norms: Float[Tensor, "times starts"]
    """|h_t - centre| of each trajectory, from t = 0."""
    spreads: Float[Tensor, "times starts"]
    """Standard deviation across the units of h_t - centre."""

    @property
    def times(self) -> Float[Tensor, " times"]:
        return torch.arange(len(self.norms), dtype=torch.float64)

    @property
    def norm(self) -> tuple[Float[Tensor, " times"], Float[Tensor, " times"]]:
        """Mean and standard deviation of the norm over the ensemble."""
        return self.norms.mean(1), self.norms.std(1, correction=0)

    @property
    def spread(self) -> tuple[Float[Tensor, " times"], Float[Tensor, " times"]]:
        """Mean and standard deviation of the spread over the ensemble."""
        return self.spreads.mean(1), self.spreads.std(1, correction=0)

    @property
    def peak(self) -> float:
        """The largest mean norm, as a multiple of the first."""
        mean = self.norm[0]
        return float(mean.max() / mean[0])

    @property
    def time(self) -> int:
        """The step at which the mean norm is largest."""
        return int(self.norm[0].argmax())

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Transients.load` reads it back."""
        save_result(path, "Transients", {"norms": self.norms, "spreads": self.spreads}, {})

    @classmethod
    def load(cls, path: str | Path) -> Transients:
        """Read what `save` wrote."""
        return cls(**load_result(path, "Transients", "transients")[0])

    def figure(self) -> Figure:
        """Spread across units above the norm, mean and standard deviation (needs the `report` extra)."""
        from mnemoscope.lenses.spectra.figure import draw_transients

        return draw_transients(self)


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
    """Follow an ensemble of states from a sphere.

    Args:
        system: a square matrix or a `Connectivity`, whose powers are followed; a cell, a torch.nn network or a
            `Dynamics`, whose own nonlinear step is taken at its constant input; or one fixed point, `fp[0]`, for the
            linearisation there.
        steps: how many.
        starts: "sphere": directions uniform on the sphere; "inputs": directions that the input of a network can push
            its resting state in, at random; or states (starts, size), taken as they are.
        number: how many starts are drawn.
        centre: centre of the sphere (size,), such as a fixed point; the origin by default.
        radius: of the sphere.
        seed: of the draw.

    """
    if steps < 1 or number < 1:
        raise ValueError(f"At least 1 step and 1 start are needed, but steps is {steps} and number is {number}.")
    if not 0 < radius < float("inf"):
        raise ValueError(f"The radius must be positive and finite, but is {radius}.")
    step, size, dtype, dynamics = _stepping(system)
    generator = torch.Generator().manual_seed(seed)
    middle = torch.zeros(size, dtype=dtype) if centre is None else _taken(centre, "centre", dtype)
    if middle.shape != (size,) or not torch.isfinite(middle).all():
        raise ValueError(f"The centre must be {size} finite numbers, but has shape {tuple(middle.shape)}.")
    if not isinstance(starts, str):
        states = _taken(starts, "starts", dtype)
        if states.dim() != 2 or states.shape[1] != size or len(states) == 0 or not torch.isfinite(states).all():
            raise ValueError(f"The starts must be finite, of shape (starts, {size}), but have {tuple(states.shape)}.")
    else:
        states = middle + radius * _directions(starts, number, size, dtype, dynamics, generator)
    return _follow(step, states, middle, steps)


def _taken(given: Tensor | np.ndarray, what: str, dtype: torch.dtype) -> Tensor:
    """As numbers of the system, which may be real where these are not."""
    taken = torch.as_tensor(given).detach().cpu()
    if taken.is_complex() and not dtype.is_complex:
        raise ValueError(f"The system is real, but the {what} are complex: their imaginary part would be lost.")
    return taken.to(dtype)


def _follow(step: Step, states: Tensor, centre: Tensor, steps: int) -> Transients:
    norms, spreads = [], []
    with torch.no_grad():
        for time in range(steps + 1):
            states = step(states) if time else states
            off = states - centre
            norms.append(torch.linalg.vector_norm(off, dim=1))
            spreads.append(torch.linalg.vector_norm(off - off.mean(1, keepdim=True), dim=1) / off.shape[1] ** 0.5)
    return Transients(torch.stack(norms), torch.stack(spreads))


def _stepping(system: System) -> tuple[Step, int, torch.dtype, Dynamics | None]:
    if isinstance(system, nn.Module) and not isinstance(system, Connectivity):
        system = Dynamics(system)
    if isinstance(system, Dynamics):
        if system.continuous:
            raise ValueError("A flow takes no steps: pass a map, or the matrix exp(dt A) of its linearisation.")
        if system.device.type != "cpu":
            raise ValueError(f"The network lies on {system.device}: pass Dynamics(..., device='cpu').")
        return system, system.size, system.dtype, system
    if isinstance(system, FixedPoints) and system.continuous:
        raise ValueError("A flow takes no steps: pass the matrix exp(dt A) of its linearisation.")
    A = matrix_of(system)[0]
    A_T = A.to(torch.complex128 if A.is_complex() else torch.float64).mT
    return lambda states: states @ A_T, len(A_T), A_T.dtype, None


def _directions(
    which: str, number: int, size: int, dtype: torch.dtype, dynamics: Dynamics | None, generator: torch.Generator
) -> Tensor:
    """Unit vectors (number, size)."""
    if which == "sphere":
        drawn = torch.randn(number, size, dtype=dtype, generator=generator)
    elif which != "inputs":
        raise ValueError(f'starts must be "sphere", "inputs" or a tensor (starts, {size}), but is {which!r}.')
    elif dynamics is None:
        raise ValueError("A matrix has no input: pass a cell or a Dynamics, or the starts themselves.")
    else:
        U = dynamics.input_jacobian(dynamics.origin)  # (size, features)
        if not U.any():
            raise ValueError("The input does not reach the resting state of this network in one step.")
        drawn = torch.randn(number, U.shape[1], dtype=dtype, generator=generator) @ U.mT
    return drawn / torch.linalg.vector_norm(drawn, dim=1, keepdim=True)
