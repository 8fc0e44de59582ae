"""The state of a Turing machine, and the parts of the machine that its bounds and its fused scan use."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell
from mnemoscope.memory.tape.heads import Heads


class TapeState(NamedTuple):
    """State of a Turing machine."""

    controller: Any
    """State of the controller."""
    memory: Float[Tensor, "batch slots ..."]
    """(batch, slots, *slot_shape)."""
    read_weights: Float[Tensor, "batch heads slots"]
    """Weights of the read heads over the slots."""
    write_weights: Float[Tensor, "batch heads slots"]
    """Weights of the write heads over the slots."""
    reads: Float[Tensor, "batch heads ..."]
    """Read vectors or matrices, (batch, heads, *slot_shape)."""


class TapeCell(Cell):
    """Parts of a Turing machine that its bounds and its fused scan rely on; see `TuringMachine`."""

    controller: Cell
    heads: Heads
    slots: int
    slot_shape: tuple[int, ...]
    read_heads: int
    write_heads: int
    controller_shape: tuple[int, ...]
    """Shape of the controller's output: (features,), or (rows, columns) of a matrix."""
    gradient_limit: float | None

    def read_out(
        self, hidden: Float[Tensor, "batch features"], reads: Float[Tensor, "batch heads numbers"]
    ) -> Float[Tensor, "batch outputs"]:
        """Return the output of the machine, from the flat output of the controller and the reads."""
        raise NotImplementedError(f"{type(self).__name__} must define read_out(hidden, reads).")
