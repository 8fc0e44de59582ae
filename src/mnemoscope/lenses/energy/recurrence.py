"""Elman networks at a constant input as `g' = s(W g + b)`, with s the gradient of a convex function."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import GORU, GRU, LSTM, Cell, Elman, Stack
from mnemoscope.cells.lagrangians import Lagrangian, Logistic, Polynomial, ReLU, Softmax, Tanh, make_lagrangian

EPS = torch.finfo(torch.float64).eps
"""Machine epsilon of float64."""
_KNOWN = ("tanh", "relu", "logistic", "linear")
"""Nonlinearities of Elman cells that are gradients of known convex functions."""


@dataclass(frozen=True)
class Recurrence:
    """The map `g' = s(W g + b)` of rates; the fields `x' = W s(x) + b` have the rates g = s(x)."""

    W: Float[Tensor, "size size"]
    b: Float[Tensor, " size"]
    sigma: Lagrangian
    rounding: float = EPS
    """Machine epsilon of the dtype in which the weights were given."""

    @classmethod
    def from_matrix(
        cls, W: Float[Tensor, "rows columns"], b: Float[Tensor, " rows"] | None = None, sigma: str | Lagrangian = "tanh"
    ) -> Recurrence:
        """Return a float64 recurrence from a matrix of any real dtype."""
        if W.dim() != 2 or W.shape[0] != W.shape[1] or W.shape[0] == 0 or W.is_complex():
            raise ValueError(f"W must be real and square, (size, size), but is {tuple(W.shape)}, {W.dtype}.")
        b = W.new_zeros(len(W)) if b is None else b
        if b.shape != W.shape[:1]:
            raise ValueError(f"b must be ({len(W)},), one number per row of W, but is {tuple(b.shape)}.")
        if not (torch.isfinite(W).all() and torch.isfinite(b).all()):
            raise ValueError("W and b must be finite, but contain NaN or infinite values.")
        rounding = torch.finfo(W.dtype).eps if W.is_floating_point() else EPS
        return cls(W.detach().to(torch.float64), b.detach().to(torch.float64), make_lagrangian(sigma), rounding)

    @property
    def size(self) -> int:
        """Number of units."""
        return len(self.b)

    def field(self, g: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Return `W g + b`."""
        return g @ self.W.mT + self.b

    def step(self, g: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Return the next rates."""
        return self.sigma(self.field(g))

    @property
    def lipschitz(self) -> float | None:
        """The Lipschitz constant of s, the largest eigenvalue of its Jacobian; None if it is unbounded or not known."""
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
    """Return an Elman cell at a constant input, zeros by default, as a recurrence; raise on other cells."""
    given, cell = cell, cell.frozen(device=torch.device("cpu"))  # computes parametrised weights
    if isinstance(cell, Stack):
        raise TypeError("No energy is known for stacked layers; pass one layer at a constant input.")
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
        what = "a custom function" if known is None else known.name
        raise ValueError(
            f"An energy needs the convex function whose gradient is the nonlinearity, which is known for "
            f"{', '.join(_KNOWN)}, not for {what}."
        )
    cell = cell.to(torch.float64)
    features = cell.input_size or 0
    x = torch.zeros(features, dtype=torch.float64) if input is None else input.detach().to("cpu", torch.float64)
    if x.shape != (features,):
        raise ValueError(f"The constant input must be ({features},), but is {tuple(x.shape)}.")
    if not torch.isfinite(x).all():
        raise ValueError("The constant input contains NaN or infinite values.")
    with torch.no_grad():
        drive = cell.drive
        assert isinstance(drive, nn.Module)
        recurrence = Recurrence.from_matrix(cell.connectivity(), drive(x[None])[0], known.name)
        original = given.connectivity() if isinstance(given, Elman) else W
    return replace(recurrence, rounding=torch.finfo(original.dtype).eps)
