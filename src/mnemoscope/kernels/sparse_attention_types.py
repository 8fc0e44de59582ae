"""Options of a scan with sparse attention, and the result of its forward pass (see `sparse_attention`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from mnemoscope.base.array_types import Float

EPSILON = 1e-7
"""Added to the sum of the scores above the threshold, which may be 0, as in the code released by Ke et al."""


@dataclass(frozen=True)
class SparseAttention:
    """Options of a scan that are not tensors."""

    cell: str
    """"lstm", or the name of an elementwise nonlinearity."""
    scale: float
    every: int
    """Number of steps from one stored state to the next."""
    top_k: int
    truncate: int | None
    """Number of steps that the gradient flows back through the recurrent state; None: all."""
    phase: int
    """Number of steps before the first, modulo the period of storing and truncation."""

    def stored(self, steps: int) -> int:
        """Return the number of states that the first `steps` steps store."""
        return (self.phase + steps) // self.every - self.phase // self.every

    def stores(self, t: int) -> bool:
        """Whether the state after step t is stored."""
        return (self.phase + t + 1) % self.every == 0

    def ends(self, t: int) -> bool:
        """Whether the gradient through the recurrent state ends before step t."""
        return self.truncate is not None and (self.phase + t) % self.truncate == 0


class Trace(NamedTuple):
    """Results of the forward pass for the backward pass."""

    outputs: Float[Tensor, "time batch outputs"]
    """[s; c], with the context c."""
    hs: Float[Tensor, "time batch hidden"]
    queries: Float[Tensor, "time batch hidden"]
    chosen: Tensor
    """(time, batch, top_k + 1): positions of the rows with the largest scores, in descending order. The last has the
    score of the threshold. If at most top_k rows are stored, all of them come first, and the others are -1."""
    attention: Float[Tensor, "time batch chosen"]
    sums: Float[Tensor, "time batch"]
    """Sums of the scores above the threshold; 0 if at most top_k rows are stored."""
    rows: Tensor
    """(batch, slots, 2 hidden): the rows of the start, then the stored ones."""
    gates: Tensor | None
    """(time, batch, 4 hidden): the gates of an LSTM."""
    c: Tensor | None
