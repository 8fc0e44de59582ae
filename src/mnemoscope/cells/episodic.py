"""The episodic memory (Karuvally et al. 2023, Eq 2) of three populations: features, memories, a delayed copy.

The columns of Xi are what it has stored, and Phi says which of these follows which.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.lagrangian import Lagrangian, lagrangian

if TYPE_CHECKING:
    from mnemoscope.cells.episodic_map import EpisodicMap

Current = Float[Tensor, "*batch features"] | Callable[[Tensor], Tensor]
"""An input that stays, (features,) or (batch, features), or a function of time that gives one."""


class EpisodicState(NamedTuple):
    """Potentials of the three populations, (batch, units) each."""

    V_f: Float[Tensor, "*batch features"]
    """Of the features."""
    V_h: Float[Tensor, "*batch memories"]
    """Of the memories."""
    V_d: Float[Tensor, "*batch features"]
    """Of the delayed copy of the features."""


class EpisodicMemory(Cell):
    """The continuous system of Karuvally et al. (2023), Eq 2; `forward` is its time derivative.

        T_f V_f' = sqrt(alpha_s) Xi sigma_h(V_h) - V_f + x
        T_h V_h' = sqrt(alpha_s) Xi^T sigma_f(V_f) + alpha_c Phi^T Xi^T V_d - V_h
        T_d V_d' = sigma_f(V_f) - V_d

    A population of time constant 0 follows at once: its value is that for which its right-hand side vanishes, and
    `settled` puts it there. `integrate` then solves for the others alone. `forward` gives the velocity of the settled
    state, and draws a state that is not settled towards it at the rate 1 / T_f, so that its fixed points are those of
    the reduced system, with eigenvalues -1 / T_f for what follows.

    Args:
        Xi: stored memories in columns, (features, memories).
        Phi: interaction of memories (memories, memories): `Phi[a, b]` is how strongly a, in V_d, calls for b; none by
            default.
        sigma_f: nonlinearity of the features, the name of a Lagrangian or one.
        sigma_h: nonlinearity of the memories, likewise.
        T_f: time constant of the features, positive.
        T_h: of the memories; 0: they follow at once.
        T_d: of the delayed copy; 0: it follows at once, infinite: it stays as it is.
        alpha_s: strength of the stored memories, positive.
        alpha_c: strength of their interaction.

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
        super().__init__()
        _check_matrices(Xi, Phi)
        _check_constants(T_f, T_h, T_d, alpha_s, alpha_c)
        Xi = Xi.detach().clone()
        self.Xi = nn.Parameter(Xi)
        self.Phi = nn.Parameter(Xi.new_zeros(Xi.shape[1], Xi.shape[1]) if Phi is None else Phi.detach().clone().to(Xi))
        self.sigma_f, self.sigma_h = lagrangian(sigma_f), lagrangian(sigma_h)
        self.T_f, self.T_h, self.T_d = float(T_f), float(T_h), float(T_d)
        self.alpha_s, self.alpha_c = float(alpha_s), float(alpha_c)
        self.input_size = self.features

    @property
    def features(self) -> int:
        """N_f."""
        return self.Xi.shape[0]

    @property
    def memories(self) -> int:
        """N_h."""
        return self.Xi.shape[1]

    def initial_state(self, batch: int) -> EpisodicState:
        """Zeros; what follows at once, where it follows."""
        nothing = self.Xi.new_zeros(batch, self.features)
        return self.settled(EpisodicState(nothing, self.Xi.new_zeros(batch, self.memories), nothing.clone()))

    def output(self, state: EpisodicState) -> Float[Tensor, "*batch features"]:
        """What the features fire, sigma_f(V_f)."""
        return self.sigma_f(state.V_f)

    def settled(self, state: EpisodicState) -> EpisodicState:
        """The state with every population of time constant 0 where it follows; the others stay as they are."""
        V_d = self.sigma_f(state.V_f) if self.T_d == 0 else state.V_d
        V_h = self.called(self.sigma_f(state.V_f), V_d) if self.T_h == 0 else state.V_h
        return EpisodicState(state.V_f, V_h, V_d)

    def called(
        self, features: Float[Tensor, "*batch features"], delayed: Float[Tensor, "*batch features"]
    ) -> Float[Tensor, "*batch memories"]:
        """What memories are driven to, `sqrt(alpha_s) Xi^T features + alpha_c Phi^T Xi^T delayed`."""
        return sqrt(self.alpha_s) * features @ self.Xi + self.alpha_c * delayed @ self.Xi @ self.Phi

    def recalled(self, V_h: Float[Tensor, "*batch memories"]) -> Float[Tensor, "*batch features"]:
        """What features are driven to, `sqrt(alpha_s) Xi sigma_h(V_h)`."""
        return sqrt(self.alpha_s) * self.sigma_h(V_h) @ self.Xi.mT

    def forward(self, x: Float[Tensor, "*batch features"], state: EpisodicState) -> EpisodicState:
        """Velocities of the three populations under the current x."""
        now = self.settled(state)
        fired = self.sigma_f(now.V_f)
        f = (self.recalled(now.V_h) - now.V_f + x) / self.T_f
        turned = _pushed(self.sigma_f, now.V_f, f) if 0 in (self.T_h, self.T_d) else fired
        d = (fired - now.V_d) / self.T_d if self.T_d > 0 else turned  # what follows moves with what it follows
        h = (self.called(fired, now.V_d) - now.V_h) / self.T_h if self.T_h > 0 else self.called(turned, d)
        return EpisodicState(f, h + (now.V_h - state.V_h) / self.T_f, d + (now.V_d - state.V_d) / self.T_f)

    def jacobian(self, x: Tensor, state: EpisodicState) -> Float[Tensor, "batch size size"] | None:
        if self.T_h == 0 or self.T_d == 0:
            return None  # what follows moves by the slope of sigma_f, and its derivative is torch.func's business
        root, (V_f, V_h, V_d) = sqrt(self.alpha_s), state
        fired = self.sigma_f.jacobian(V_f)
        onto_features = root * self.Xi @ self.sigma_h.jacobian(V_h) / self.T_f
        onto_memories = root * self.Xi.mT @ fired / self.T_h
        call = self.alpha_c * (self.Xi @ self.Phi).mT.expand(len(V_f), -1, -1) / self.T_h
        rows = (
            (_minus_eye(V_f) / self.T_f, onto_features, V_f.new_zeros(*V_f.shape, V_d.shape[1])),
            (onto_memories, _minus_eye(V_h) / self.T_h, call),
            (fired / self.T_d, V_f.new_zeros(*V_d.shape, V_h.shape[1]), _minus_eye(V_d) / self.T_d),
        )
        return torch.cat([torch.cat(row, 2) for row in rows], 1)

    def weights(self) -> Float[Tensor, "features features"]:
        """`W = Xi (alpha_s I + sqrt(alpha_s) alpha_c Phi^T) Xi^T`, of the map V_f(t+1) = W sigma_f(V_f) (Eq 8)."""
        if self.sigma_h.name != "linear":
            raise ValueError(
                f"Features act on each other by one matrix only where memories are linear, but sigma_h is "
                f"{self.sigma_h.name}. `discrete()` and `conjugate()` take any sigma_h."
            )
        return self.alpha_s * self.Xi @ self.Xi.mT + sqrt(self.alpha_s) * self.alpha_c * self.Xi @ self.Phi.mT @ (
            self.Xi.mT
        )

    def discrete(self) -> EpisodicMap:
        """The map of Eq 8, `V_f(t+1) = W sigma_f(V_f)`, on these Xi and Phi: one step of Euler's, of length T_f, where
        memories and the delayed copy follow at once. It is a definition, not an approximation of the flow: both rest at
        the same points, of which the map holds those with all |lambda| < 1, that flow those with all Re lambda < 1.
        """
        from mnemoscope.cells.episodic_map import EpisodicMap

        return EpisodicMap(self)

    def conjugate(self) -> EpisodicMap:
        """The map of Eq 11, `r(t+1) = sigma_f(W r)`, on these Xi and Phi: the firing r = sigma_f(V_f) of `discrete`."""
        from mnemoscope.cells.episodic_map import EpisodicMap

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
        """The trajectory from `state` at these times, (times, batch, units) of each population.

        What follows at once or stays as it is, is not integrated. Gradients flow to Xi, Phi and the state.

        Args:
            state: at the first time; what follows at once need not be right in it.
            times: rising, the first that of `state`.
            method: of torchdiffeq; "dopri5" chooses its steps by the tolerances, "rk4" and "euler" step from one time
                to the next.
            rtol: relative tolerance.
            atol: absolute tolerance.
            input: the current into V_f, (features,) or (batch, features), or a function of time; none by default.

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

        def whole(flat: Tensor) -> EpisodicState:
            parts = iter(flat.split(sizes, -1))
            return self.settled(EpisodicState(*(
                next(parts) if moves else given.expand(*flat.shape[:-1], -1)
                for given, moves in zip(state, moving, strict=True)
            )))  # fmt: skip

        def velocity(time: Tensor, flat: Tensor) -> Tensor:
            velocities = self(current(time), whole(flat))
            return torch.cat([part for part, moves in zip(velocities, moving, strict=True) if moves], -1)

        start = torch.cat([part for part, moves in zip(state, moving, strict=True) if moves], -1)
        return whole(odeint(velocity, start, times.to(start), method=method, rtol=rtol, atol=atol))

    def extra_repr(self) -> str:
        """Sizes and constants."""
        return (
            f"features={self.features}, memories={self.memories}, T_f={self.T_f:g}, T_h={self.T_h:g}, "
            f"T_d={self.T_d:g}, alpha_s={self.alpha_s:g}, alpha_c={self.alpha_c:g}"
        )


def _pushed(sigma: Lagrangian, x: Tensor, v: Tensor) -> Tensor:
    """How sigma(x) moves where x moves by v."""
    return sigma.slope(x) * v if sigma.elementwise else (sigma.jacobian(x) @ v.unsqueeze(-1)).squeeze(-1)


def _minus_eye(V: Tensor) -> Tensor:
    return -torch.eye(V.shape[1], dtype=V.dtype, device=V.device).expand(len(V), -1, -1)


def _solver() -> Callable[..., Any]:
    try:
        from torchdiffeq import odeint
    except ImportError as error:
        raise ImportError("Integration needs torchdiffeq: pip install 'mnemoscope[ode]'.") from error
    return odeint


def _current(memory: EpisodicMemory, given: Current | None, V_f: Tensor) -> Callable[[Tensor], Tensor]:
    if given is None:
        return lambda time: V_f.new_zeros(memory.features)
    if callable(given) and not isinstance(given, Tensor):
        return given
    if given.shape[-1:] != (memory.features,) or given.dim() > 2 or not torch.isfinite(given).all():
        raise ValueError(
            f"The input must be finite, of shape ({memory.features},) or (batch, {memory.features}), or a function of "
            f"time that gives such a one, but a tensor of shape {tuple(given.shape)} was given."
        )
    return lambda time: given.to(V_f)


def _check_matrices(Xi: Tensor, Phi: Tensor | None) -> None:
    if Xi.dim() != 2 or 0 in Xi.shape or not Xi.is_floating_point():
        raise ValueError(
            f"Xi must be of real floating-point numbers, (features, memories), one memory per column, but its shape is "
            f"{tuple(Xi.shape)} and its type {Xi.dtype}."
        )
    if Phi is not None and Phi.is_complex():
        raise ValueError(f"Phi must be real, as memories are, but its type is {Phi.dtype}.")
    if Phi is not None and Phi.shape != (Xi.shape[1], Xi.shape[1]):
        raise ValueError(
            f"Phi relates the {Xi.shape[1]} memories (columns) of Xi and must be {Xi.shape[1]} x {Xi.shape[1]}, but "
            f"has shape {tuple(Phi.shape)}."
        )
    for name, matrix in (("Xi", Xi), ("Phi", Phi)):
        if matrix is not None and not torch.isfinite(matrix).all():
            raise ValueError(f"{name} has infinite or NaN entries.")


def _check_constants(T_f: float, T_h: float, T_d: float, alpha_s: float, alpha_c: float) -> None:
    if not 0 < T_f < inf:
        raise ValueError(f"T_f must be positive and finite, as features are what moves, but is {T_f}.")
    if not 0 <= T_h < inf:
        raise ValueError(f"T_h must be 0 (memories follow at once) or positive and finite, but is {T_h}.")
    if not T_d >= 0:
        raise ValueError(f"T_d must be 0 (the copy follows at once), positive, or infinite (it stays), but is {T_d}.")
    if not 0 < alpha_s < inf:
        raise ValueError(f"alpha_s must be positive and finite, as its root is taken, but is {alpha_s}.")
    if not isfinite(alpha_c):
        raise ValueError(f"alpha_c must be finite, but is {alpha_c}.")


def _check_times(times: Tensor) -> None:
    if times.dim() != 1 or len(times) < 2 or not bool((times.diff() > 0).all()) or not torch.isfinite(times).all():
        raise ValueError(
            f"times must be two or more finite numbers that rise, the first that of the state, but are of shape "
            f"{tuple(times.shape)}: {times.flatten()[:6].tolist()}."
        )


def _check_state(memory: EpisodicMemory, state: EpisodicState) -> None:
    shapes = [tuple(part.shape) for part in state]
    batch = shapes[0][0] if shapes[0] else 0
    wanted = [(batch, memory.features), (batch, memory.memories), (batch, memory.features)]
    if shapes != wanted:
        raise ValueError(
            f"A state is V_f (batch, {memory.features}), V_h (batch, {memory.memories}) and V_d (batch, "
            f"{memory.features}), but the shapes are {', '.join(map(str, shapes))}."
        )
    if any(part.dtype != memory.Xi.dtype for part in state):
        raise ValueError(f"The state must be {memory.Xi.dtype}, as the memory is, but is {state[0].dtype}.")
