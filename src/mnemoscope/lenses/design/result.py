"""The result of memory design: the best network found, its value, and the bound on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.design.ascent import Point
from mnemoscope.lenses.design.constraints import Constraint
from mnemoscope.lenses.design.objective import amplification_bound, network_memory, relative_total
from mnemoscope.lenses.design.starts import delay_lines
from mnemoscope.lenses.fisher.result import FisherMemory
from mnemoscope.lenses.result import Result

FEWEST_LAGS = 100
"""Smallest length of the memory curve of the result."""


@dataclass(frozen=True, repr=False)
class MemoryDesign(Result):
    """The best network that the search found; another may be better.

    >>> import mnemoscope as ms
    >>> design = ms.design_memory(4, norm=1.0, lags=4, restarts=2, progress=False)
    >>> round(design.value, 6), round(design.bound, 6)  # 1 + 1/2 + 1/3 + 1/4: a delay line, in some basis
    (2.083333, 2.083333)
    >>> design.lines[0].abs().round(decimals=3).tolist()[1]
    [1.0, 0.0, 0.0, 0.0]
    """

    noun: ClassVar[str] = "a designed network"
    drawn_by: ClassVar[str] = "draw_design"
    former_kinds: ClassVar[tuple[str, ...]] = ("Design",)

    V: Float[Tensor, "columns columns"]
    """Recurrent matrix; in a matrix network the one that acts on columns."""
    ascent: Float[Tensor, " iterations"]
    """Value at every iteration of the best restart."""
    values: Float[Tensor, " restarts"]
    """Final value of every restart."""
    converged: bool
    """Whether the best restart stopped because no small allowed step leads up."""
    reason: str
    """Why the best restart stopped."""
    norm: float | None = None
    """Limit on the largest singular value."""
    frobenius: float | None = None
    """Limit on the Frobenius norm."""
    radius: float | None = None
    """Limit on the spectral radius."""
    lags: int | None = None
    """Number of lags in the objective; None for all."""
    v: Float[Tensor, " columns"] | None = None
    """Direction in which signals enter a vector network."""
    U: Float[Tensor, "rows rows"] | None = None
    """Recurrent matrix on the rows of a matrix network, `X(n) = U^T X(n-1) V + W s(n) + Z(n)`."""
    W: Float[Tensor, "rows columns"] | None = None
    """Direction in which signals enter a matrix network."""

    @property
    def parts(self) -> Point:
        """The network as (V, v) or (U, V, W)."""
        parts = (self.V, self.v) if self.U is None else (self.U, self.V, self.W)
        return [part for part in parts if part is not None]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a state."""
        return tuple(self.parts[-1].shape)

    @cached_property
    def memory(self) -> FisherMemory:
        """The Fisher memory of the network."""
        return network_memory(self.parts, max(FEWEST_LAGS, self.lags or 0))

    @property
    def value(self) -> float:
        """The relative total of the network, over all lags or the first ones."""
        return relative_total(self.memory, self.lags).item()

    @property
    def bound(self) -> float:
        """Bound for any network under these norms: the amplification bound, and the number of units."""
        return amplification_bound(self.shape, Constraint(self.norm, self.frobenius).largest, self.lags)

    @cached_property
    def line(self) -> float:
        """Value of a delay line under the same norms; for a matrix network, of two lines from corner to corner."""
        line = delay_lines(self.shape, Constraint(self.norm, self.frobenius))
        return relative_total(network_memory(line, self.lags or 1), self.lags).item()

    @property
    def lines(self) -> list[Float[Tensor, "size size"]]:
        """V in the orthonormal basis of v, V v, V^2 v, ..., in which a delay line has only a sub-diagonal.

        For a matrix network U^T and V^T, starting from the leading singular vectors of W.
        """
        if self.U is None or self.W is None:
            assert self.v is not None
            return [_in_krylov_basis(self.V, self.v)]
        left, _, right = torch.linalg.svd(self.W)
        return [_in_krylov_basis(self.U.mT, left[:, 0]), _in_krylov_basis(self.V.mT, right[0])]

    def summary(self) -> str:
        """Return the value, its bound, and how the search ended, in sentences."""
        shape = " x ".join(map(str, self.shape))
        limits = {"norm": self.norm, "Frobenius norm": self.frobenius, "spectral radius": self.radius}
        allowed = " and ".join(f"{name} at most {limit:g}" for name, limit in limits.items() if limit is not None)
        signals = "all past signals" if self.lags is None else f"the last {self.lags} signals"
        lowest, highest, restarts = float(self.values.min()), float(self.values.max()), len(self.values)
        sentences = [
            f"A network of {shape} units with {allowed}{'' if self.U is None else ' each'} holds {self.value:.6g} of "
            f"{signals}; a delay line holds {self.line:.6g}, and no network more than {self.bound:.6g}.",
            f"The best of {restarts} starts reached {highest:.6g}, the worst {lowest:.6g}."
            if restarts > 1
            else "There was one start.",
            f"The best ascent stopped: {self.reason}.",
        ]
        if highest < self.bound * (1 - 1e-9):
            sentences.append("A better network may exist.")
        return " ".join(sentences)


def _in_krylov_basis(A: Float[Tensor, "size size"], first: Float[Tensor, " size"]) -> Float[Tensor, "size size"]:
    """Return A in the orthonormal basis of x, A x, A^2 x, ... (Arnoldi); where these end, other directions follow."""
    basis = (first / torch.linalg.vector_norm(first))[:, None]
    while basis.shape[1] < len(A):
        eye = torch.eye(len(A), dtype=A.dtype)
        for candidates in (A @ basis[:, -1:], eye):
            rest = candidates
            for _ in range(2):  # a second orthogonalisation removes the rounding errors of the first
                rest = rest - basis @ (basis.mT @ rest)
            lengths = torch.linalg.vector_norm(rest, dim=0)
            if float(lengths.max()) > 1e-8:
                break
        chosen = int(lengths.argmax())
        basis = torch.cat([basis, rest[:, chosen : chosen + 1] / lengths[chosen]], dim=1)
    return basis.mT @ A @ basis
