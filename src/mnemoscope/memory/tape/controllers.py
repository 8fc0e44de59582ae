"""Controllers of a Turing machine: networks that see the input and what was read a step ago."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.cells import GRU, LSTM, Elman
from mnemoscope.cells.cell import Box, Cell
from mnemoscope.cells.matrix import Bilinear
from mnemoscope.cells.state import Layout, State
from mnemoscope.memory.ranges import Range, affine
from mnemoscope.shapes import Float

Shape = tuple[int, int]
ControlStep = Callable[[Tensor, Tensor, State], State]
"""From a driven input, the reads (batch, heads, *slot_shape) and a state to the next state."""


class Controller(nn.Module):
    """What a machine asks of its controller. Inputs are flat, (batch, features); a matrix lies row by row in them."""

    input_size: int
    output_shape: tuple[int, ...]
    """Of what it shows to the heads: one number for vectors, two for matrices."""

    def fit(self, read_heads: int, slot_shape: tuple[int, ...]) -> None:
        """Raise in words where it cannot take the reads of so many heads from slots of this shape."""
        raise NotImplementedError(f"{type(self).__name__} must define fit(read_heads, slot_shape).")

    def initial_state(self, batch: int) -> State:
        raise NotImplementedError(f"{type(self).__name__} must define initial_state(batch).")

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, ControlStep]:
        """What the inputs alone decide, done once per sequence, and the step that takes one of the results."""
        raise NotImplementedError(f"{type(self).__name__} must define prepare(xs).")

    def output(self, state: State) -> Float[Tensor, "batch ..."]:
        """What it shows, (batch, *output_shape)."""
        raise NotImplementedError(f"{type(self).__name__} must define output(state).")

    def bounds(
        self, low: Float[Tensor, " features"], high: Float[Tensor, " features"], reads: Range
    ) -> tuple[Box, Range] | None:
        """A box of flat states that it never leaves, and one of what it shows in there, flat, for inputs between `low`
        and `high` and reads in a range (1, heads, *slot_shape); None where none is known.
        """
        return None


class CellController(Controller):
    """Any cell that takes `[x; reads]` as one flat vector.

    >>> from mnemoscope.cells import GRU
    >>> controller = CellController(GRU(3 + 2 * 5, 8))
    >>> controller.fit(read_heads=2, slot_shape=(5,))
    >>> controller.input_size
    3
    """

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        if cell.input_size is None:
            raise ValueError(
                f"A controller must know how many inputs it takes, but this {type(cell).__name__} does not."
            )
        shown = cell.output(cell.initial_state(1))
        if cell.grows or shown.dim() != 2 or shown.is_complex():
            raise ValueError(
                f"A controller shows real vectors (batch, features) and keeps its size, but this {type(cell).__name__} "
                f"does not."
            )
        self.cell = cell
        self.input_size, self.output_shape = cell.input_size, (shown.shape[-1],)

    def fit(self, read_heads: int, slot_shape: tuple[int, ...]) -> None:
        """What is left of the cell's inputs beside the reads is the machine's input."""
        reads = read_heads * prod(slot_shape)
        assert self.cell.input_size is not None
        if self.cell.input_size <= reads:
            raise ValueError(
                f"The controller takes {self.cell.input_size} numbers, [x; reads], but {read_heads} read heads on "
                f"slots of shape {slot_shape} alone yield {reads}: its input_size must be the features of x + {reads}."
            )
        self.input_size = self.cell.input_size - reads

    def initial_state(self, batch: int) -> State:
        return self.cell.initial_state(batch)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, ControlStep]:
        return xs, lambda x, reads, state: self.cell(torch.cat([x, reads.flatten(1)], dim=-1), state)

    def output(self, state: State) -> Float[Tensor, "batch features"]:
        return self.cell.output(state)

    def bounds(self, low: Tensor, high: Tensor, reads: Range) -> tuple[Box, Range] | None:
        """The cell's; what it shows is known where it is a part of its state."""
        if type(self.cell).bounds not in (Elman.bounds, GRU.bounds, LSTM.bounds, FeedForward.bounds):
            return None
        ends = (torch.cat([end, read.flatten()]) for end, read in zip((low, high), reads, strict=True))
        box = self.cell.bounds(*ends)
        if box is None:
            return None
        layout = Layout(self.cell.initial_state(1))
        least, most = (self.cell.output(layout.unflatten(end[None]))[0] for end in box)
        return box, (least, most)


class FeedForward(Cell):
    """`h = tanh(W x + b)`: no memory of its own, so that what a machine knows must lie on its tape.

    >>> cell = FeedForward(3, 8)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).shape
    torch.Size([4, 8])
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        if input_size < 1 or hidden_size < 1:
            raise ValueError(f"Sizes must be positive, but input_size is {input_size} and hidden_size {hidden_size}.")
        self.input_size = input_size
        self.drive = nn.Linear(input_size, hidden_size)

    def initial_state(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return self.drive.weight.new_zeros(batch, self.drive.out_features)

    def forward(self, x: Float[Tensor, "batch features"], state: Float[Tensor, "batch hidden"]) -> Tensor:
        return torch.tanh(self.drive(x))

    def bounds(self, low: Tensor, high: Tensor) -> Box:
        one = self.drive.weight.new_ones(self.drive.out_features)
        return -one, one


class MatrixController(Controller):
    """What matrix controllers share: inputs become matrices, and the reads of all heads lie side by side in one.

    Vectors that were read are columns.
    """

    def __init__(self, input_shape: Shape, reads_shape: Shape, hidden_shape: Shape) -> None:
        super().__init__()
        self.input_shape, self.reads_shape, self.output_shape = input_shape, reads_shape, hidden_shape
        self.input_size = prod(input_shape)

    def fit(self, read_heads: int, slot_shape: tuple[int, ...]) -> None:
        rows, columns = slot_shape if len(slot_shape) == 2 else (*slot_shape, 1)
        if self.reads_shape != (rows, columns * read_heads):
            raise ValueError(
                f"The reads of {read_heads} heads on slots of shape {slot_shape} side by side are a matrix of shape "
                f"{(rows, columns * read_heads)}, but the controller takes reads of shape {self.reads_shape}."
            )

    def as_matrices(self, xs: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch rows columns"]:
        return xs.unflatten(-1, self.input_shape)

    def side_by_side(self, reads: Float[Tensor, "batch heads ..."]) -> Float[Tensor, "batch rows columns"]:
        if reads.shape[1] == 1:
            return reads.reshape(reads.shape[0], *self.reads_shape)
        return reads.transpose(1, 2).flatten(2) if reads.dim() == 4 else reads.mT


class DeepTransition(MatrixController):
    """A recurrence of several layers, `H = tanh(Up^T P Vp + B + Uq^T X Vq + Ur^T R Vr)` (Renanse et al. 2021, Fig 1).

    P is the last layer's H of the step before for the first layer, and the H of the layer below for the others; all
    layers see the input X and what was read, R. The state is the H of the last layer.

    >>> controller = DeepTransition((5, 5), (6, 6), (15, 15), layers=3)
    >>> sum(weight.numel() for weight in controller.parameters()) == 3 * (3 * 15**2 + 10 * 15 + 12 * 15)
    True
    """

    def __init__(self, input_shape: Shape, reads_shape: Shape, hidden_shape: Shape, layers: int = 1) -> None:
        super().__init__(input_shape, reads_shape, hidden_shape)
        if layers < 1:
            raise ValueError(f"A controller has at least one layer, but layers is {layers}.")
        self.recurrent = nn.ModuleList([Bilinear(hidden_shape, hidden_shape) for _ in range(layers)])
        self.drives = nn.ModuleList([Bilinear(input_shape, hidden_shape, bias=False) for _ in range(layers)])
        self.readers = nn.ModuleList([Bilinear(reads_shape, hidden_shape, bias=False) for _ in range(layers)])

    def initial_state(self, batch: int) -> Float[Tensor, "batch rows columns"]:
        return next(self.parameters()).new_zeros(batch, *self.output_shape)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, ControlStep]:
        X = self.as_matrices(xs)
        return torch.stack([drive(X) for drive in self.drives], dim=-3), self._step

    def _step(self, us: Tensor, reads: Tensor, state: Tensor) -> Tensor:
        H, R = state, self.side_by_side(reads)
        for u, recurrent, reader in zip(us.unbind(-3), self.recurrent, self.readers, strict=True):
            H = torch.tanh(recurrent(H) + u + reader(R))
        return H

    def output(self, state: Float[Tensor, "batch rows columns"]) -> Float[Tensor, "batch rows columns"]:
        return state

    def bounds(self, low: Tensor, high: Tensor, reads: Range) -> tuple[Box, Range]:
        """A tanh."""
        one = low.new_ones(prod(self.output_shape))
        return (-one, one), (-one, one)


class MatrixLSTMState(NamedTuple):
    """Output h and memory c, each (batch, rows, columns)."""

    h: Tensor
    c: Tensor


class MatrixLSTMController(MatrixController):
    """`C' = F C + I G`, `H' = O tanh(C')` entry by entry; each of the four is a bilinear map of H, X and R with weights
    of its own, through a sigmoid (I, F, O) or tanh (G).

    >>> controller = MatrixLSTMController((5, 5), (6, 6), (8, 8))
    >>> controller.output(controller.initial_state(2)).shape
    torch.Size([2, 8, 8])
    """

    def __init__(self, input_shape: Shape, reads_shape: Shape, hidden_shape: Shape) -> None:
        super().__init__(input_shape, reads_shape, hidden_shape)
        self.recurrent = nn.ModuleList([Bilinear(hidden_shape, hidden_shape) for _ in range(4)])
        self.drives = nn.ModuleList([Bilinear(input_shape, hidden_shape, bias=False) for _ in range(4)])
        self.readers = nn.ModuleList([Bilinear(reads_shape, hidden_shape, bias=False) for _ in range(4)])

    def initial_state(self, batch: int) -> MatrixLSTMState:
        zeros = next(self.parameters()).new_zeros(batch, *self.output_shape)
        return MatrixLSTMState(zeros, zeros.clone())

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, ControlStep]:
        X = self.as_matrices(xs)
        return torch.stack([drive(X) for drive in self.drives], dim=-3), self._step

    def _step(self, us: Tensor, reads: Tensor, state: MatrixLSTMState) -> MatrixLSTMState:
        R = self.side_by_side(reads)
        parts = zip(us.unbind(-3), self.recurrent, self.readers, strict=True)
        i, f, g, o = (u + recurrent(state.h) + reader(R) for u, recurrent, reader in parts)
        c = torch.sigmoid(f) * state.c + torch.sigmoid(i) * torch.tanh(g)
        return MatrixLSTMState(torch.sigmoid(o) * torch.tanh(c), c)

    def output(self, state: MatrixLSTMState) -> Float[Tensor, "batch rows columns"]:
        return state.h

    def bounds(self, low: Tensor, high: Tensor, reads: Range) -> tuple[Box, Range]:
        """As of an `LSTM`: |H| <= 1, and |C| <= 1 / (1 - f_max)."""
        one = low.new_ones(prod(self.output_shape))
        seen = (self.side_by_side(reads[0]).flatten(), self.side_by_side(reads[1]).flatten())
        layers = ((self.recurrent[1], (-one, one)), (self.drives[1], (low, high)), (self.readers[1], seen))
        f = sum((affine(layer, box)[1] for layer, box in layers), torch.zeros_like(one))
        most = torch.cat([one, 1 + torch.exp(f)])
        return (-most, most), (-one, one)
