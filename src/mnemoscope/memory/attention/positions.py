"""Absolute positions: a layer that counts its inputs and adds a code of the count."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.fast_path import FastPath, NoFastPath

SLOWEST = 10_000.0
"""Ratio of the highest and, nearly, the lowest frequency (Vaswani et al. 2017, section 3.5)."""


class CountState(NamedTuple):
    """The number of inputs up to now."""

    length: Float[Tensor, "batch 1"]


class SinusoidalPositions(Cell):
    """`y_t = W x_t + b + P(t)`, with `P(t) = (sin(t w_0), cos(t w_0), sin(t w_1), ...)` and t = 0 for the first input.

    The frequencies are `w_i = 10000^(-2 i / width)` (Vaswani et al. 2017, section 3.5). P has no parameters and is
    defined at every t, so that sequences may be longer than those of the training.

    >>> cell = SinusoidalPositions(3, 8)
    >>> output, state = cell.step(torch.zeros(5, 3), cell.initial_state(5))
    >>> output.shape, state.length[0]
    (torch.Size([5, 8]), tensor([1.]))
    """

    reads_input = True

    def __init__(self, input_size: int, width: int) -> None:
        super().__init__()
        check_whole(1, input_size=input_size, width=width)
        if width % 2:
            raise ValueError(f"Sinusoidal positions are pairs of sine and cosine: width must be even, but is {width}.")
        self.input_size, self.width = input_size, width
        self.embed = nn.Linear(input_size, width)

    @property
    def output_features(self) -> int:
        return self.width

    def initial_state(self, batch: int) -> CountState:
        weight = self.embed.weight  # bfloat16 has no whole numbers between 256 and 258
        return CountState(weight.new_zeros(batch, 1, dtype=torch.promote_types(weight.dtype, torch.float32)))

    def forward(self, x: Float[Tensor, "batch inputs"], state: Any) -> CountState:
        return CountState(state.length + 1)

    def output_at(self, x: Float[Tensor, "batch inputs"], state: Any) -> Float[Tensor, "batch outputs"]:
        return self._coded(x, state.length - 1)

    def fast_path(self, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
        return FastPath(f"cumulative sum ({xs.device.type})", lambda: self._run(xs, state, mask))

    def _run(
        self, xs: Float[Tensor, "time batch inputs"], state: Any, mask: Bool[Tensor, "time batch"] | None
    ) -> tuple[Float[Tensor, "time batch outputs"], CountState]:
        present = torch.ones_like(xs[..., :1]) if mask is None else mask.unsqueeze(-1)
        counts = state.length + present.to(state.length.dtype).cumsum(0)
        return self._coded(xs, counts - 1), CountState(counts[-1])

    def _coded(
        self, x: Float[Tensor, "*batch inputs"], places: Float[Tensor, "*batch 1"]
    ) -> Float[Tensor, "*batch outputs"]:
        pairs = torch.arange(0, self.width, 2, device=places.device, dtype=places.dtype)
        angles = places * SLOWEST ** -(pairs / self.width)
        embedded = self.embed(x)
        return embedded + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2).to(embedded.dtype)
