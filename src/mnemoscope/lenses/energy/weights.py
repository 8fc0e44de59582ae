"""Weights of an episodic memory as its energy needs them: two matrices, two Lagrangians and two strengths."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.episodic_map import EpisodicStore
from mnemoscope.cells.lagrangians import Lagrangian, make_lagrangian

Features = Float[Tensor, "*batch features"]
"""V_f, V_d, or their rates."""
Memories = Float[Tensor, "*batch memories"]
"""V_h, or its rates."""


@dataclass(frozen=True)
class Weights:
    """Xi, Phi, the Lagrangians of features and memories, alpha_s, alpha_c (paper, Eq 2), and a current into V_f.

    >>> memory = Weights.from_matrices(torch.eye(2), torch.zeros(2, 2), "tanh")
    >>> memory.step(torch.ones(1, 2).double(), torch.zeros(1, 2).double())  # tanh(1)
    tensor([[0.7616, 0.7616]], dtype=torch.float64)
    """

    Xi: Float[Tensor, "features memories"]
    Phi: Float[Tensor, "memories memories"]
    sigma_f: Lagrangian
    sigma_h: Lagrangian
    alpha_s: float
    alpha_c: float
    current: Float[Tensor, " features"]
    rounding: float
    """Machine epsilon of the dtype in which Xi and Phi were given."""

    @classmethod
    def from_matrices(
        cls,
        Xi: Float[Tensor, "features memories"],
        Phi: Float[Tensor, "rows columns"],
        sigma_f: str | Lagrangian = "tanh",
        sigma_h: str | Lagrangian = "linear",
        alpha_s: float = 1.0,
        alpha_c: float = 1.0,
        current: Float[Tensor, " features"] | None = None,
    ) -> Weights:
        """Return float64 weights from tensors of any floating dtype, with nonlinearities by name."""
        if Xi.dim() != 2 or Phi.shape != (Xi.shape[1], Xi.shape[1]):
            raise ValueError(
                f"Xi must be (features, memories) and Phi (memories, memories), but they are {tuple(Xi.shape)} and "
                f"{tuple(Phi.shape)}."
            )
        current = Xi.new_zeros(len(Xi)) if current is None else current
        if current.shape != Xi.shape[:1]:
            raise ValueError(
                f"The current must be ({len(Xi)},), one number per feature, but is {tuple(current.shape)}."
            )
        for name, part in (("Xi", Xi), ("Phi", Phi), ("The current", current)):
            if not torch.isfinite(part).all():
                raise ValueError(f"{name} contains NaN or infinite values.")
        if not 0 < alpha_s < inf or not isfinite(alpha_c):
            raise ValueError(f"alpha_s must be positive and both finite, but alpha_s, alpha_c = {alpha_s}, {alpha_c}.")
        rounding = max(torch.finfo(part.dtype).eps for part in (Xi, Phi))
        Xi, Phi, current = (part.detach().to(torch.float64) for part in (Xi, Phi, current))
        functions = make_lagrangian(sigma_f), make_lagrangian(sigma_h)
        return cls(Xi, Phi, *functions, float(alpha_s), float(alpha_c), current, rounding)

    @classmethod
    def from_memory(cls, memory: EpisodicStore, current: Float[Tensor, " features"] | None = None) -> Weights:
        """Return the weights of an episodic memory."""
        functions, strengths = (memory.sigma_f, memory.sigma_h), (memory.alpha_s, memory.alpha_c)
        return cls.from_matrices(memory.Xi, memory.Phi, *functions, *strengths, current)

    @property
    def features(self) -> int:
        """Number of units of V_f and V_d."""
        return self.Xi.shape[0]

    @property
    def linear(self) -> bool:
        """Whether sigma_h is the identity, as throughout the notes on the energy."""
        return type(self.sigma_h) is Lagrangian

    def delayed_drive(self, y: Features) -> Memories:
        """Return the drive of V_h by V_d = y: `alpha_c Phi^T Xi^T y`."""
        return self.alpha_c * y @ self.Xi @ self.Phi

    def memory_drive(self, g: Features, y: Features) -> Memories:
        """Return V_h at rest: `sqrt(alpha_s) Xi^T g + alpha_c Phi^T Xi^T y`, for rates g = sigma_f(V_f)."""
        return sqrt(self.alpha_s) * g @ self.Xi + self.delayed_drive(y)

    def field(self, g: Features, y: Features) -> Features:
        """Return the next V_f, `sqrt(alpha_s) Xi sigma_h(V_h) + u`, from the rates g with V_d = y frozen."""
        return sqrt(self.alpha_s) * self.sigma_h(self.memory_drive(g, y)) @ self.Xi.mT + self.current

    def step(self, x: Features, y: Features) -> Features:
        """Return the next V_f from V_f = x with V_d = y frozen (notes, Eq 46, with alphas of 1)."""
        return self.field(self.sigma_f(x), y)

    def settled_energy(self, y: Features) -> Float[Tensor, "*batch"]:
        """Return `|c|^2 / 2 + y.S y / 2`, with c the drive of V_h by V_d = y: the term of V_d where it settles."""
        return self.delayed_drive(y).square().sum(-1) / 2 + (y * (y @ self.coupling())).sum(-1) / 2

    def coupling(self) -> Float[Tensor, "features features"]:
        """Return `S = sqrt(alpha_s) alpha_c Xi Phi Xi^T`, by which V_d acts on V_f if sigma_h is linear."""
        return sqrt(self.alpha_s) * self.alpha_c * (self.Xi @ self.Phi @ self.Xi.mT)

    def recurrent(self) -> Float[Tensor, "features features"]:
        """Return W of `V_f' = W sigma_f(V_f)`, with V_d following at every step and sigma_h linear (notes, Eq 7)."""
        if not self.linear:
            raise ValueError(
                f"V_f' = W sigma_f(V_f) needs a linear sigma_h, but it is {self.sigma_h.extra_repr()}: the step is "
                f"then not a product with a matrix."
            )
        identity = torch.eye(len(self.Phi), dtype=self.Phi.dtype)
        inner = self.alpha_s * identity + sqrt(self.alpha_s) * self.alpha_c * self.Phi.mT
        return self.Xi @ inner @ self.Xi.mT
