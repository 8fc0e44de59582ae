"""Cells with matrix states, linearised near one state.

Near H, with F the slopes of phi there, the step of a `MatrixRNN` is `F o (U^T X V + sum of inputs)`, entry by entry. It
is again `U'^T X V'`, and so a `MatrixSystem`, if and only if F is a product of a column and a row, `F = a b^T`:
`U' = U diag(a)`, `V' = V diag(b)`. This holds for a linear network, at the fixed point 0 of a network without bias, and
for states of one column. Elsewhere the slopes of a tanh are no such product, and the flat state is needed. A queue adds
`F o alpha_t X(n-1-t)`, which is a `MatrixSystem` if all slopes are equal.
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
from mnemoscope.lenses.fisher.sources import noise_factor, signal_vector
from mnemoscope.lenses.systems import System

ROUNDING = 1e-12
"""Relative error up to which slopes count as a product of a column and a row."""


@dataclass(frozen=True)
class MatrixCell:
    """A matrix network and the state at which it is linearised."""

    dynamics: Dynamics
    state: Float[Tensor, "1 size"]

    @property
    def queue(self) -> QueueMemory | None:
        """The queue around the network, if there is one."""
        return self.dynamics.cell if isinstance(self.dynamics.cell, QueueMemory) else None

    @property
    def network(self) -> MatrixRNN:
        """The network whose states are matrices, without its queue."""
        cell = self.dynamics.cell if self.queue is None else self.queue.cell
        assert isinstance(cell, MatrixRNN)
        return cell

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a state: (rows, columns), with a queue (slots + 1, rows, columns)."""
        shape = self.network.state_shape
        return shape if self.queue is None else (self.queue.slots + 1, *shape)

    def slopes(self) -> Float[Tensor, "rows columns"]:
        """Return F, the derivative of phi at its argument."""
        Z = self.dynamics.cell.intermediates(self.dynamics.input, self.dynamics.unflatten(self.state))["pre"]
        return self.network.phi.derivative(Z.flatten(1))[0].view(self.network.state_shape).cpu()

    def source(self, direction: Inexact[Tensor, " ..."] | np.ndarray | int | None) -> Float[Tensor, " size"]:
        """Return the flat direction in which signals enter; a given matrix is a direction of the newest state."""
        if direction is None or isinstance(direction, (int, np.integer)):
            return signal_vector(self.dynamics, direction, self.state)
        flat = torch.as_tensor(direction).to(self.dynamics.input)
        if flat.shape == self.network.state_shape:
            rest = self.dynamics.size - flat.numel()
            flat = torch.cat([flat.flatten(), flat.new_zeros(rest)])
        return signal_vector(self.dynamics, flat, self.state)

    def noise(self, noise: Noise) -> Float[Tensor, "size sources"]:
        """Return a factor of the noise covariance.

        A variance applies to the newest matrix alone: a queue holds past states and adds no noise.
        """
        size = self.dynamics.size
        if torch.as_tensor(noise).dim() or self.queue is None:
            return noise_factor(noise, size)
        L = noise_factor(noise, self.network.hidden_size)
        return torch.cat([L, L.new_zeros(size - len(L), len(L))])

    def system(self, w: Float[Tensor, " size"], noise: Noise) -> MatrixSystem | str:
        """Return the network near the state as a `MatrixSystem`, or the reason why it is none."""
        if torch.as_tensor(noise).dim():
            return "the noise is given as a covariance of the flat state"
        noise_factor(noise, 1)
        newest, older = w.split([self.network.hidden_size, len(w) - self.network.hidden_size])
        if older.any():
            return "signals enter the queue"
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
    """Return a matrix network at `state`, or None for any other system.

    A cell without a `Dynamics` is linearised without input, at 0 by default.
    """
    is_cell = type(system) in (MatrixRNN, QueueMemory)
    dynamics = Dynamics(system, bounds=None) if isinstance(system, (MatrixRNN, QueueMemory)) and is_cell else system
    if not isinstance(dynamics, Dynamics) or type(dynamics.cell) not in (MatrixRNN, QueueMemory):
        return None
    if dynamics.continuous or (state is None and not is_cell):
        return None  # treated as any other Dynamics
    flat = dynamics.origin if state is None else state.detach().to(dynamics.origin).reshape(1, -1)
    if flat.shape != dynamics.origin.shape:
        raise ValueError(
            f"The state must have {dynamics.size} numbers, but its shape is {tuple(torch.as_tensor(state).shape)}."
        )
    return MatrixCell(dynamics, flat)


def _product(F: Float[Tensor, "rows columns"]) -> tuple[Tensor, Tensor] | None:
    """Return a column and a row whose product is F up to rounding, if there are any."""
    row, column = divmod(int(F.abs().argmax()), F.shape[1])
    peak = F[row, column]
    if float(peak) == 0:
        return F[:, 0], torch.ones_like(F[0])
    a, b = F[:, column], F[row] / peak
    return (a, b) if float((F - torch.outer(a, b)).abs().max()) <= ROUNDING * float(peak.abs()) else None
