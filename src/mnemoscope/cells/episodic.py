"""The episodic memory in continuous time (Karuvally et al. 2023, Eq 2).

It has three populations: features, memories, and a delayed copy of the features. The columns of Xi are the stored
memories, and Phi holds which memory follows which.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.episodic_map import EpisodicMap, EpisodicStore
from mnemoscope.cells.lagrangians import Lagrangian

Current = Float[Tensor, "*batch features"] | Callable[[Tensor], Tensor]
"""A constant input, (features,) or (batch, features), or a function of time that returns one."""


class EpisodicState(NamedTuple):
    """Potentials of the three populations, (batch, units) each."""

    V_f: Float[Tensor, "*batch features"]
    """Potentials of the features."""
    V_h: Float[Tensor, "*batch memories"]
    """Potentials of the memories."""
    V_d: Float[Tensor, "*batch features"]
    """Potentials of the delayed copy of the features."""


class EpisodicMemory(EpisodicStore, Cell):
    """The continuous system of Karuvally et al. (2023), Eq 2; `forward` is its time derivative.

        T_f V_f' = sqrt(alpha_s) Xi sigma_h(V_h) - V_f + x
        T_h V_h' = sqrt(alpha_s) Xi^T sigma_f(V_f) + alpha_c Phi^T Xi^T V_d - V_h
        T_d V_d' = sigma_f(V_f) - V_d

    A population with time constant 0 is instantaneous: it is always at its equilibrium, where its right-hand side is
    zero, and `settled` sets it to that value. `integrate` then solves for the other populations only. `forward`
    returns the velocity of the settled state. From any other state it adds a relaxation towards the settled one at
    the rate 1 / T_f, so that the fixed points are those of the reduced system, with the additional eigenvalue -1 / T_f
    for each instantaneous unit.

    The arguments are those of `EpisodicStore` and the time constants, of which `T_f` is positive, `T_h` may be 0, and
    `T_d` may be 0 or infinite, which makes the delayed copy constant.

    >>> import mnemoscope as ms
    >>> memory = EpisodicMemory(torch.eye(4, 2, dtype=torch.float64), T_h=0.1)
    >>> flow = ms.Dynamics(memory, continuous=True)
    >>> flow.size  # 4 features, 2 memories, 4 delayed
    10
    """

    def __init__(
        self,
        Xi: Tensor,
        Phi: Tensor | None = None,
        sigma_f: str | Lagrangian = "tanh",
        sigma_h: str | Lagrangian = "linear",
        T_f: float = 1.0,
        T_h: float = 1.0,
        T_d: float = 1.0,
        alpha_s: float = 1.0,
        alpha_c: float = 1.0,
    ) -> None:
        super().__init__(Xi, Phi, sigma_f, sigma_h, alpha_s, alpha_c)
        _check_time_constants(T_f, T_h, T_d)
        self.T_f, self.T_h, self.T_d = float(T_f), float(T_h), float(T_d)
        self.input_size = self.features

    def initial_state(self, batch: int) -> EpisodicState:
        """Return zeros, with instantaneous populations at equilibrium."""
        zeros = self.Xi.new_zeros(batch, self.features)
        return self.settled(EpisodicState(zeros, self.Xi.new_zeros(batch, self.memories), zeros.clone()))

    def output(self, state: EpisodicState) -> Float[Tensor, "*batch features"]:
        """Return the rates of the features, sigma_f(V_f)."""
        return self.sigma_f(state.V_f)

    def settled(self, state: EpisodicState) -> EpisodicState:
        """Return the state with every instantaneous population at equilibrium."""
        V_d = self.sigma_f(state.V_f) if self.T_d == 0 else state.V_d
        V_h = self.memory_drive(self.sigma_f(state.V_f), V_d) if self.T_h == 0 else state.V_h
        return EpisodicState(state.V_f, V_h, V_d)

    def forward(self, x: Float[Tensor, "*batch features"], state: EpisodicState) -> EpisodicState:
        """Return the velocities of the three populations under the input x."""
        settled = self.settled(state)
        V_f, V_h, V_d = settled
        rates = self.sigma_f(V_f)
        f = (self.feature_drive(V_h) - V_f + x) / self.T_f
        rate_velocity = _push_forward(self.sigma_f, V_f, f) if 0 in (self.T_h, self.T_d) else rates
        d = (rates - V_d) / self.T_d if self.T_d > 0 else rate_velocity
        h = (self.memory_drive(rates, V_d) - V_h) / self.T_h if self.T_h > 0 else self.memory_drive(rate_velocity, d)
        return EpisodicState(f, h + (V_h - state.V_h) / self.T_f, d + (V_d - state.V_d) / self.T_f)

    def jacobian(self, x: Tensor, state: EpisodicState) -> Float[Tensor, "batch size size"] | None:
        if self.T_h == 0 or self.T_d == 0:
            return None  # instantaneous velocities contain sigma_f', whose derivative torch.func computes
        root, (V_f, V_h, V_d) = sqrt(self.alpha_s), state
        slope = self.sigma_f.jacobian(V_f)
        f_by_h = root * self.Xi @ self.sigma_h.jacobian(V_h) / self.T_f
        h_by_f = root * self.Xi.mT @ slope / self.T_h
        h_by_d = self.alpha_c * (self.Xi @ self.Phi).mT.expand(len(V_f), -1, -1) / self.T_h
        rows = (
            (_minus_eye(V_f) / self.T_f, f_by_h, V_f.new_zeros(*V_f.shape, V_d.shape[1])),
            (h_by_f, _minus_eye(V_h) / self.T_h, h_by_d),
            (slope / self.T_d, V_f.new_zeros(*V_d.shape, V_h.shape[1]), _minus_eye(V_d) / self.T_d),
        )
        return torch.cat([torch.cat(row, 2) for row in rows], 1)

    def discrete(self) -> EpisodicMap:
        """Return the map of Eq 8, `V_f(t+1) = W sigma_f(V_f)`, which shares Xi and Phi.

        It is one Euler step of length T_f with instantaneous memories and delayed copy. It is a definition, not an
        approximation of the flow: both have the same fixed points, but one is stable for the map if all |lambda| < 1
        and for the flow if all Re lambda < 1.
        """
        return EpisodicMap(self)

    def conjugate(self) -> EpisodicMap:
        """Return the map of Eq 11, `r(t+1) = sigma_f(W r)`, of the rates r = sigma_f(V_f); it shares Xi and Phi."""
        return EpisodicMap(self, conjugate=True)

    def integrate(
        self,
        state: EpisodicState,
        times: Float[Tensor, " times"],
        method: str = "dopri5",
        rtol: float = 1e-8,
        atol: float = 1e-10,
        input: Current | None = None,
    ) -> EpisodicState:
        """Return the trajectory from `state` at the given times, (times, batch, units) for each population.

        Instantaneous and constant populations are not integrated. Gradients flow to Xi, Phi and the state.

        Args:
            state: state at the first time; the values of instantaneous populations in it are ignored.
            times: increasing times; the first is that of `state`.
            method: method of torchdiffeq; "dopri5" adapts its steps to the tolerances, "rk4" and "euler" take one step
                between two times.
            rtol: relative tolerance.
            atol: absolute tolerance.
            input: the input to V_f, (features,) or (batch, features), or a function of time; None for zeros.

        """
        odeint = _solver()
        _check_times(times)
        _check_state(self, state)
        if state.V_f.dtype == torch.float32 and rtol < 1e-6:
            raise ValueError(
                f"A relative tolerance of {rtol:g} is beyond float32: integrate a memory in float64, memory.double(), "
                f"or ask for rtol of 1e-6 or more."
            )
        moving = [True, self.T_h > 0, 0 < self.T_d < inf]
        sizes = [part.shape[-1] for part, moves in zip(state, moving, strict=True) if moves]
        current = _current(self, input, state.V_f)

        def reduced(state: EpisodicState) -> Tensor:
            return torch.cat([part for part, moves in zip(state, moving, strict=True) if moves], -1)

        def complete(flat: Tensor) -> EpisodicState:
            parts = iter(flat.split(sizes, -1))
            potentials = [
                next(parts) if moves else part.expand(*flat.shape[:-1], -1)
                for part, moves in zip(state, moving, strict=True)
            ]
            return self.settled(EpisodicState(*potentials))

        def velocity(time: Tensor, flat: Tensor) -> Tensor:
            return reduced(self(current(time), complete(flat)))

        start = reduced(state)
        return complete(odeint(velocity, start, times.to(start), method=method, rtol=rtol, atol=atol))

    def extra_repr(self) -> str:
        return (
            f"features={self.features}, memories={self.memories}, T_f={self.T_f:g}, T_h={self.T_h:g}, "
            f"T_d={self.T_d:g}, alpha_s={self.alpha_s:g}, alpha_c={self.alpha_c:g}"
        )


def _push_forward(sigma: Lagrangian, x: Tensor, v: Tensor) -> Tensor:
    """Return the velocity of sigma(x) where x has the velocity v."""
    return sigma.slope(x) * v if sigma.elementwise else (sigma.jacobian(x) @ v.unsqueeze(-1)).squeeze(-1)


def _minus_eye(V: Tensor) -> Tensor:
    return -torch.eye(V.shape[1], dtype=V.dtype, device=V.device).expand(len(V), -1, -1)


def _solver() -> Callable[..., Any]:
    try:
        from torchdiffeq import odeint
    except ImportError as error:
        raise ImportError("Integration needs torchdiffeq: pip install 'mnemoscope[ode]'.") from error
    return odeint


def _current(memory: EpisodicStore, given: Current | None, V_f: Tensor) -> Callable[[Tensor], Tensor]:
    if given is None:
        return lambda time: V_f.new_zeros(memory.features)
    if callable(given) and not isinstance(given, Tensor):
        return given
    if given.shape[-1:] != (memory.features,) or given.dim() > 2 or not torch.isfinite(given).all():
        raise ValueError(
            f"The input must be finite, of shape ({memory.features},) or (batch, {memory.features}), or a function of "
            f"time that returns such a tensor, but a tensor of shape {tuple(given.shape)} was given."
        )
    return lambda time: given.to(V_f)


def _check_time_constants(T_f: float, T_h: float, T_d: float) -> None:
    if not 0 < T_f < inf:
        raise ValueError(f"T_f must be positive and finite, but is {T_f}: features are never instantaneous.")
    if not 0 <= T_h < inf:
        raise ValueError(f"T_h must be 0 (instantaneous memories) or positive and finite, but is {T_h}.")
    if not T_d >= 0:
        raise ValueError(f"T_d must be 0 (instantaneous copy), positive, or infinite (constant copy), but is {T_d}.")


def _check_times(times: Tensor) -> None:
    if times.dim() != 1 or len(times) < 2 or not bool((times.diff() > 0).all()) or not torch.isfinite(times).all():
        raise ValueError(
            f"times must be two or more finite, increasing numbers, the first that of the state, but are of shape "
            f"{tuple(times.shape)}: {times.flatten()[:6].tolist()}."
        )


def _check_state(memory: EpisodicMemory, state: EpisodicState) -> None:
    shapes = [tuple(part.shape) for part in state]
    batch = shapes[0][0] if shapes[0] else 0
    expected = [(batch, memory.features), (batch, memory.memories), (batch, memory.features)]
    if shapes != expected:
        raise ValueError(
            f"A state is V_f (batch, {memory.features}), V_h (batch, {memory.memories}) and V_d (batch, "
            f"{memory.features}), but the shapes are {', '.join(map(str, shapes))}."
        )
    if any(part.dtype != memory.Xi.dtype for part in state):
        raise ValueError(f"The state must be {memory.Xi.dtype}, as the memory is, but is {state[0].dtype}.")
