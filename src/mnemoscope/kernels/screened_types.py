"""Inputs of a screened scan, and the results of its two passes (see `screened`)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from torch import Tensor

from mnemoscope.base.array_types import Float

EMPTY = -inf
"""Score of an empty slot: below that of any state."""


@dataclass(frozen=True)
class Screening:
    """Options of a scan that are not tensors."""

    cell: str
    """"lstm", or the name of an elementwise nonlinearity."""
    short_term: int
    relevant: int
    normalised: bool
    """Whether the attention is multiplied by the number of states that compete for it."""
    scale: float

    @property
    def slots(self) -> int:
        return self.short_term + self.relevant


class Start(NamedTuple):
    """The state before the first step."""

    s: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"] | None
    """Memory of an LSTM."""
    rows: Float[Tensor, "batch slots width"]
    score: Float[Tensor, "batch slots"]
    """-inf where a slot is empty."""


class Trace(NamedTuple):
    """Results of the forward pass for the backward pass. Positions count the first rows, then those of the steps."""

    outputs: Float[Tensor, "time batch hidden"]
    queries: Float[Tensor, "time batch hidden"]
    rows: Tensor
    """(slots + time, batch, 2 hidden): the rows of the start, then one of each step."""
    weights: Tensor
    """(time, slots, batch): the attention weights."""
    moved: Tensor
    """(time, batch): the slot of the relevant set that took the row that left the ring; -1 if none did."""
    dropped: Tensor
    """(time, batch): the position of the row that was in that slot before."""
    gates: Tensor | None
    """(time, batch, 4 hidden): the gates of an LSTM."""
    c: Tensor | None
    last: Tensor
    """(slots, batch, 2 hidden): the rows in the slots at the end, in the order of the ring at that time."""
    score: Tensor
    """(slots, batch): the scores at the end."""


OutputGradients = tuple[Tensor, Tensor | None, Tensor | None, Tensor]
"""Gradients of the outputs, of the last h and c, and of the rows in the slots at the end."""


class ScanGradients(NamedTuple):
    """Results of the backward pass."""

    drive: Float[Tensor, "time batch gates"]
    queries: Float[Tensor, "time batch hidden"]
    keys: Float[Tensor, "time batch hidden"]
    direction: Float[Tensor, " hidden"] | None
    s: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"] | None
    rows: Tensor
    """(slots, batch, 2 hidden): gradients of the first rows."""
