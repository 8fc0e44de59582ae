"""A feed-forward controller, without recurrent state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Box, Cell


class FeedForward(Cell):
    """`h = tanh(W x + b)`, so that the tape is the only memory of the machine.

    >>> cell = FeedForward(3, 8)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).shape
    torch.Size([4, 8])
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size)
        self.input_size = input_size
        self.drive = nn.Linear(input_size, hidden_size)

    def initial_state(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return self.drive.weight.new_zeros(batch, self.drive.out_features)

    def forward(self, x: Float[Tensor, "batch features"], state: Float[Tensor, "batch hidden"]) -> Tensor:
        return torch.tanh(self.drive(x))

    def bounds(self, low: Tensor, high: Tensor) -> Box:
        ones = self.drive.weight.new_ones(self.drive.out_features)
        return -ones, ones
