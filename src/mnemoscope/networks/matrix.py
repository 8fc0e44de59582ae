"""Matrix networks by number of units, as the registry has them.

`hidden_size` is the number of entries of the state, rows times columns, as it is the number of units of a vector
network. Its shape, and that of the input, is the one nearest to a square unless a number of rows is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.matrix.bilinear import Shape, shape_of_size
from mnemoscope.cells.matrix.gated import MatrixGRU, MatrixLSTM
from mnemoscope.cells.matrix.layers import matrix_stack
from mnemoscope.cells.matrix.queue import QueueMemory
from mnemoscope.cells.matrix.rnn import MatrixRNN
from mnemoscope.cells.matrix.transition import DeepTransition
from mnemoscope.cells.stack import Stack
from mnemoscope.connectivity import Connectivity, Dense, Normal, orthogonal

Matrices = Literal["free", "exponential", "cayley", "householder", "givens", "normal"]
Depth = Literal["stack", "transition"]
_OF_INPUT, _OF_STATE = ("input_size", "input_rows"), ("hidden_size", "rows")


def matrix_rnn(
    input_size: int,
    hidden_size: int,
    nonlinearity: str = "tanh",
    matrices: Matrices = "free",
    rows: int | None = None,
    input_rows: int | None = None,
    layers: int = 1,
    depth: Depth = "stack",
) -> Cell:
    """`MatrixRNN` (Do et al. 2017; Renanse et al. 2021, Eq 6), one or several.

    Args:
        input_size: entries of the input matrix.
        hidden_size: entries of the state of each layer.
        nonlinearity: as of `MatrixRNN`.
        matrices: U2 and V2 are free, orthogonal of one of the kinds of `connectivity.ORTHOGONAL`, or normal.
        rows: of the state; as many as make it nearest to a square unless given.
        input_rows: of the input, likewise.
        layers: how many.
        depth: on top of each other, each with its state, or within one step (`DeepTransition`).

    >>> matrix_rnn(25, 225).state_shape
    (15, 15)

    """
    if matrices not in get_args(Matrices):
        raise ValueError(f"matrices must be one of {', '.join(get_args(Matrices))}, but is {matrices!r}.")

    def matrix(size: int) -> Connectivity:
        if matrices == "free":
            return Dense(size, "glorot")
        return Normal(size) if matrices == "normal" else orthogonal(matrices, size)

    def layer(below: Shape, shape: Shape) -> MatrixRNN:
        return MatrixRNN(below, shape, nonlinearity, matrix(shape[0]), matrix(shape[1]))

    return _layers(
        layer,
        shape_of_size(input_size, input_rows, _OF_INPUT),
        shape_of_size(hidden_size, rows, _OF_STATE),
        layers,
        depth,
    )


def matrix_lstm(
    input_size: int, hidden_size: int, rows: int | None = None, input_rows: int | None = None, layers: int = 1
) -> Cell:
    """`MatrixLSTM` (Do et al. 2017), one or a stack of several; sizes as of `matrix_rnn`.

    >>> matrix_lstm(25, 24).state_shape
    (6, 4)
    """
    return _layers(
        MatrixLSTM,
        shape_of_size(input_size, input_rows, _OF_INPUT),
        shape_of_size(hidden_size, rows, _OF_STATE),
        layers,
        "stack",
    )


def matrix_gru(
    input_size: int, hidden_size: int, rows: int | None = None, input_rows: int | None = None, layers: int = 1
) -> Cell:
    """`MatrixGRU`, one or a stack of several; sizes as of `matrix_rnn`.

    >>> matrix_gru(25, 24).state_shape
    (6, 4)
    """
    return _layers(
        MatrixGRU,
        shape_of_size(input_size, input_rows, _OF_INPUT),
        shape_of_size(hidden_size, rows, _OF_STATE),
        layers,
        "stack",
    )


def queue(
    input_size: int,
    hidden_size: int,
    slots: int = 4,
    alpha: float = 0.1,
    learned: bool = False,
    nonlinearity: str = "tanh",
    matrices: Matrices = "free",
    rows: int | None = None,
    input_rows: int | None = None,
) -> QueueMemory:
    """`QueueMemory` (Renanse et al. 2021, Eq 34-35) by sizes, all slots of which begin with the same weight.

    Args:
        input_size: entries of the input matrix.
        hidden_size: entries of the state, and of each slot.
        slots: past states in the queue, p.
        alpha: weight of each slot.
        learned: whether the weights learn, each for itself, from `alpha` on.
        nonlinearity: as of `MatrixRNN`.
        matrices: as of `matrix_rnn`.
        rows: of the state; as many as make it nearest to a square unless given.
        input_rows: of the input, likewise.

    >>> queue(25, 225, slots=2).initial_state(7).queue.shape
    torch.Size([7, 2, 15, 15])

    """
    check_whole(1, slots=slots)
    cell = matrix_rnn(input_size, hidden_size, nonlinearity, matrices, rows, input_rows)
    assert isinstance(cell, MatrixRNN)  # of one layer
    return QueueMemory(cell, [alpha] * slots, learned)


def stacked_matrix_rnn(
    input_size: int,
    hidden_size: int,
    output_size: int | None = None,
    layers: int = 2,
    nonlinearity: str = "tanh",
    last: str = "linear",
    rows: int | None = None,
    input_rows: int | None = None,
    output_rows: int | None = None,
) -> Stack:
    """`matrix_stack` by sizes, the Matrix RNN of Renanse et al. (2021), Table 1: two layers of 225 units for copying
    matrices of 5 x 5, three of 400 for associative recall, and a recurrent output.

    Args:
        input_size: entries of the input matrix.
        hidden_size: entries of the state of each layer.
        output_size: entries of the output; None: as many as of the input.
        layers: how many there are beside the output.
        nonlinearity: of the layers.
        last: of the output, as of `matrix_stack`.
        rows: of the states; as many as make them nearest to a square unless given.
        input_rows: of the input, likewise.
        output_rows: of the output, likewise.

    >>> sum(weight.numel() for weight in stacked_matrix_rnn(25, 400, 25, layers=3).parameters())
    5675

    """
    check_whole(1, layers=layers)
    output = shape_of_size(
        input_size if output_size is None else output_size, output_rows, ("output_size", "output_rows")
    )
    hidden = [shape_of_size(hidden_size, rows, _OF_STATE)] * layers
    return matrix_stack([shape_of_size(input_size, input_rows, _OF_INPUT), *hidden, output], nonlinearity, last)


def _layers(layer: Callable[[Shape, Shape], Cell], below: Shape, shape: Shape, layers: int, depth: str) -> Cell:
    check_whole(1, layers=layers)
    if depth not in get_args(Depth):
        raise ValueError(f"depth must be one of {', '.join(get_args(Depth))}, but is {depth!r}.")
    if layers == 1:
        return layer(below, shape)
    if depth == "transition":
        return DeepTransition([layer(below, shape) for _ in range(layers)])
    return Stack([layer(below if level == 0 else shape, shape) for level in range(layers)])
