"""Stored memories and their interaction: the part that the flow and the maps of an episodic memory share."""

from __future__ import annotations

from math import inf, isfinite, sqrt

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.lagrangians import Lagrangian, make_lagrangian


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
        return self.alpha_s * self.Xi @ self.Xi.mT + sqrt(self.alpha_s) * self.alpha_c * self.Xi @ self.Phi.mT @ (
            self.Xi.mT
        )


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
