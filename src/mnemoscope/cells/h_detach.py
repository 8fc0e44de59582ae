"""h-detach: an LSTM whose gradient flows through its memory more than through its output."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Step
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.lstm import LSTM, LSTMState


class HDetach(LSTM):
    """An LSTM that stops the gradient through h, but not through c, at random steps (Kanuparthi et al. 2019).

    In training mode each step draws one random number for the whole batch, from torch's CPU generator: with probability
    p, h is detached before it enters the gates. The values are those of the LSTM. In evaluation mode the cell is an
    LSTM, and only then has a fast path.

    Args:
        input_size: number of input features.
        hidden_size: features of h and of c.
        p: probability that h is detached; 0.5 for the copy task and 0.25 for MNIST in the paper.
        bias: whether the gates have biases.

    >>> cell = HDetach(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).h.shape
    torch.Size([4, 16])

    """

    def __init__(self, input_size: int, hidden_size: int, p: float = 0.5, bias: bool = True) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p is the probability that h is detached, from 0 to 1, but is {p}.")
        super().__init__(input_size, hidden_size, bias)
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        us, step = super().prepare(xs)
        return us, self._random_step if self.training else step

    def _random_step(self, u: Tensor, state: LSTMState) -> LSTMState:
        detach = torch.rand(()).item() < self.p
        return self._step(u, state._replace(h=state.h.detach()) if detach else state)

    def fast_path(self, xs: Tensor, state: LSTMState, mask: Tensor | None) -> FastPath | NoFastPath:
        if self.training:
            return NoFastPath("in training mode h-detach decides at every step whether h has a gradient")
        return super().fast_path(xs, state, mask)
