"""Fast paths of matrix cells: the equivalent vector cells, where these are faster."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mnemoscope.cells.cell import Cell
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.state import State, map_state

LARGEST_STATE = 256
"""Largest number of state entries for which the fused scan of the vector cell is used.

On one CPU core, forward and backward over 50 steps (RNN, LSTM and GRU, batches of 16 and 64), it takes 0.1 to 0.8 of
the loop's time up to 225 entries, and as long or longer with 400.
"""


def no_vector_form(size: int, largest: int) -> NoFastPath | None:
    """Return why a state of `size` entries has no faster vector form; None if a vector form is faster."""
    if size <= largest:
        return None
    return NoFastPath(f"its state has {size} entries; the matrix of its vector form pays up to {largest}")


def vector_fast_path(
    vector_cell: Callable[[], Cell], size: int, xs: Tensor, state: State, mask: Tensor | None
) -> FastPath | NoFastPath:
    """Return the fast path of the vector cell.

    Its matrix has N^2 instead of rows^2 + columns^2 entries, so that each step is more work, but the steps are fused.
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
