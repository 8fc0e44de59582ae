"""A matrix network with a queue of its past states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.matrix.bilinear import kronecker
from mnemoscope.cells.matrix.rnn import MatrixRNN


class QueueState(NamedTuple):
    """The newest matrix X(n) and a queue of the p matrices before it."""

    h: Tensor
    """X(n), (batch, rows, columns)."""
    queue: Tensor
    """X(n-1), ..., X(n-p), (batch, slots, rows, columns)."""


class QueueMemory(Cell):
    """`X(n) = phi(U^T X(n-1) V + drive(n) + sum_t alpha_t X(n-1-t))`, t = 1, ..., p (Renanse et al. 2021, Eq 34, 35).

    With linear phi it is the `MatrixSystem` whose Fisher memory has a closed form. Such a linear network forgets if
    `rho(U) rho(V) + sum_t |alpha_t| < 1`, where rho is the spectral radius; the published case, one slot with alpha =
    1, never does. `alpha` are the weights of the slots, the newest first; with `learned` they are learned, starting at
    `alpha`, and their sum is not constrained.

    >>> cell = QueueMemory(MatrixRNN((5, 5), (4, 3)), alpha=[0.2, 0.1])
    >>> cell(torch.zeros(7, 25), cell.initial_state(7)).queue.shape
    torch.Size([7, 2, 4, 3])
    """

    alpha: Tensor

    def __init__(self, cell: MatrixRNN, alpha: Sequence[float] | float | Tensor, learned: bool = False) -> None:
        super().__init__()
        if not isinstance(cell, MatrixRNN):
            raise TypeError(
                f"The queue is read into the pre-activation of a MatrixRNN, but the cell is a {type(cell).__name__}."
            )
        try:
            weights = torch.as_tensor(alpha, dtype=cell.initial_state(1).dtype).detach().clone()
        except (TypeError, ValueError, RuntimeError):  # raised by torch for strings and nested lists
            weights = torch.empty(0)
        weights = weights[None] if weights.dim() == 0 else weights
        if weights.dim() != 1 or not len(weights) or not torch.isfinite(weights).all():
            raise ValueError(f"alpha must be a finite weight for every slot of the queue, but is {alpha!r}.")
        self.cell = cell
        self.input_size, self.hidden_size = cell.input_size, cell.hidden_size
        if learned:
            self.alpha = nn.Parameter(weights)
        else:
            self.register_buffer("alpha", weights)

    @property
    def slots(self) -> int:
        """Number of past states in the queue, p."""
        return len(self.alpha)

    def initial_state(self, batch: int) -> QueueState:
        h = self.cell.initial_state(batch)
        return QueueState(h, h.new_zeros(batch, self.slots, *self.cell.state_shape))

    def output(self, state: QueueState) -> Float[Tensor, "*batch features"]:
        """Return the entries of the newest matrix, row by row."""
        return self.cell.output(state.h)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        us, step = self.cell.prepare(xs)
        return us, lambda u, state: QueueState(step(u + self.read(state), state.h), _pushed(state))

    def read(self, state: QueueState) -> Float[Tensor, "*batch rows columns"]:
        """Return `sum_t alpha_t X(n-1-t)`."""
        return torch.einsum("t,...tij->...ij", self.alpha, state.queue)

    def jacobian(self, x: Tensor, state: QueueState) -> Float[Tensor, "batch size size"]:
        """Return the Jacobian: phi' times the matrix of U, V and alpha in the rows of X(n), and a shift below."""
        cell, N = self.cell, self.hidden_size
        slope = cell.phi.derivative((cell.pre_activation(x, state.h) + self.read(state)).flatten(1))
        size = (self.slots + 1) * N
        J = slope.new_zeros(len(slope), size, size)
        reading = kronecker(self.alpha[:, None], torch.eye(N).to(self.alpha))  # (N, slots N)
        J[:, :N] = slope.unsqueeze(-1) * torch.cat([cell.connectivity(), reading], dim=1)
        J[:, N:, :-N] = torch.eye(size - N).to(J)
        return J

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Return the cell's box for every slot: its next state lies there whatever it reads."""
        box = self.cell.bounds(low, high)
        return None if box is None else (box[0].repeat(self.slots + 1), box[1].repeat(self.slots + 1))

    def intermediates(self, x: Tensor, state: QueueState) -> dict[str, Tensor]:
        read = self.read(state)
        return {"pre": self.cell.pre_activation(x, state.h) + read, "read": read}

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> QueueMemory:
        cell = self.cell.frozen(dtype, device)
        alpha = self.alpha.detach().clone().to(dtype=dtype, device=device)
        return QueueMemory(cell, alpha, isinstance(self.alpha, nn.Parameter)).requires_grad_(False).eval()


def _pushed(state: QueueState) -> Tensor:
    return torch.cat([state.h.unsqueeze(-3), state.queue[..., :-1, :, :]], dim=-3)
