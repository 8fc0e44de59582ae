"""Recurrent networks that read the objects in sequence: an LSTM or a neural Turing machine."""

from __future__ import annotations

from typing import Literal, Unpack, get_args

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import scan
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.state import State
from mnemoscope.memory.tape import TuringMachine
from mnemoscope.memory.tape.heads import Heads
from mnemoscope.relational.layers import TANH_GAIN, layer, lstm
from mnemoscope.relational.network import EncodedObjects, Logits, ModelOptions, ProblemLike, RelationalModel

Reader = Literal["lstm", "ntm"]
HIDDEN, SLOTS, SLOT = 512, 10, 256
"""Units of the LSTM; number of memory slots, and length of a slot, of the Turing machine."""


class Recurrent(RelationalModel):
    """A cell that reads the normalised objects; a linear map of its last output gives the answer.

    The cell is "lstm", with 512 units (Webb et al. 2021); "ntm", a Turing machine with such a controller and a learned
    memory of 10 x 256, whose answer depends on the controller and the last reads; or any cell that takes the 128
    features of an object.
    """

    after: int = 0
    """Number of steps with zero input after the last object."""
    mechanism = "it reads the objects in sequence, and can compare them only in its state"

    def __init__(self, problem: ProblemLike, cell: Reader | Cell = "lstm", **options: Unpack[ModelOptions]) -> None:
        super().__init__(problem, **options)
        self.cell = cell if isinstance(cell, Cell) else build_cell(cell, self.features)
        if self.cell.input_size not in (None, self.features):
            raise ValueError(f"Objects have {self.features} features, but the cell takes {self.cell.input_size}.")
        self.out = layer(self.cell.output_features, self.choices)

    def answer(self, encoded: EncodedObjects) -> Logits:
        return self.out(self.read(encoded)[0])

    def read(self, encoded: EncodedObjects) -> tuple[Float[Tensor, "batch outputs"], State]:
        """Return the output and state of the cell after the last step."""
        z = encoded.z.transpose(0, 1)
        if self.after:
            z = torch.cat([z, z.new_zeros(self.after, *z.shape[1:])])
        outputs, state = scan(self.cell, z)
        return outputs[-1], state


class TuringReader(Recurrent):
    """Turing machine that answers from its controller after an extra step with zero input.

    Extra step, answer and initial weights are those of the release of Webb et al. (2021): biases are 0, weights are
    Xavier's, with gain 5/3 before a tanh, and Kaiming's before a softplus. The release also reads before it writes;
    here the heads read the written memory.
    """

    after = 1

    def __init__(self, problem: ProblemLike, **options: Unpack[ModelOptions]) -> None:
        super().__init__(problem, "ntm", **options)
        self.out = layer(HIDDEN, self.choices)
        assert isinstance(self.cell, TuringMachine)
        assert self.cell.initial_memory is not None
        nn.init.xavier_normal_(self.cell.initial_memory)
        _initialise(self.cell.heads)

    def answer(self, encoded: EncodedObjects) -> Logits:
        return self.out(self.read(encoded)[0][:, :HIDDEN])


def _initialise(heads: Heads) -> None:
    """Draw the weights of the heads' linear map separately for each parameter of each head."""
    linear = heads.maps[0]
    assert isinstance(linear, nn.Linear)
    keys, changes, moves, rest = linear.weight.data.split(heads.sizes)
    erase, add = changes.chunk(2)
    for tanh in (*keys.chunk(heads.heads), add):
        nn.init.xavier_normal_(tanh, gain=TANH_GAIN)
    for other in (*moves.chunk(heads.heads), erase):
        nn.init.xavier_normal_(other)
    nn.init.kaiming_normal_(rest, nonlinearity="relu")  # Xavier's gates would hardly differ: 512 inputs, one output
    nn.init.zeros_(linear.bias)


def build_cell(name: Reader, features: int) -> Cell:
    """Build a cell that reads objects with `features` features."""
    if name == "lstm":
        return lstm(features, HIDDEN)
    if name == "ntm":
        return TuringMachine(lstm(features + SLOT, HIDDEN), SLOTS, (SLOT,), initial_memory="learned")
    raise ValueError(f"cell must be a cell or one of {', '.join(map(repr, get_args(Reader)))}, but is {name!r}.")
