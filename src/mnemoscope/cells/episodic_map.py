"""Stored memories and their interaction, and the discrete forms of the episodic memory (Karuvally et al. 2023)."""

from __future__ import annotations

from math import inf, isfinite, sqrt

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.elman import Elman
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.intervals import function_range, product_range
from mnemoscope.cells.lagrangians import Lagrangian, make_lagrangian
from mnemoscope.cells.nonlinearities import NAMES, make_nonlinearity
from mnemoscope.cells.state import State
from mnemoscope.connectivity import Connectivity


class EpisodicStore(nn.Module):
    """Memories Xi, their interaction Phi, two nonlinearities and two strengths (Karuvally et al. 2023, Eq 2).

    Args:
        Xi: stored memories in columns, (features, memories).
        Phi: interaction of memories (memories, memories): `Phi[a, b]` is how strongly a leads to b; None for zeros.
        sigma_f: nonlinearity of the features, a Lagrangian or its name.
        sigma_h: nonlinearity of the memories, a Lagrangian or its name.
        alpha_s: strength of the stored memories, positive.
        alpha_c: strength of their interaction.

    """

    def __init__(
        self,
        Xi: Tensor,
        Phi: Tensor | None = None,
        sigma_f: str | Lagrangian = "tanh",
        sigma_h: str | Lagrangian = "linear",
        alpha_s: float = 1.0,
        alpha_c: float = 1.0,
    ) -> None:
        super().__init__()
        _check_matrices(Xi, Phi)
        if not 0 < alpha_s < inf:
            raise ValueError(f"alpha_s must be positive and finite, as its root is taken, but is {alpha_s}.")
        if not isfinite(alpha_c):
            raise ValueError(f"alpha_c must be finite, but is {alpha_c}.")
        Xi = Xi.detach().clone()
        self.Xi = nn.Parameter(Xi)
        self.Phi = nn.Parameter(Xi.new_zeros(Xi.shape[1], Xi.shape[1]) if Phi is None else Phi.detach().clone().to(Xi))
        self.sigma_f, self.sigma_h = make_lagrangian(sigma_f), make_lagrangian(sigma_h)
        self.alpha_s, self.alpha_c = float(alpha_s), float(alpha_c)

    @property
    def features(self) -> int:
        """Number of features N_f."""
        return self.Xi.shape[0]

    @property
    def memories(self) -> int:
        """Number of stored memories N_h."""
        return self.Xi.shape[1]

    def memory_drive(
        self, features: Float[Tensor, "*batch features"], delayed: Float[Tensor, "*batch features"]
    ) -> Float[Tensor, "*batch memories"]:
        """Return the input to the memories, `sqrt(alpha_s) Xi^T features + alpha_c Phi^T Xi^T delayed`."""
        return sqrt(self.alpha_s) * features @ self.Xi + self.alpha_c * delayed @ self.Xi @ self.Phi

    def feature_drive(self, V_h: Float[Tensor, "*batch memories"]) -> Float[Tensor, "*batch features"]:
        """Return the input to the features, `sqrt(alpha_s) Xi sigma_h(V_h)`."""
        return sqrt(self.alpha_s) * self.sigma_h(V_h) @ self.Xi.mT

    def weights(self) -> Float[Tensor, "features features"]:
        """Return `W = Xi (alpha_s I + sqrt(alpha_s) alpha_c Phi^T) Xi^T` of V_f(t+1) = W sigma_f(V_f) (Eq 8)."""
        if self.sigma_h.name != "linear":
            raise ValueError(
                f"Only linear memories give one matrix between features, but sigma_h is {self.sigma_h.name}. "
                f"`discrete()` and `conjugate()` take any sigma_h."
            )
        stored = self.alpha_s * self.Xi @ self.Xi.mT
        return stored + sqrt(self.alpha_s) * self.alpha_c * self.Xi @ self.Phi.mT @ self.Xi.mT


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


class EpisodicMap(Cell):
    """One step of the episodic memory in discrete time; `memory.discrete()` and `memory.conjugate()` make one.

    With `G(s) = sqrt(alpha_s) Xi sigma_h((sqrt(alpha_s) I + alpha_c Phi^T) Xi^T s)`, which is W s for linear sigma_h:

    - discrete (Eq 8): `V_f(t+1) = G(sigma_f(V_f)) + x`; the state is the potentials, the output sigma_f(V_f);
    - conjugate (Eq 11): `r(t+1) = sigma_f(G(r) + x)`; state and output are the rates r.

    If both start with r = sigma_f(V_f), then r(t) = sigma_f(V_f(t)) at all times; where sigma_f is invertible the two
    maps are conjugate. Xi and Phi are shared with the memory, so that training the map trains the memory; the time
    constants of an `EpisodicMemory` are not used.

    >>> from mnemoscope.cells import EpisodicMemory
    >>> memory = EpisodicMemory(2 * torch.eye(3))
    >>> memory.discrete()(torch.zeros(1, 3), torch.tensor([[1.0, -1.0, 0.0]])).tolist()  # 4 tanh(V_f)
    [[3.046..., -3.046..., 0.0]]
    """

    def __init__(self, memory: EpisodicStore, conjugate: bool = False) -> None:
        super().__init__()
        self.memory = memory
        self.conjugate = conjugate
        self.input_size = memory.features

    def initial_state(self, batch: int) -> Float[Tensor, "batch features"]:
        """Return V_f = 0, or sigma_f(0) for the conjugate map."""
        zeros = self.memory.Xi.new_zeros(batch, self.memory.features)
        return self.memory.sigma_f(zeros) if self.conjugate else zeros

    def output(self, state: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Return the rates of the features."""
        return state if self.conjugate else self.memory.sigma_f(state)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        sigma_f, sigma_h = self.memory.sigma_f, self.memory.sigma_h
        to_memories, to_features = self._to_memories().mT, sqrt(self.memory.alpha_s) * self.memory.Xi.mT
        if self.conjugate:
            return xs, lambda x, r: sigma_f(sigma_h(r @ to_memories) @ to_features + x)
        return xs, lambda x, V_f: sigma_h(sigma_f(V_f) @ to_memories) @ to_features + x

    def _to_memories(self) -> Float[Tensor, "memories features"]:
        """Return `(sqrt(alpha_s) I + alpha_c Phi^T) Xi^T`."""
        memory = self.memory
        return sqrt(memory.alpha_s) * memory.Xi.mT + memory.alpha_c * (memory.Xi @ memory.Phi).mT

    def jacobian(self, x: Tensor, state: Tensor) -> Float[Tensor, "batch features features"]:
        """Return `G'(sigma_f(V_f)) sigma_f'(V_f)`, or `sigma_f'(G(r) + x) G'(r)` for the conjugate map."""
        memory, to_memories = self.memory, self._to_memories()
        rates = state if self.conjugate else memory.sigma_f(state)
        V_h = rates @ to_memories.mT
        G = sqrt(memory.alpha_s) * memory.Xi @ memory.sigma_h.jacobian(V_h) @ to_memories
        if self.conjugate:
            return memory.sigma_f.jacobian(memory.feature_drive(V_h) + x) @ G
        return G @ memory.sigma_f.jacobian(state)

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        """Propagate intervals through the step; possible where sigma_f or sigma_h has a finite range."""
        drive = self._drive_range()
        if drive is None:
            return None
        box = drive[0] + low, drive[1] + high
        if not self.conjugate:
            return box
        sigma = self.memory.sigma_f
        rates = function_range(sigma, box[0])
        if rates is not None or not sigma.elementwise:
            return rates
        return sigma(box[0]), sigma(box[1])  # the gradient of a convex function is monotone

    def _drive_range(self) -> Box | None:
        """Return the range of G over all rates, or None if it is not known."""
        memory, to_memories = self.memory, self._to_memories()
        sigma_f, sigma_h = memory.sigma_f, memory.sigma_h
        rates, memories = function_range(sigma_f, to_memories[0]), function_range(sigma_h, to_memories[:, 0])
        if sigma_h.elementwise and rates is not None:
            low, high = product_range(to_memories, *rates)
            memories = sigma_h(low), sigma_h(high)
        return None if memories is None else product_range(sqrt(memory.alpha_s) * memory.Xi, *memories)

    def fast_path(self, xs: Tensor, state: State, mask: Tensor | None) -> FastPath | NoFastPath:
        reason = self._why_no_elman()
        return self.as_elman().fast_path(xs, state, mask) if reason is None else NoFastPath(reason)

    def as_elman(self) -> Elman:
        """Return the conjugate map as an Elman cell without bias, V = W and U = I, which shares Xi and Phi.

        The Elman cell starts at 0, this cell at sigma_f(0), which differs for the logistic function.
        """
        reason = self._why_no_elman()
        if reason is not None:
            raise ValueError(f"This map is not an Elman network: {reason}.")
        size = self.memory.features
        phi = make_nonlinearity(self.memory.sigma_f.name, size)
        return Elman.from_parts(nn.Identity(), EpisodicWeights(self.memory), phi, size, size)

    def _why_no_elman(self) -> str | None:
        sigma, memories = self.memory.sigma_f, self.memory.sigma_h
        if not self.conjugate:
            return "its state is V_f, and sigma_f is applied before the matrix; use memory.conjugate()"
        if memories.name != "linear":
            return f"its memories are not linear but {memories.name}, so that no single matrix connects the features"
        if sigma.name not in NAMES or getattr(sigma, "beta", 1.0) != 1:
            return f"an Elman cell has no nonlinearity {sigma.extra_repr()!r}"
        return None

    def extra_repr(self) -> str:
        return "conjugate, of r" if self.conjugate else "discrete, of V_f"


class EpisodicWeights(Connectivity):
    """The recurrent matrix `W = Xi (alpha_s I + sqrt(alpha_s) alpha_c Phi^T) Xi^T` of a memory; Xi and Phi learn."""

    def __init__(self, memory: EpisodicStore) -> None:
        super().__init__(memory.features)
        self.memory = memory

    def forward(self) -> Float[Tensor, "size size"]:
        return self.memory.weights()
