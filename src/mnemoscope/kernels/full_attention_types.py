"""Options of a scan with full attention, and the result of its forward pass (see `full_attention`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from mnemoscope.base.array_types import Float


@dataclass(frozen=True)
class FullAttention:
    """Options of a scan that are not tensors."""

    cell: str
    """"lstm", or the name of an elementwise nonlinearity."""
    scale: float


class Trace(NamedTuple):
    """Results of the forward pass for the backward pass."""

    outputs: Float[Tensor, "time batch hidden"]
    queries: Float[Tensor, "time batch hidden"]
    contexts: Float[Tensor, "time batch hidden"]
    norms: Float[Tensor, "time batch"]
    """Logarithms of the sums of exp(score): a weight is exp(score - norm)."""
    rows: Tensor
    """(batch, slots + time, 2 hidden): the rows of the start, then one of each step."""
    gates: Tensor | None
    """(time, batch, 4 hidden): the gates of an LSTM."""
    c: Tensor | None

    @property
    def hs(self) -> Float[Tensor, "time batch hidden"]:
        """The states of the cell before attention."""
        time, _, size = self.outputs.shape
        return self.rows[:, -time:, :size].transpose(0, 1)
