"""An orthogonal matrix as a product of Householder reflections."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.skew import ANGLES, check_initialiser
from mnemoscope.connectivity.unitary import Unitary


class Householder(Unitary):
    """`V = H(u_1) ... H(u_m)`, `H(u) = I - 2 u u^T / |u|^2`: oRNN (Mhammedi et al. 2017, Eq 5).

    The first i - 1 entries of the i-th vector are 0, so that there are m (2 N - m + 1) / 2 parameters; N reflections
    reach every orthogonal matrix with determinant (-1)^N.

    The product is formed in its compact form `I - Y S^-1 Y^T`, where Y has the vectors as columns and S is the upper
    triangle of `Y^T Y` with its diagonal halved.

    Args:
        size: rows and columns N.
        reflections: number of reflections m, 1..N; min(16, N) by default.
        init: "random" (normal vectors); for even m also "henaff", "cayley" and "identity": two reflections rotate a
            pair of units, by an angle ~ U(-pi, pi), ~ U(0, pi / 2), or 0.

    >>> round(torch.linalg.det(Householder(5, reflections=3)()).item())
    -1

    """

    initialisers = ("random", *ANGLES)
    _places: Tensor

    def __init__(self, size: int, reflections: int | None = None, init: str = "random") -> None:
        super().__init__(size)
        reflections = min(16, size) if reflections is None else reflections
        if not 1 <= reflections <= size:
            raise ValueError(f"{size} units take 1 to {size} reflections, but reflections is {reflections}.")
        check_initialiser(init, self.initialisers, self)
        if init != "random" and reflections % 2:
            raise ValueError(f"An odd number of reflections is never a rotation, but reflections is {reflections}.")
        self.reflections = reflections
        rows, columns = torch.tril_indices(size, reflections)
        vectors = torch.randn(size, reflections) if init == "random" else _rotating(size, reflections, ANGLES[init])
        self.vectors = nn.Parameter(vectors[rows, columns])
        self.register_buffer("_places", rows * reflections + columns, persistent=False)

    def forward(self) -> Float[Tensor, "n n"]:
        Y = self.vectors.new_zeros(self.size * self.reflections).index_put((self._places,), self.vectors)
        Y = Y.view(self.size, self.reflections)
        Y = Y / torch.linalg.vector_norm(Y, dim=0)
        S = (Y.mT @ Y).triu(1) + 0.5 * torch.eye(self.reflections).to(Y)
        return torch.eye(self.size).to(Y) - Y @ torch.linalg.solve_triangular(S, Y.mT, upper=True)


def _rotating(size: int, reflections: int, angles: tuple[float, float]) -> Float[Tensor, "n m"]:
    """Return pairs of vectors half an angle apart, whose two reflections rotate by that angle."""
    half = torch.empty(reflections // 2).uniform_(*angles) / 2
    first = torch.arange(0, reflections, 2)
    vectors = torch.zeros(size, reflections)
    vectors[first, first], vectors[first + 1, first], vectors[first + 1, first + 1] = -half.sin(), half.cos(), 1.0
    return vectors
