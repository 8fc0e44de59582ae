"""What goes into a screened scan, and what its two passes leave behind (see `screened`)."""

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
    """What a scan does, but for its weights."""

    cell: str
    """"lstm", or the name of an elementwise nonlinearity."""
    short_term: int
    relevant: int
    normalised: bool
    """Whether a score counts attention times the number of states that compete for it."""
    scale: float

    @property
    def slots(self) -> int:
        return self.short_term + self.relevant


class Weights(NamedTuple):
    """What a scan learns."""

    recurrent: Float[Tensor, "gates hidden"]
    """Of s_{t-1}: all gates of an LSTM (i, f, g, o), or V."""
    bias: Float[Tensor, " hidden"] | None
    """Of modReLU."""
    query: Float[Tensor, "hidden hidden"]
    key: Float[Tensor, "hidden hidden"]
    direction: Float[Tensor, " hidden"] | None
    """v_a of the additive alignment; None: scaled dot products."""


class Start(NamedTuple):
    """The state before the first step."""

    s: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"] | None
    """Of an LSTM."""
    rows: Float[Tensor, "batch slots width"]
    score: Float[Tensor, "batch slots"]
    """-inf where a slot is empty."""


class Trace(NamedTuple):
    """What a forward pass leaves behind for the backward pass. Places count the first rows, then those of the steps."""

    outputs: Float[Tensor, "time batch hidden"]
    queries: Float[Tensor, "time batch hidden"]
    rows: Tensor
    """(slots + time, batch, 2 hidden): those of the start, then one of every step."""
    weights: Tensor
    """(time, slots, batch): attention."""
    moved: Tensor
    """(time, batch): the slot of the relevant set that took what left the ring; -1: none did."""
    dropped: Tensor
    """(time, batch): the place of what was in that slot before."""
    gates: Tensor | None
    """(time, batch, 4 hidden), and the memory c (time, batch, hidden), of an LSTM."""
    c: Tensor | None
    last: Tensor
    """(slots, batch, 2 hidden): the rows in the slots at the end, the ring as it then stands."""
    score: Tensor
    """(slots, batch), at the end."""


class Pulled(NamedTuple):
    """Gradients that a backward pass leaves behind."""

    drive: Float[Tensor, "time batch gates"]
    queries: Float[Tensor, "time batch hidden"]
    keys: Float[Tensor, "time batch hidden"]
    direction: Float[Tensor, " hidden"] | None
    s: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"] | None
    rows: Tensor
    """(slots, batch, 2 hidden)."""
