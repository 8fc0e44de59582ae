"""A queue of past states beside a matrix network."""

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
    """The newest matrix X(n) (batch, rows, columns) and those before it, X(n-1), ..., X(n-p), (batch, slots, rows,
    columns).
    """

    h: Tensor
    queue: Tensor


class QueueMemory(Cell):
    """`X(n) = phi(U^T X(n-1) V + drive(n) + sum_t alpha_t X(n-1-t))`, t = 1, ..., p (Renanse et al. 2021, Eq 34, 35).

    With phi = linear it is the `MatrixSystem` whose Fisher memory is known, in the same words and order. Such a linear
    network forgets if `rho(U) rho(V) + sum_t |alpha_t| < 1`, rho being the spectral radius; the published case, one
    slot with alpha = 1, never does.

    Args:
        cell: the matrix network that reads from the queue.
        alpha: weights of the slots, the newest first.
        learned: whether they learn, from `alpha` on. They are free: nothing keeps their sum.

    >>> cell = QueueMemory(MatrixRNN((5, 5), (4, 3)), alpha=[0.2, 0.1])
    >>> cell(torch.zeros(7, 25), cell.initial_state(7)).queue.shape
    torch.Size([7, 2, 4, 3])

    """

    alpha: Tensor

    def __init__(self, cell: MatrixRNN, alpha: Sequence[float] | float | Tensor, learned: bool = False) -> None:
        super().__init__()
        if not isinstance(cell, MatrixRNN):
            raise TypeError(
                f"What is read from the queue is added before the nonlinearity of a MatrixRNN, but the cell is a "
                f"{type(cell).__name__}."
            )
        try:
            weights = torch.as_tensor(alpha, dtype=cell.initial_state(1).dtype).detach().clone()
        except (TypeError, ValueError, RuntimeError):  # what torch says of words, and of lists in lists
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
        """Past states in the queue, p."""
        return len(self.alpha)

    def initial_state(self, batch: int) -> QueueState:
        h = self.cell.initial_state(batch)
        return QueueState(h, h.new_zeros(batch, self.slots, *self.cell.state_shape))

    def output(self, state: QueueState) -> Float[Tensor, "*batch features"]:
        """The entries of the newest matrix, row by row."""
        return self.cell.output(state.h)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        us, step = self.cell.prepare(xs)
        return us, lambda u, state: QueueState(step(u + self.read(state), state.h), _pushed(state))

    def read(self, state: QueueState) -> Float[Tensor, "*batch rows columns"]:
        """`sum_t alpha_t X(n-1-t)`."""
        return torch.einsum("t,...tij->...ij", self.alpha, state.queue)

    def forward(self, x: Float[Tensor, "batch features"], state: QueueState) -> QueueState:
        u, step = self.prepare(x)
        return step(u, state)

    def jacobian(self, x: Tensor, state: QueueState) -> Float[Tensor, "batch size size"]:
        """Phi' times the matrix of U, V and alpha in the rows of X(n), a shift below."""
        cell, N = self.cell, self.hidden_size
        slope = cell.phi.derivative((cell.pre_activation(x, state.h) + self.read(state)).flatten(1))
        size = (self.slots + 1) * N
        J = slope.new_zeros(len(slope), size, size)
        reading = kronecker(self.alpha[:, None], torch.eye(N).to(self.alpha))  # (N, slots N)
        J[:, :N] = slope.unsqueeze(-1) * torch.cat([cell.connectivity(), reading], dim=1)
        J[:, N:, :-N] = torch.eye(size - N).to(J)
        return J

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """The cell's, for every slot: what it steps to lies there whatever is read."""
        box = self.cell.bounds(low, high)
        return None if box is None else (box[0].repeat(self.slots + 1), box[1].repeat(self.slots + 1))

    def intermediates(self, x: Tensor, state: QueueState) -> dict[str, Tensor]:
        read = self.read(state)
        return {"pre": self.cell.pre_activation(x, state.h) + read, "read": read}

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> QueueMemory:
        """As for every cell; the inner one knows best how to copy itself."""
        cell = self.cell.frozen(dtype, device)
        alpha = self.alpha.detach().clone().to(dtype=dtype, device=device)
        return QueueMemory(cell, alpha, isinstance(self.alpha, nn.Parameter)).requires_grad_(False).eval()


def _pushed(state: QueueState) -> Tensor:
    return torch.cat([state.h.unsqueeze(-3), state.queue[..., :-1, :, :]], dim=-3)
