"""Feed-forward layers between recurrences."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.convolution import Delay, compact
from mnemoscope.cells.fast_path import FastPath, NoFastPath

_FUNCTIONS = {"swiglu": silu, "geglu": gelu, "tanh geglu": partial(gelu, approximate="tanh"), "gelu": gelu}


class FeedForward(nn.Module):
    """`W_2 f(W_1 x)`, or `W_2 (f(W_1 x) * W_3 x)` with a gated `kind`, with `size` inner features.

    f is SiLU for "swiglu", GELU for "geglu" and "gelu", which has no gate, and the tanh form of GELU for "tanh geglu".

    >>> FeedForward(6, kind="swiglu", size=16)(torch.zeros(5, 6)).shape
    torch.Size([5, 6])
    """

    def __init__(self, width: int, kind: str, size: int, bias: bool = False) -> None:
        super().__init__()
        self.kind = kind
        self.up = nn.Linear(width, size if kind == "gelu" else 2 * size, bias=bias)
        """W_1 and W_3."""
        self.down = nn.Linear(size, width, bias=bias)
        """W_2."""

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        function, u = _FUNCTIONS[self.kind], self.up(x)
        if self.kind == "gelu":
            return self.down(function(u))
        gate, values = u.chunk(2, dim=-1)
        return self.down(function(gate) * values)

    def extra_repr(self) -> str:
        return self.kind


class ShiftState(NamedTuple):
    """The last input and the present one, (batch, features, 2)."""

    conv: Tensor


class ChannelMixing(Cell):
    """The feed-forward layer of RWKV-7, which sees the last input as well: `y = x + V relu(K u)^2` (Peng et al. 2025).

    `u = n + mix * (n_last - n)` with n = norm(x). Inputs after the first `width` are the message to the next block and
    pass unchanged. `remaining` is the part of the network's layers that are not below, from 1 to 0, which sets `mix` at
    the start. With `last` a norm follows.

    >>> layer = ChannelMixing(4)
    >>> layer.step(torch.zeros(5, 4), layer.initial_state(5))[0].shape
    torch.Size([5, 4])
    """

    reads_input = True

    def __init__(self, width: int, remaining: float = 1.0, message: int = 0, last: bool = False) -> None:
        super().__init__()
        self.width, self.input_size = width, width + message
        self.norm, self.delay = nn.LayerNorm(width), Delay(width)
        self.mix = nn.Parameter(1 - (torch.arange(width) / width) ** remaining**4)
        self.key, self.value = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.last = nn.LayerNorm(width) if last else nn.Identity()

    @property
    def output_features(self) -> int:
        assert self.input_size is not None
        return self.input_size

    def initial_state(self, batch: int) -> ShiftState:
        return ShiftState(self.mix.new_zeros(batch, self.width, 2))

    def forward(self, x: Float[Tensor, "batch inputs"], state: ShiftState) -> ShiftState:
        return ShiftState(self.delay.shift(state.conv, self.norm(x[..., : self.width])))

    def output_at(self, x: Float[Tensor, "batch inputs"], state: ShiftState) -> Float[Tensor, "batch outputs"]:
        return self._mixed(x, self.delay.read(state.conv))

    def fast_path(self, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
        return FastPath("all steps at once", lambda: self._run(xs, state, mask))

    def _run(self, xs: Tensor, state: ShiftState, mask: Tensor | None) -> tuple[Tensor, ShiftState]:
        normed = self.norm(xs[..., : self.width])
        if mask is None:
            before, register = self.delay.run(normed, state.conv)
        else:  # the last input is the last one that exists
            normed, places = compact(normed, mask)
            before, register = self.delay.run(normed, state.conv, mask.sum(0))
            before = before.gather(0, places.unsqueeze(-1).expand_as(before))
        return self._mixed(xs, before), ShiftState(register)

    def _mixed(self, x: Float[Tensor, "*batch inputs"], before: Float[Tensor, "*batch width"]) -> Tensor:
        stream, message = x.tensor_split([self.width], dim=-1)
        n = self.norm(stream)
        y = stream + self.value(torch.relu(self.key(n + self.mix * (before - n))).square())
        return torch.cat([self.last(y), message], dim=-1)
