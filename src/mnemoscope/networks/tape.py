"""Named networks with an external memory tape: neural Turing machines."""

from __future__ import annotations

from mnemoscope.base.validation import check_whole
from mnemoscope.cells import LSTM
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.matrix import DeepTransition, MatrixLSTM, MatrixRNN
from mnemoscope.cells.matrix.bilinear import Shape, shape_of_size
from mnemoscope.memory.tape import FeedForward, TuringMachine


def ntm(
    input_size: int,
    hidden_size: int,
    slots: int = 128,
    slot_size: int = 20,
    read_heads: int = 1,
    write_heads: int = 1,
    reach: int = 1,
    controller: str = "lstm",
    initial_memory: str = "constant",
    gradient_limit: float | None = None,
) -> TuringMachine:
    """Return a neural Turing machine: a controller with a tape of vectors (Graves et al. 2014).

    The `controller` has `hidden_size` units and is "lstm" or "feed-forward", and a slot has `slot_size` numbers; the
    other options are those of `memory.tape.TuringMachine`. The sizes are those of the published copy task, with
    hidden_size = 100.

    >>> sum(weight.numel() for weight in ntm(9, 100).parameters())
    61692
    """
    controllers = {"lstm": LSTM, "feed-forward": FeedForward}
    if controller not in controllers:
        raise ValueError(f"controller must be one of {', '.join(map(repr, controllers))}, but is {controller!r}.")
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "slots": slots, "slot_size": slot_size}
    check_whole(1, **sizes, read_heads=read_heads, write_heads=write_heads)  # the controller's size follows from these
    return TuringMachine(
        controllers[controller](input_size + read_heads * slot_size, hidden_size),
        slots,
        (slot_size,),
        read_heads=read_heads,
        write_heads=write_heads,
        reach=reach,
        initial_memory=initial_memory,
        gradient_limit=gradient_limit,
    )


def matntm(
    input_size: int,
    hidden_size: int,
    layers: int | None = None,
    slots: int = 120,
    slot_rows: int = 6,
    slot_columns: int = 6,
    read_heads: int = 1,
    write_heads: int = 1,
    reach: int = 1,
    controller: str = "rnn",
    initial_memory: str = "constant",
    input_rows: int | None = None,
    output_size: int | None = None,
    output_rows: int | None = None,
    gradient_limit: float | None = None,
) -> TuringMachine:
    """Return a matrix NTM: a Turing machine whose states and slots are matrices (Renanse et al. 2021, Fig 1).

    An input matrix has `input_size` entries, row by row; the state of the controller has `hidden_size` rows and
    columns. The `controller` is "rnn", with `layers` (3 by default) in one recurrence, or "lstm", with one. The readout
    of the machine, as published, has `output_size` entries; None where another readout follows. Inputs and outputs are
    as square as possible unless `input_rows` and `output_rows` are given. The other options are those of
    `memory.tape.TuringMachine`. The published networks (Table 1) have hidden_size = 15 and 3 layers for copying 5 x 5
    matrices, hidden_size = 20 and 4 layers for associative recall.

    >>> sum(weight.numel() for weight in matntm(25, 15, output_size=25).parameters())
    4121
    >>> sum(weight.numel() for weight in matntm(25, 20, layers=4, output_size=25).parameters())
    7946
    """
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "slots": slots}
    heads = {"read_heads": read_heads, "write_heads": write_heads}
    check_whole(1, **sizes, slot_rows=slot_rows, slot_columns=slot_columns, **heads)
    if layers is not None:
        check_whole(1, layers=layers)
    if output_size is None and output_rows is not None:
        raise ValueError(f"output_rows is {output_rows}, but without an output_size there is no built-in readout.")
    input_shape = shape_of_size(input_size, input_rows, ("input_size", "input_rows"))
    output = None if output_size is None else shape_of_size(output_size, output_rows, ("output_size", "output_rows"))
    return TuringMachine(
        _matrix_controller(controller, [input_shape, *[(slot_rows, slot_columns)] * read_heads], hidden_size, layers),
        slots,
        (slot_rows, slot_columns),
        read_heads=read_heads,
        write_heads=write_heads,
        reach=reach,
        initial_memory=initial_memory,
        least_strength=1.0,
        gradient_limit=gradient_limit,
        output_shape=output,
    )


def _matrix_controller(controller: str, inputs: list[Shape], size: int, layers: int | None) -> Cell:
    state = (size, size)
    if controller == "rnn":
        return DeepTransition([MatrixRNN(inputs, state) for _ in range(3 if layers is None else layers)])
    if controller == "lstm":
        if layers not in (None, 1):
            raise ValueError(f'The controller "lstm" has one layer, but layers is {layers}.')
        return MatrixLSTM(inputs, state)
    raise ValueError(f"controller must be 'rnn' or 'lstm', but is {controller!r}.")
