"""Arguments of the scan of a neural Turing machine (see `tape`)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mnemoscope.base.array_types import Float


class TapeOptions(NamedTuple):
    """Options of a scan that are not tensors."""

    writers: int
    readers: int
    reach: int
    least_strength: float
    gradient_limit: float | None
    """Limit to which each number of the gradient between steps is clipped; None: no limit."""


class Weights(NamedTuple):
    """Weights of the controller and of the map to the head parameters (see `Layout`)."""

    recurrent: Float[Tensor, "layers width units"] | None
    """None if the controller is not recurrent."""
    reader: Float[Tensor, "layers_width reads"]
    """Weights from the reads to all layers."""
    heads: Float[Tensor, "head_outputs units"]
    bias: Float[Tensor, " head_outputs"]


class Start(NamedTuple):
    """The state before the first step."""

    h: Float[Tensor, "batch units"]
    c: Float[Tensor, "batch units"] | None
    """Memory of an LSTM, with gates i, f, g, o; None: the controller has layers of tanh within one step."""
    memory: Float[Tensor, "batch numbers slots"]
    write: Float[Tensor, "batch writers slots"]
    read: Float[Tensor, "batch readers slots"]
    reads: Float[Tensor, "batch readers numbers"]


class Layout(NamedTuple):
    """Order of the head parameters: keys, add and erase vectors, gates, strengths, gammas, shifts.

    In each part the write heads come first. The shifts of a head start with the largest offset.
    """

    heads: int
    writers: int
    numbers: int
    moves: int

    def by_function(self, head_outputs: Float[Tensor, "*steps head_outputs"]) -> tuple[Tensor, ...]:
        """Return views of what goes through tanh, the logistic function, softplus (strengths, gammas), and softmax."""
        H, vectors = self.heads, self.writers * self.numbers
        return head_outputs.split((H * self.numbers + vectors, vectors + H, 2 * H, self.moves * H), dim=-1)

    def parts(self, head_outputs: Float[Tensor, "*steps head_outputs"]) -> list[Tensor]:
        """Return views of the parts, with a dimension for the heads."""
        H, vectors = self.heads, self.writers * self.numbers
        sizes = [H * self.numbers, vectors, vectors, H, H, H, self.moves * H]
        counts = [H, self.writers, self.writers, H, H, H, H]
        parts = head_outputs.split(sizes, dim=-1)
        return [part.unflatten(-1, (count, -1)) for part, count in zip(parts, counts, strict=True)]

    @classmethod
    def of(cls, numbers: int, options: TapeOptions) -> Layout:
        """Return the layout for slots with so many numbers."""
        return cls(options.writers + options.readers, options.writers, numbers, 2 * options.reach + 1)
