"""State-space models that keep a separate state for each output channel."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import silu

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.surroundings import Surroundings


class ChannelModel(AffineCell):
    """Base class of state-space models of channels: one number u per channel enters a step, and `D u` is added.

    `Surroundings.entry` defines u as a function of the features, so that such a recurrence can be put into the block
    of another one: `s4d` into that of Mamba, or both into that of H3.
    """

    skip: nn.Parameter
    """D."""

    def __init__(self, input_size: int, hidden_size: int, keys: int) -> None:
        super().__init__(input_size, hidden_size, heads=hidden_size, keys=keys)
        self.entry = type(self).surroundings.entry

    @classmethod
    def for_architecture(cls, width: int, depth: int, around: Surroundings, **options: Any) -> list[Any]:
        """Return the recurrences of `depth` blocks with these surroundings, whose inputs have `width` features."""
        hidden, branches = round(around.expand * width), 3 if around.entry == "product" else 1
        options = {**cls.options_in_blocks(width), **options}
        cores = [cls(width, hidden, **options) for _ in range(depth)]
        for core in cores:
            core.entry = around.entry
            core.convolved = hidden if around.convolution else 0
            itself = around.entry == "linear" and hidden == width  # the channels are the inputs
            core.project = nn.Identity() if itself else nn.Linear(width, branches * hidden, bias=around.bias)
        return cores

    @classmethod
    def options_in_blocks(cls, width: int) -> dict[str, Any]:
        """Return options that depend on the width of a block."""
        return {}

    def channels(self, features: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch channels"]:
        """Return u."""
        if self.entry == "product":
            k, v, _ = features.chunk(3, dim=-1)
            return k * v
        return silu(features) if self.entry == "silu" else features

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        y = super().finish(reads, features, scale) + self.skip * self.channels(features)
        return y * features.chunk(3, dim=-1)[2] if self.entry == "product" else y
