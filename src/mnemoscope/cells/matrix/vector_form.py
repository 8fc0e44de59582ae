"""Matrix cells run as the vector cells that compute the same, where that is faster."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mnemoscope.cells.cell import Cell
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.state import State, map_state

LARGEST_STATE = 256
"""Entries of a state up to which the fused scan of the vector cell is taken. On one CPU core, forward and backward over
50 steps, it takes a tenth to four fifths of the loop's time up to 225 entries (RNN, LSTM and GRU, batches of 16 and
64), and with 400 about as long, or longer.
"""


def no_vector_form(size: int, largest: int) -> NoFastPath | None:
    """That a state of `size` entries is too large for the matrix of its vector form, or None."""
    if size <= largest:
        return None
    return NoFastPath(f"its state has {size} entries; the matrix of its vector form pays up to {largest}")


def vector_fast_path(
    vector_cell: Callable[[], Cell], size: int, xs: Tensor, state: State, mask: Tensor | None
) -> FastPath | NoFastPath:
    """The fast path of the vector cell, whose matrix has N^2 instead of rows^2 + columns^2 numbers; the work per step
    is more, but the steps themselves are fused.
    """
    if (too_large := no_vector_form(size, LARGEST_STATE)) is not None:
        return too_large
    path = vector_cell().fast_path(xs, map_state(lambda part: part.flatten(1), state), mask)
    if isinstance(path, NoFastPath):
        return path

    def run() -> tuple[Tensor, State]:
        outputs, last = path.run()
        return outputs, map_state(lambda flat, like: flat.reshape(like.shape), last, state)

    return FastPath(f"as vectors: {path.name}", run)
