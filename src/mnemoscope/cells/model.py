"""A model: input encoding, cell, readout."""

from __future__ import annotations

from torch import Tensor, nn

from mnemoscope.cells.cell import Cell
from mnemoscope.cells.scan import scan
from mnemoscope.cells.state import State
from mnemoscope.shapes import Float


class Model(nn.Module):
    """`readout(scan(cell, encode(inputs)))`: what is trained on a task.

    Args:
        cell: the recurrent cell.
        output_size: features of the linear readout.
        encode: module applied to the inputs (time, batch, ...) before the cell; none by default.
        readout_bias: whether the readout has a bias.

    >>> import torch
    >>> from mnemoscope.cells import GRU
    >>> outputs, state = Model(GRU(3, 16), output_size=3)(torch.zeros(20, 5, 3))
    >>> outputs.shape
    torch.Size([20, 5, 3])

    """

    def __init__(
        self, cell: Cell, output_size: int, encode: nn.Module | None = None, readout_bias: bool = True
    ) -> None:
        super().__init__()
        self.encode = nn.Identity() if encode is None else encode
        self.cell = cell
        features = cell.output(cell.initial_state(1)).shape[-1]
        self.readout = nn.Linear(features, output_size, bias=readout_bias)

    def forward(
        self, inputs: Float[Tensor, "time batch ..."], state: State | None = None
    ) -> tuple[Float[Tensor, "time batch output"], State]:
        """Outputs (time, batch, output) and the last state."""
        outputs, state = scan(self.cell, self.encode(inputs), state)
        return self.readout(outputs), state
