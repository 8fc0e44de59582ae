"""The Turing machines of the literature, by their names and with their published sizes."""

from __future__ import annotations

from mnemoscope.base.validation import check_whole
from mnemoscope.cells import LSTM
from mnemoscope.cells.matrix import DeepTransition, MatrixLSTM, MatrixRNN
from mnemoscope.cells.matrix.bilinear import shape_of_size
from mnemoscope.memory.tape.feed_forward import FeedForward
from mnemoscope.memory.tape.machine import TuringMachine


def ntm(input_size: int, hidden_size: int, slots: int = 128, slot_size: int = 20, read_heads: int = 1,
        write_heads: int = 1, reach: int = 1, controller: str = "lstm", initial_memory: str = "constant",
        gradient_limit: float | None = None) -> TuringMachine:  # fmt: skip
    """Slots are vectors (Graves et al. 2014). The sizes are those of its copy task, with hidden_size = 100.

    >>> sum(weight.numel() for weight in ntm(9, 100).parameters())
    61692
    """
    kinds = {"lstm": LSTM, "feed-forward": FeedForward}
    if controller not in kinds:
        raise ValueError(f"controller must be one of {', '.join(map(repr, kinds))}, but is {controller!r}.")
    # before the controller is made, whose sizes follow from these
    check_whole(1, input_size=input_size, hidden_size=hidden_size, slots=slots, slot_size=slot_size,
                read_heads=read_heads, write_heads=write_heads)  # fmt: skip
    inner = kinds[controller](input_size + read_heads * slot_size, hidden_size)
    return TuringMachine(
        inner, slots, (slot_size,), read_heads=read_heads, write_heads=write_heads, reach=reach,
        initial_memory=initial_memory, gradient_limit=gradient_limit,
    )  # fmt: skip


def matntm(input_size: int, hidden_size: int, layers: int | None = None, slots: int = 120, slot_rows: int = 6,
           slot_columns: int = 6, read_heads: int = 1, write_heads: int = 1, reach: int = 1,
           controller: str = "rnn", initial_memory: str = "constant",
           input_rows: int | None = None, output_size: int | None = None,
           output_rows: int | None = None, gradient_limit: float | None = None) -> TuringMachine:  # fmt: skip
    """Slots and states are matrices (Renanse et al. 2021, Fig 1). Table 1 has hidden_size = 15 and 3 layers for copying
    matrices of 5 x 5, hidden_size = 20 and 4 layers for associative recall.

    >>> sum(weight.numel() for weight in matntm(25, 15, output_size=25).parameters())
    4121
    >>> sum(weight.numel() for weight in matntm(25, 20, layers=4, output_size=25).parameters())
    7946

    Args:
        input_size: numbers of an input matrix, which comes row by row.
        hidden_size: rows, and columns, of the controller's state.
        layers: of the controller "rnn", 3 unless given; "lstm" has one.
        slots: of the memory.
        slot_rows: rows of a slot.
        slot_columns: columns of a slot.
        read_heads: how many heads read.
        write_heads: how many write.
        reach: how far a head moves in a step.
        controller: "rnn", of several layers in one recurrence, or "lstm".
        initial_memory: "constant" or "learned".
        input_rows: of an input; None for a shape as near to a square as there is.
        output_size: numbers of its own readout, as published; None where another readout follows.
        output_rows: of its own readout; None for a shape as near to a square as there is.
        gradient_limit: to which each number of a gradient is cut on its way from step to step; None for no limit.

    """
    check_whole(1, input_size=input_size, hidden_size=hidden_size, slots=slots, slot_rows=slot_rows,
                slot_columns=slot_columns, read_heads=read_heads, write_heads=write_heads)  # fmt: skip
    if output_size is None and output_rows is not None:
        raise ValueError(f"output_rows is {output_rows}, but without an output_size there is no output of its own.")
    inputs = [
        shape_of_size(input_size, input_rows, ("input_size", "input_rows")),
        *[(slot_rows, slot_columns)] * read_heads,
    ]
    own = (hidden_size, hidden_size)
    if controller == "rnn":
        layers = 3 if layers is None else layers
        check_whole(1, layers=layers)
        inner = DeepTransition([MatrixRNN(inputs, own) for _ in range(layers)])
    elif controller == "lstm":
        if layers not in (None, 1):
            raise ValueError(f'The controller "lstm" has one layer, but layers is {layers}.')
        inner = MatrixLSTM(inputs, own)
    else:
        raise ValueError(f"controller must be 'rnn' or 'lstm', but is {controller!r}.")
    output = None if output_size is None else shape_of_size(output_size, output_rows, ("output_size", "output_rows"))
    return TuringMachine(
        inner,
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
