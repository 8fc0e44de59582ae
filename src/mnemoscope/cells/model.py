"""Models: an input encoding, a cell and a readout."""

from __future__ import annotations

from copy import copy

from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Num
from mnemoscope.cells.adapters import Network, as_cell
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.decoder import SequenceDecoder
from mnemoscope.cells.sequence import scan
from mnemoscope.cells.state import State


class Model(nn.Module):
    """`readout(scan(cell, encode(inputs)))`: the network that is trained on a task.

    The readout is linear; for a cell that includes a readout (`Cell.has_readout`) it is the identity. With `decode` it
    is a `SequenceDecoder`, which makes all outputs from the features at the last step. `encode` is a
    module that is applied to the inputs (time, batch, ...). The cell may be any network that `adapt` takes without
    options; a torch.nn module with `batch_first` makes a model that takes and returns (batch, time, ...).

    >>> import torch
    >>> from mnemoscope.cells import GRU
    >>> outputs, state = Model(GRU(3, 16), output_size=3)(torch.zeros(20, 5, 3))
    >>> outputs.shape
    torch.Size([20, 5, 3])
    """

    def __init__(
        self,
        cell: Network,
        output_size: int,
        encode: nn.Module | None = None,
        readout_bias: bool = True,
        *,
        decode: bool = False,
    ) -> None:
        super().__init__()
        self.encode = nn.Identity() if encode is None else encode
        cell = as_cell(cell)
        self.cell = cell
        features = cell.output_features
        self.readout: nn.Linear | nn.Identity | SequenceDecoder
        if decode:
            if cell.batch_first:
                raise ValueError("A decoder takes sequences (time, batch, ...): pass a module without batch_first.")
            self.readout = SequenceDecoder(features, output_size, bias=readout_bias)
        elif cell.has_readout:
            _check_built_in(cell, features, output_size, readout_bias)
            self.readout = nn.Identity()
        else:
            self.readout = nn.Linear(features, output_size, bias=readout_bias)

    def time_first(self) -> Model:
        """Return this model, with the same parameters, for sequences (time, batch, ...)."""
        if not self.cell.batch_first:
            return self
        model = copy(self)
        model._modules = {**self._modules, "cell": self.cell.time_first()}
        return model

    def undecoded(self) -> Model:
        """Return this model with the features of the cell as outputs if a decoder makes its outputs; else this one."""
        if not isinstance(self.readout, SequenceDecoder):
            return self
        model = copy(self)
        model._modules = {**self._modules, "readout": nn.Identity()}
        return model

    @property
    def step_readout(self) -> nn.Linear | nn.Identity:
        """The readout of single steps; raises a ValueError if all outputs are decoded from the last step."""
        if isinstance(self.readout, SequenceDecoder):
            raise ValueError(
                "The outputs of this model are decoded from its last step, so that no output belongs to an earlier "
                "step: pass model.undecoded(), whose outputs are the features of its cell."
            )
        return self.readout

    @property
    def linear_readout(self) -> nn.Linear:
        """The linear readout; raises a TypeError if the model has another one, or the cell includes it."""
        if isinstance(self.readout, SequenceDecoder):
            raise TypeError("A linear readout is needed, but this model decodes a sequence from its last step.")
        if not isinstance(self.readout, nn.Linear):
            raise TypeError(
                f"A linear readout is needed, but this {type(self.cell).__name__} has a built-in readout, and the "
                f"model has no other."
            )
        return self.readout

    def forward(
        self, inputs: Num[Tensor, "time batch ..."], state: State | None = None
    ) -> tuple[Float[Tensor, "time batch output"], State]:
        outputs, state = scan(self.cell, self.encode(inputs), state)
        return self.readout(outputs), state


def _check_built_in(cell: Cell, features: int, output_size: int, readout_bias: bool) -> None:
    name = type(cell).__name__
    if features != output_size:
        raise ValueError(
            f"This {name} has a built-in readout with {features} outputs, but {output_size} are needed; build it with "
            f"that output size."
        )
    if not readout_bias:
        raise ValueError(f"readout_bias is for the linear readout of a model, but this {name} has a built-in readout.")
