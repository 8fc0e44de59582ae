"""Named networks whose states are matrices.

`input_size` is the number of entries of an input matrix and `hidden_size` that of the state of each layer, rows times
columns, just like the number of units of a vector network. The shapes of state, input and output are as square as
possible unless their number of rows is given (`rows`, `input_rows`, `output_rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.matrix import DeepTransition, MatrixGRU, MatrixLSTM, MatrixRNN, QueueMemory, stack_matrix_rnns
from mnemoscope.cells.matrix.bilinear import Shape, shape_of_size
from mnemoscope.cells.stack import Stack
from mnemoscope.connectivity import Connectivity, Dense, Normal, orthogonal

Matrices = Literal["free", "exponential", "cayley", "householder", "givens", "normal"]
Depth = Literal["stack", "transition"]


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
    """Return a matrix RNN (`MatrixRNN`) of one or several layers (Do et al. 2017; Renanse et al. 2021, Eq 6).

    The `matrices` U2 and V2 are unconstrained ("free"), orthogonal with a parametrisation of `connectivity.ORTHOGONAL`,
    or normal. The `depth` is "stack" for layers on top of each other, each with a state, or "transition" for several
    layers within one step (`DeepTransition`).

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

    return _layers(layer, _input_shape(input_size, input_rows), _state_shape(hidden_size, rows), layers, depth)


def matrix_lstm(
    input_size: int, hidden_size: int, rows: int | None = None, input_rows: int | None = None, layers: int = 1
) -> Cell:
    """Return a matrix LSTM (`MatrixLSTM`), or a stack of `layers` (Do et al. 2017); sizes as for `matrix_rnn`.

    >>> matrix_lstm(25, 24).state_shape
    (6, 4)
    """
    return _layers(MatrixLSTM, _input_shape(input_size, input_rows), _state_shape(hidden_size, rows), layers)


def matrix_gru(
    input_size: int, hidden_size: int, rows: int | None = None, input_rows: int | None = None, layers: int = 1
) -> Cell:
    """Return a matrix GRU (`MatrixGRU`), or a stack of `layers`; sizes as for `matrix_rnn`.

    >>> matrix_gru(25, 24).state_shape
    (6, 4)
    """
    return _layers(MatrixGRU, _input_shape(input_size, input_rows), _state_shape(hidden_size, rows), layers)


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
    """Return a matrix RNN with a queue of its past states (`QueueMemory`; Renanse et al. 2021, Eq 34-35).

    The queue holds `slots` past states. Each has the weight `alpha`, at the start if the weights are `learned`. The
    other options are as for `matrix_rnn`.

    >>> queue(25, 225, slots=2).initial_state(7).queue.shape
    torch.Size([7, 2, 15, 15])
    """
    check_whole(1, slots=slots)
    cell = matrix_rnn(input_size, hidden_size, nonlinearity, matrices, rows, input_rows)
    assert isinstance(cell, MatrixRNN)  # with one layer
    return QueueMemory(cell, [alpha] * slots, learned)


def matrix_stack(
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
    """Return stacked matrix RNNs, the last of which is the readout (Renanse et al. 2021, Table 1).

    The published networks have two layers of 225 units for copying 5 x 5 matrices, and three layers of 400 for
    associative recall, plus the recurrent readout. `layers` are those below the readout, whose nonlinearity is `last`
    (see `stack_matrix_rnns`). By default the output has as many entries as the input.

    >>> sum(weight.numel() for weight in matrix_stack(25, 400, 25, layers=3).parameters())
    5675
    """
    check_whole(1, layers=layers)
    output_size = input_size if output_size is None else output_size
    output = shape_of_size(output_size, output_rows, ("output_size", "output_rows"))
    hidden = [_state_shape(hidden_size, rows)] * layers
    return stack_matrix_rnns([_input_shape(input_size, input_rows), *hidden, output], nonlinearity, last)


def _input_shape(input_size: Any, rows: Any) -> Shape:
    return shape_of_size(input_size, rows, ("input_size", "input_rows"))


def _state_shape(hidden_size: Any, rows: Any) -> Shape:
    return shape_of_size(hidden_size, rows, ("hidden_size", "rows"))


def _layers(
    layer: Callable[[Shape, Shape], Cell], below: Shape, shape: Shape, layers: int, depth: str = "stack"
) -> Cell:
    check_whole(1, layers=layers)
    if depth not in get_args(Depth):
        raise ValueError(f"depth must be one of {', '.join(get_args(Depth))}, but is {depth!r}.")
    if layers == 1:
        return layer(below, shape)
    if depth == "transition":
        return DeepTransition([layer(below, shape) for _ in range(layers)])
    return Stack([layer(below if level == 0 else shape, shape) for level in range(layers)])
