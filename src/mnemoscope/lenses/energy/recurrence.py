"""Elman networks at a constant input as `g' = s(W g + b)`, where s is the gradient of a convex function."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import GORU, GRU, LSTM, Cell, Elman, Stack
from mnemoscope.cells.lagrangians import Lagrangian, Logistic, Polynomial, ReLU, Softmax, Tanh, make_lagrangian

EPS = torch.finfo(torch.float64).eps
_KNOWN = ("tanh", "relu", "logistic", "linear")


@dataclass(frozen=True)
class Recurrence:
    """Rates `g' = s(W g + b)`; the fields `x' = W s(x) + b` have the rates g = s(x)."""

    W: Float[Tensor, "size size"]
    b: Float[Tensor, " size"]
    sigma: Lagrangian
    rounding: float = EPS
    """Unit of the last place of the weights as they were given."""

    @classmethod
    def of(
        cls,
        W: Float[Tensor, "rows columns"],
        b: Float[Tensor, " rows"] | None = None,
        sigma: str | Lagrangian = "tanh",
    ) -> Recurrence:
        """From a matrix of any real dtype, in float64."""
        if W.dim() != 2 or W.shape[0] != W.shape[1] or W.shape[0] == 0 or W.is_complex():
            raise ValueError(f"W must be real and square, (size, size), but is {tuple(W.shape)}, {W.dtype}.")
        b = W.new_zeros(len(W)) if b is None else b
        if b.shape != W.shape[:1]:
            raise ValueError(f"b must be ({len(W)},), one number per row of W, but is {tuple(b.shape)}.")
        if not (torch.isfinite(W).all() and torch.isfinite(b).all()):
            raise ValueError("W and b must be finite, but there are NaN or infinite values in them.")
        own = torch.finfo(W.dtype).eps if W.is_floating_point() else EPS
        return cls(W.detach().to(torch.float64), b.detach().to(torch.float64), make_lagrangian(sigma), own)

    @property
    def size(self) -> int:
        """Units."""
        return len(self.b)

    def field(self, g: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """`W g + b`."""
        return g @ self.W.mT + self.b

    def step(self, g: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """The next rates."""
        return self.sigma(self.field(g))

    @property
    def lipschitz(self) -> float | None:
        """The largest slope of s, an eigenvalue of its Jacobian; None where it is unbounded or not known."""
        sigma = self.sigma
        if isinstance(sigma, Tanh):
            return sigma.beta
        if isinstance(sigma, Logistic):
            return sigma.beta / 4
        if isinstance(sigma, Softmax):
            return sigma.beta / 2  # diag(p) - p p^T has no eigenvalue above 1/2, reached at p = (1/2, 1/2, 0, ...)
        if isinstance(sigma, ReLU) or type(sigma) is Lagrangian:
            return 1.0
        return 1.0 if isinstance(sigma, Polynomial) and sigma.degree == 2 else None


def elman_recurrence(cell: Cell, input: Float[Tensor, " features"] | None) -> Recurrence:
    """Of an Elman cell at a constant input, zeros by default; other cells are refused, in words."""
    given, cell = (
        cell,
        cell.frozen(),
    )  # weights that are computed from others, such as parametrised ones, are computed here
    if isinstance(cell, Stack):
        raise TypeError("No energy is known for layers on top of each other; look at one layer at a constant input.")
    if not isinstance(cell, Elman):
        gated = isinstance(cell, GRU | LSTM | GORU)
        why = "gates multiply states" if gated else "its step is not known to be s(W h + b)"
        raise TypeError(
            f"No energy is known for {type(cell).__name__}: {why}. An Elman cell, torch.nn.RNN, EpisodicMemory or "
            f"EpisodicMap has one."
        )
    W = cell.connectivity()
    if W.is_complex():
        raise ValueError("No energy is known for complex states; a real recurrent matrix is needed.")
    known = cell.phi.description()
    if known is None or known.name not in _KNOWN:
        what = "the cell's own function" if known is None else known.name
        raise ValueError(
            f"An energy needs the convex function whose gradient is the nonlinearity, which is known for "
            f"{', '.join(_KNOWN)}, not for {what}."
        )
    cell = cell.to(torch.float64)
    features = cell.input_size or 0
    x = torch.zeros(features, dtype=torch.float64) if input is None else input.detach().to(torch.float64)
    if x.shape != (features,):
        raise ValueError(f"The constant input must be ({features},), but is {tuple(x.shape)}.")
    if not torch.isfinite(x).all():
        raise ValueError("The constant input contains NaN or infinite values.")
    with torch.no_grad():
        drive = cell.drive
        assert isinstance(drive, nn.Module)
        found = Recurrence.of(cell.connectivity(), drive(x[None])[0], known.name)
        own = given.connectivity() if isinstance(given, Elman) else W
    return replace(found, rounding=torch.finfo(own.dtype).eps)
