"""Networks that read the objects one after the other: an LSTM, a neural Turing machine."""

from __future__ import annotations

from typing import Literal, Unpack, get_args

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import scan
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.state import State
from mnemoscope.memory.tape import TuringMachine
from mnemoscope.relational.layers import layer, lstm
from mnemoscope.relational.network import Options, RelationalModel, Seen, Sized

Reader = Literal["lstm", "ntm"]
HIDDEN, SLOTS, SLOT = 512, 10, 256


class Recurrent(RelationalModel):
    """A cell reads the normalised objects, and a linear map of its last output answers.

    Args:
        problem: the task, or its sizes.
        cell: "lstm", of 512 units (Webb et al. 2021); "ntm", this project's Turing machine with such a controller and a
            learned memory of 10 x 256, whose last reads answer beside its controller; or any cell that takes the 128
            features of an object.
        options: `segmented`, `trained_encoder` and `l1`, as for every `RelationalModel`.

    """

    after: int = 0
    """Steps behind the last object, at which the cell sees zeros."""
    instead = "it reads the objects one after the other, and compares them in its state, if at all"

    def __init__(self, problem: Sized, cell: Reader | Cell = "lstm", **options: Unpack[Options]) -> None:
        super().__init__(problem, **options)
        self.cell = cell if isinstance(cell, Cell) else reader(cell, self.features)
        if self.cell.input_size not in (None, self.features):
            raise ValueError(f"Objects have {self.features} features, but the cell takes {self.cell.input_size}.")
        self.out = layer(self.cell.output(self.cell.initial_state(1)).shape[-1], self.choices)

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        return self.out(self.read(seen)[0])

    def read(self, seen: Seen) -> tuple[Float[Tensor, "batch outputs"], State]:
        """Output and state of the cell after the last step."""
        z = seen.z.transpose(0, 1)
        if self.after:
            z = torch.cat([z, z.new_zeros(self.after, *z.shape[1:])])
        outputs, state = scan(self.cell, z)
        return outputs[-1], state


def reader(name: Reader, features: int) -> Cell:
    """A cell that reads objects of so many features."""
    if name == "lstm":
        return lstm(features, HIDDEN)
    if name == "ntm":
        return TuringMachine(lstm(features + SLOT, HIDDEN), SLOTS, (SLOT,), initial_memory="learned")
    raise ValueError(f"cell must be a cell or one of {', '.join(map(repr, get_args(Reader)))}, but is {name!r}.")
