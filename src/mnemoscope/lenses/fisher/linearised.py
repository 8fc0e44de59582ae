"""Cells with matrices for states, near one state: a small disturbance goes on by a linear network.

Near H, with F the slopes of phi there, the step of a `MatrixRNN` is `F o (U^T X V + sum of inputs)`, entry by entry. It
is again `U'^T X V'`, and so a `MatrixSystem`, if and only if F is a product of a column and a row, `F = a b^T`:
`U' = U diag(a)`, `V' = V diag(b)`. So it is of a linear network, at rest at 0 of one without a bias, and of states that
are one column; elsewhere the slopes of a tanh are no product, and only the flat state tells. A queue adds
`F o alpha_t X(n-1-t)`, a `MatrixSystem` where all slopes are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.matrix import MatrixRNN, QueueMemory
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem, Noise
from mnemoscope.lenses.fisher.sources import entering, noise_factor
from mnemoscope.lenses.systems import System

ROUNDING = 1e-12
"""Of slopes that are a product of a column and a row."""


@dataclass(frozen=True)
class MatrixCell:
    """A matrix network with a state to be looked at."""

    dynamics: Dynamics
    state: Float[Tensor, "1 size"]

    @property
    def queue(self) -> QueueMemory | None:
        """Around the network, if there is one."""
        return self.dynamics.cell if isinstance(self.dynamics.cell, QueueMemory) else None

    @property
    def network(self) -> MatrixRNN:
        """Whose states are matrices."""
        cell = self.dynamics.cell if self.queue is None else self.queue.cell
        assert isinstance(cell, MatrixRNN)
        return cell

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a state: (rows, columns), with a queue (slots + 1, rows, columns)."""
        shape = self.network.state_shape
        return shape if self.queue is None else (self.queue.slots + 1, *shape)

    def slopes(self) -> Float[Tensor, "rows columns"]:
        """F, phi' of what it is applied to."""
        Z = self.dynamics.cell.intermediates(self.dynamics.input, self.dynamics.unflatten(self.state))["pre"]
        return self.network.phi.derivative(Z.flatten(1))[0].view(self.network.state_shape).cpu()

    def source(self, direction: Inexact[Tensor, " ..."] | np.ndarray | int | None) -> Float[Tensor, " size"]:
        """The flat direction by which signals enter. A matrix is one of the newest state."""
        if direction is None or isinstance(direction, (int, np.integer)):
            return entering(self.dynamics, direction, self.state)
        flat = torch.as_tensor(direction).to(self.dynamics.input)
        if flat.shape == self.network.state_shape:
            rest = self.dynamics.size - flat.numel()
            flat = torch.cat([flat.flatten(), flat.new_zeros(rest)])
        return entering(self.dynamics, flat, self.state)

    def noise(self, noise: Noise) -> Float[Tensor, "size sources"]:
        """A factor of the covariance. A variance is that of noise which enters the newest matrix: a queue holds what
        has been, and adds no noise of its own.
        """
        size = self.dynamics.size
        if torch.as_tensor(noise).dim() or self.queue is None:
            return noise_factor(noise, size)
        L = noise_factor(noise, self.network.hidden_size)
        return torch.cat([L, L.new_zeros(size - len(L), len(L))])

    def system(self, w: Float[Tensor, " size"], noise: Noise) -> MatrixSystem | str:
        """The network near the state as a `MatrixSystem`, or why it is none."""
        if torch.as_tensor(noise).dim():
            return "the noise is given as a covariance of the flat state"
        noise_factor(noise, 1)
        newest, older = w.split([self.network.hidden_size, len(w) - self.network.hidden_size])
        if older.any():
            return "signals enter what lies in the queue"
        F = self.slopes()
        factors = _product(F)
        if factors is None:
            return "the slopes of its nonlinearity there are no product of a column and a row"
        U, V = (factor.cpu() for factor in self.network.connectivity.factors())
        alpha = torch.zeros(0)
        if self.queue is not None:
            if float((F - F[0, 0]).abs().max()) > ROUNDING * float(F.abs().max()):
                return "the slopes of its nonlinearity there are not all equal, as a queue needs"
            alpha = F[0, 0] * self.queue.alpha.cpu()
        a, b = factors
        return MatrixSystem(U * a, V * b, newest.view(self.network.state_shape), eps1=float(noise), alpha=alpha)


def matrix_cell(system: System | MatrixSystem, state: Float[Tensor, " ..."] | None) -> MatrixCell | None:
    """A matrix network at `state`, or None of other systems. A cell is looked at without input, at 0 by default."""
    alone = type(system) in (MatrixRNN, QueueMemory)
    dynamics = Dynamics(system, bounds=None) if isinstance(system, (MatrixRNN, QueueMemory)) and alone else system
    if not isinstance(dynamics, Dynamics) or type(dynamics.cell) not in (MatrixRNN, QueueMemory):
        return None
    if dynamics.continuous or (state is None and not alone):
        return None  # as of any other Dynamics
    flat = dynamics.origin if state is None else state.detach().to(dynamics.origin).reshape(1, -1)
    if flat.shape != dynamics.origin.shape:
        raise ValueError(
            f"The state must have {dynamics.size} numbers, but its shape is {tuple(torch.as_tensor(state).shape)}."
        )
    return MatrixCell(dynamics, flat)


def _product(F: Float[Tensor, "rows columns"]) -> tuple[Tensor, Tensor] | None:
    """A column and a row whose product F is, up to rounding."""
    row, column = divmod(int(F.abs().argmax()), F.shape[1])
    peak = F[row, column]
    if float(peak) == 0:
        return F[:, 0], torch.ones_like(F[0])
    a, b = F[:, column], F[row] / peak
    return (a, b) if float((F - torch.outer(a, b)).abs().max()) <= ROUNDING * float(peak.abs()) else None
