"""What an energy of the episodic memory is made of: its two matrices, its two Lagrangians and its two strengths."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.episodic_store import EpisodicStore
from mnemoscope.cells.lagrangians import Lagrangian, make_lagrangian


@dataclass(frozen=True)
class Weights:
    """Xi, Phi, the Lagrangians of features and memories, alpha_s, alpha_c (paper, Eq 2), and a current into V_f.

    >>> memory = Weights.of(torch.eye(2), torch.zeros(2, 2), "tanh")
    >>> memory.step(torch.ones(1, 2).double(), torch.zeros(1, 2).double())  # tanh(1)
    tensor([[0.7616, 0.7616]], dtype=torch.float64)
    """

    Xi: Float[Tensor, "features memories"]
    Phi: Float[Tensor, "memories memories"]
    sigma_f: Lagrangian
    sigma_h: Lagrangian
    alpha_s: float = 1.0
    alpha_c: float = 1.0
    current: Float[Tensor, " features"] | None = None
    rounding: float = torch.finfo(torch.float64).eps
    """Unit of the last place of Xi and Phi as they were given."""

    @classmethod
    def of(
        cls,
        Xi: Float[Tensor, "features memories"],
        Phi: Float[Tensor, "rows columns"],
        sigma_f: str | Lagrangian = "tanh",
        sigma_h: str | Lagrangian = "linear",
        alpha_s: float = 1.0,
        alpha_c: float = 1.0,
        current: Float[Tensor, " features"] | None = None,
    ) -> Weights:
        """From tensors of any floating dtype, in float64, with nonlinearities by name."""
        if Xi.dim() != 2 or Phi.shape != (Xi.shape[1], Xi.shape[1]):
            raise ValueError(
                f"Xi must be (features, memories) and Phi (memories, memories), but they are {tuple(Xi.shape)} and "
                f"{tuple(Phi.shape)}."
            )
        if current is not None and current.shape != Xi.shape[:1]:
            raise ValueError(
                f"The current must be ({len(Xi)},), one number per feature, but is {tuple(current.shape)}."
            )
        for name, part in (("Xi", Xi), ("Phi", Phi), ("The current", current)):
            if part is not None and not torch.isfinite(part).all():
                raise ValueError(f"{name} contains NaN or infinite values.")
        if not 0 < alpha_s < inf or not isfinite(alpha_c):
            raise ValueError(f"alpha_s must be positive and both finite, but alpha_s, alpha_c = {alpha_s}, {alpha_c}.")
        own = None if current is None or not current.any() else current.detach().to(torch.float64)
        rounding = max(torch.finfo(part.dtype).eps for part in (Xi, Phi))
        Xi, Phi = (matrix.detach().to(torch.float64) for matrix in (Xi, Phi))
        return cls(
            Xi, Phi, make_lagrangian(sigma_f), make_lagrangian(sigma_h), float(alpha_s), float(alpha_c), own, rounding
        )

    @classmethod
    def of_memory(cls, memory: EpisodicStore, current: Float[Tensor, " features"] | None = None) -> Weights:
        """Those of an episodic memory."""
        return cls.of(memory.Xi, memory.Phi, memory.sigma_f, memory.sigma_h, memory.alpha_s, memory.alpha_c, current)

    @property
    def features(self) -> int:
        """Units of V_f and V_d."""
        return self.Xi.shape[0]

    @property
    def linear(self) -> bool:
        """Whether sigma_h is the identity, as throughout the notes on the energy."""
        return type(self.sigma_h) is Lagrangian

    def called(self, y: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch memories"]:
        """What V_d = y adds to V_h: `alpha_c Phi^T Xi^T y`."""
        return self.alpha_c * y @ self.Xi @ self.Phi

    def memories(
        self, g: Float[Tensor, "*batch features"], y: Float[Tensor, "*batch features"]
    ) -> Float[Tensor, "*batch memories"]:
        """V_h at rest: `sqrt(alpha_s) Xi^T g + alpha_c Phi^T Xi^T y`, for rates g = sigma_f(V_f)."""
        return sqrt(self.alpha_s) * g @ self.Xi + self.called(y)

    def step(
        self, x: Float[Tensor, "*batch features"], y: Float[Tensor, "*batch features"]
    ) -> Float[Tensor, "*batch features"]:
        """The next V_f with V_d = y frozen, `sqrt(alpha_s) Xi sigma_h(V_h)` (notes, Eq 46, where alphas are 1)."""
        recalled = sqrt(self.alpha_s) * self.sigma_h(self.memories(self.sigma_f(x), y)) @ self.Xi.mT
        return recalled if self.current is None else recalled + self.current

    def pushed(self, g: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch"]:
        """What the current adds to an energy: `-current.g`."""
        return torch.zeros_like(g[..., 0]) if self.current is None else -(g @ self.current)

    def shared(self) -> Float[Tensor, "features features"]:
        """`Xi Phi Xi^T`, by which V_d acts on V_f where sigma_h is linear."""
        return self.Xi @ self.Phi @ self.Xi.mT

    def recurrent(self) -> Float[Tensor, "features features"]:
        """W of `V_f' = W sigma_f(V_f)`: V_d follows at every step and sigma_h is linear (notes, Eq 7)."""
        if not self.linear:
            raise ValueError(
                f"V_f' = W sigma_f(V_f) needs a linear sigma_h, but it is {self.sigma_h.extra_repr()}: the step is "
                f"then no product with a matrix."
            )
        identity = torch.eye(len(self.Phi), dtype=self.Phi.dtype)
        inner = self.alpha_s * identity + sqrt(self.alpha_s) * self.alpha_c * self.Phi.mT
        return self.Xi @ inner @ self.Xi.mT
