"""The discrete forms of the episodic memory as cells (Karuvally et al. 2023, Eq 8 and 11)."""

from __future__ import annotations

from math import isfinite, sqrt

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.elman import Elman
from mnemoscope.cells.episodic import EpisodicMemory
from mnemoscope.cells.fast import FastPath, NoFastPath
from mnemoscope.cells.nonlinearity import NAMES, nonlinearity
from mnemoscope.cells.state import State
from mnemoscope.connectivity import Connectivity


class EpisodicMap(Cell):
    """One step of the episodic memory in discrete time; `memory.discrete()` and `memory.conjugate()` make one.

    With `G(s) = sqrt(alpha_s) Xi sigma_h((sqrt(alpha_s) I + alpha_c Phi^T) Xi^T s)`, which is W s for linear sigma_h:

    - discrete (Eq 8): `V_f(t+1) = G(sigma_f(V_f)) + x`, of potentials; the output is sigma_f(V_f);
    - conjugate (Eq 11): `r(t+1) = sigma_f(G(r) + x)`, of firing; the output is r.

    From r = sigma_f(V_f) on, r(t) = sigma_f(V_f(t)) for any sigma_f; where sigma_f is invertible the two are conjugate.
    Xi and Phi are the memory's own, so that whoever trains the map trains the memory.

    Args:
        memory: whose map it is. Its time constants play no part.
        conjugate: whether the state is r instead of V_f.

    >>> memory = EpisodicMemory(2 * torch.eye(3))
    >>> memory.discrete()(torch.zeros(1, 3), torch.tensor([[1.0, -1.0, 0.0]])).tolist()  # 4 tanh(V_f)
    [[3.046..., -3.046..., 0.0]]

    """

    def __init__(self, memory: EpisodicMemory, conjugate: bool = False) -> None:
        super().__init__()
        self.memory = memory
        self.conjugate = conjugate
        self.input_size = memory.features

    def initial_state(self, batch: int) -> Float[Tensor, "batch features"]:
        """V_f = 0, or what it fires."""
        nothing = self.memory.Xi.new_zeros(batch, self.memory.features)
        return self.memory.sigma_f(nothing) if self.conjugate else nothing

    def output(self, state: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """What the features fire."""
        return state if self.conjugate else self.memory.sigma_f(state)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        sigma_f, sigma_h = self.memory.sigma_f, self.memory.sigma_h
        call, recall = self._call().mT, sqrt(self.memory.alpha_s) * self.memory.Xi.mT
        if self.conjugate:
            return xs, lambda x, r: sigma_f(sigma_h(r @ call) @ recall + x)
        return xs, lambda x, V_f: sigma_h(sigma_f(V_f) @ call) @ recall + x

    def forward(self, x: Float[Tensor, "batch features"], state: Float[Tensor, "batch features"]) -> Tensor:
        x, step = self.prepare(x)
        return step(x, state)

    def _call(self) -> Float[Tensor, "memories features"]:
        """`(sqrt(alpha_s) I + alpha_c Phi^T) Xi^T`."""
        memory = self.memory
        return sqrt(memory.alpha_s) * memory.Xi.mT + memory.alpha_c * (memory.Xi @ memory.Phi).mT

    def jacobian(self, x: Tensor, state: Tensor) -> Float[Tensor, "batch features features"]:
        """`G'(sigma_f(V_f)) sigma_f'(V_f)`, or `sigma_f'(G(r) + x) G'(r)`."""
        memory, call = self.memory, self._call()
        fired = state if self.conjugate else memory.sigma_f(state)
        called = fired @ call.mT
        G = sqrt(memory.alpha_s) * memory.Xi @ memory.sigma_h.jacobian(called) @ call
        if self.conjugate:
            return memory.sigma_f.jacobian(memory.recalled(called) + x) @ G
        return G @ memory.sigma_f.jacobian(state)

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        """Known where sigma_f or sigma_h has a finite range: by intervals, through one step after the other."""
        reached = self._reached()
        if reached is None:
            return None
        box = reached[0] + low, reached[1] + high
        sigma = self.memory.sigma_f
        if not self.conjugate:
            return box
        one = torch.ones_like(box[0])
        if isfinite(sigma.low) and isfinite(sigma.high):
            return sigma.low * one, sigma.high * one
        return (sigma(box[0]), sigma(box[1])) if sigma.elementwise else None  # gradients of convex functions rise

    def _reached(self) -> Box | None:
        """What G gives, from any firing."""
        memory, call = self.memory, self._call()
        sigma_f, sigma_h = memory.sigma_f, memory.sigma_h
        one = torch.ones_like(call[:, 0])
        if sigma_h.elementwise and isfinite(sigma_f.low) and isfinite(sigma_f.high):
            firing = torch.ones_like(call[0])
            low, high = (sigma_h(edge) for edge in _product(call, sigma_f.low * firing, sigma_f.high * firing))
        elif isfinite(sigma_h.low) and isfinite(sigma_h.high):
            low, high = sigma_h.low * one, sigma_h.high * one
        else:
            return None
        return _product(sqrt(memory.alpha_s) * memory.Xi, low, high)

    def fast_path(self, xs: Tensor, state: State, mask: Tensor | None) -> FastPath | NoFastPath:
        reason = self._no_elman()
        return self.as_elman().fast_path(xs, state, mask) if reason is None else NoFastPath(reason)

    def as_elman(self) -> Elman:
        """The conjugate map as an Elman cell without bias, V = W and U = I, on the same Xi and Phi.

        Its initial state is 0; that of this cell is sigma_f(0), which differs for the logistic function.
        """
        reason = self._no_elman()
        if reason is not None:
            raise ValueError(f"This map is no Elman network: {reason}.")
        size = self.memory.features
        phi = nonlinearity(self.memory.sigma_f.name, size)
        return Elman.of_parts(nn.Identity(), EpisodicWeights(self.memory), phi, size, size)

    def _no_elman(self) -> str | None:
        sigma, memories = self.memory.sigma_f, self.memory.sigma_h
        if not self.conjugate:
            return "its state is V_f, to which sigma_f is applied before the matrix; take memory.conjugate()"
        if memories.name != "linear":
            return f"its memories are not linear but {memories.name}, so that no matrix stands between features"
        if sigma.name not in NAMES or getattr(sigma, "beta", 1.0) != 1:
            return f"an Elman cell has no nonlinearity {sigma.extra_repr()!r}"
        return None

    def extra_repr(self) -> str:
        """Which of the two."""
        return "conjugate, of r" if self.conjugate else "discrete, of V_f"


class EpisodicWeights(Connectivity):
    """`W = Xi (alpha_s I + sqrt(alpha_s) alpha_c Phi^T) Xi^T` of a memory, as a recurrent matrix; Xi and Phi learn."""

    def __init__(self, memory: EpisodicMemory) -> None:
        super().__init__(memory.features)
        self.memory = memory

    def forward(self) -> Float[Tensor, "size size"]:
        return self.memory.weights()


def _product(matrix: Tensor, low: Tensor, high: Tensor) -> Box:
    """The smallest box that holds `matrix v` for all v between `low` and `high`."""
    up, down = matrix.clamp(min=0), matrix.clamp(max=0)
    return up @ low + down @ high, up @ high + down @ low
