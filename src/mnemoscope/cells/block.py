"""Blocks: a recurrence with the norms, convolution, gate and residual connection around it."""

from __future__ import annotations

from collections import namedtuple
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, glu, silu

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.convolution import compact
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.norms import PartialNorm
from mnemoscope.cells.recurrence import Recurrence
from mnemoscope.cells.surroundings import Surroundings

_GATES = {"silu": silu, "sigmoid": torch.sigmoid, "gelu": partial(gelu, approximate="tanh")}


class Block(Cell):
    """`y = e + W_o surround(core(norm(e)))` with `e = W_e x`: one layer of a published network around a recurrence.

    The state is that of the core, with the register `conv` of the last features if there is a convolution. The step of
    the core stays affine in S; the convolution makes its parts depend on the last few inputs.

    Args:
        core: the recurrence; its inputs have `width` features, followed by the message of the block below, if any.
            `Recurrence.for_blocks` builds those of published blocks. Around a MinGRU, MinLSTM, MLSTM, SLSTM or RWKV7
            that is not built so, a block has neither convolution nor token shift.
        width: number of features that the residual connection carries, and of the outputs.
        surroundings: what is around the recurrence; by default `core.surroundings`, as published.
        input_size: number of input features, if they are not the outputs of another block; W_e is the identity if None.
        last: whether a norm follows the residual connection, as after the last layer.
        feed_forward: whether a feed-forward layer follows the residual connection, with its own norm and residual
            connection. That of RWKV-7 has a state, and is a layer after the block (`ChannelMixing`).

    >>> from mnemoscope.cells.affine import GatedDeltaNet
    >>> block = Block(GatedDeltaNet(6, 8, heads=2), width=6, input_size=3)
    >>> output, state = block.step(torch.zeros(5, 3), block.initial_state(5))
    >>> output.shape, state._fields
    (torch.Size([5, 6]), ('conv', 'S'))

    """

    reads_input = True

    def __init__(
        self,
        core: Recurrence,
        width: int,
        surroundings: Surroundings | None = None,
        input_size: int | None = None,
        last: bool = False,
        feed_forward: bool = False,
    ) -> None:
        super().__init__()
        if core.input_size != width + core.received:
            raise ValueError(
                f"The recurrence in a block of width {width} must take {width + core.received} inputs, but this "
                f"{type(core).__name__} takes {core.input_size}: change its input_size, or the width."
            )
        around = core.surroundings if surroundings is None else surroundings
        self.core, self.width, self.surroundings = core, width, around
        self.input_size = core.input_size if input_size is None else input_size
        self.embed = nn.Identity() if input_size is None else around.make_embedding(input_size, width)
        norm = around.make_input_norm(width)
        self.norm = PartialNorm(norm, width) if core.received else norm
        self.convolution = around.make_convolution(core.convolved)
        core.norm = around.make_head_norm(core.heads, core.hidden_size // core.heads)
        self.gate = around.make_gate(width, core.hidden_size, core.heads)
        self.gated_norm = around.make_last_norm(core.hidden_size, core.groups)
        self.out = around.make_projection(core.hidden_size, width)
        self.feed_forward = around.make_feed_forward(width) if feed_forward else None
        self.last = around.make_input_norm(width) if last else nn.Identity()

    @property
    def grows(self) -> bool:
        return self.core.grows

    @property
    def output_features(self) -> int:
        return self.width + self.core.passed

    def initial_state(self, batch: int) -> Any:
        inner = self.core.initial_state(batch)
        if self.convolution is None:
            return inner
        weight = self.convolution.weight
        return _with_register(type(inner))(weight.new_zeros(batch, *weight.shape), *inner)

    def forward(self, x: Float[Tensor, "batch inputs"], state: Any) -> Any:
        features = self.core.project(self.norm(self.embed(x)))
        if self.convolution is None:
            return self.core.advance(features, state)
        register, *inner = state
        mixed, direct = features.tensor_split([self.core.convolved], dim=-1)
        register = self.convolution.shift(register, mixed)
        features = torch.cat([self.convolution.read(register), direct], dim=-1)
        after = self.core.advance(features, self._inner(inner))
        return type(state)(register, *after)

    def output_at(self, x: Float[Tensor, "batch inputs"], state: Any) -> Float[Tensor, "batch outputs"]:
        e = self.embed(x)
        features = self.core.project(self.norm(e))
        if self.convolution is None:
            return self._surround(e, self._with_message(self.core.read(features, state), features))
        register, *inner = state
        direct = features[..., self.core.convolved :]
        features = torch.cat([self.convolution.read(register), direct], dim=-1)
        return self._surround(e, self._with_message(self.core.read(features, self._inner(inner)), features))

    def fast_path(self, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
        if not self.core.whole_sequences:
            return NoFastPath(f"{type(self.core).__name__} takes no whole sequences")
        return FastPath(self.core.kernel_name(xs.device, xs.dtype), lambda: self._run(xs, state, mask))

    def _run(self, xs: Tensor, state: Any, mask: Tensor | None) -> tuple[Tensor, Any]:
        e = self.embed(xs)
        features = self.core.project(self.norm(e))
        if self.convolution is None:
            outputs, last = self.core.run(features, state, mask)
            return self._surround(e, self._with_message(outputs, features)), last
        register, *inner = state
        lengths = places = None
        if mask is not None:  # a convolution spans the inputs that there are
            features, places = compact(features, mask)
            lengths = mask.sum(0)
            mask = torch.arange(len(mask), device=mask.device).unsqueeze(1) < lengths
        mixed, direct = features.tensor_split([self.core.convolved], dim=-1)
        mixed, register = self.convolution.run(mixed, register, lengths)
        features = torch.cat([mixed, direct], dim=-1)
        outputs, last = self.core.run(features, self._inner(inner), mask)
        outputs = self._with_message(outputs, features)
        if places is not None:
            outputs = outputs.gather(0, places.unsqueeze(-1).expand_as(outputs))
        return self._surround(e, outputs), type(state)(register, *last)

    def affine_layers(self, xs: Tensor, state: Any) -> list[AffineLayer]:
        if not isinstance(self.core, AffineCell):
            return []
        core, convolution = self.core, self.convolution

        def projected(xs: Tensor) -> Tensor:
            return core.project(self.norm(self.embed(xs)))

        if convolution is None:
            return [AffineLayer.of(core, projected(xs), state, LayerInputs(xs, projected))]
        register, *inner = state

        def convolved(features: Tensor) -> Tensor:
            mixed, direct = features.tensor_split([core.convolved], dim=-1)
            return torch.cat([convolution.run(mixed, register)[0], direct], dim=-1)

        inputs = LayerInputs(xs, projected, convolved, register.shape[-1])
        return [AffineLayer.of(core, convolved(projected(xs)), tuple(inner), inputs)]

    def _with_message(self, o: Tensor, features: Tensor) -> Tensor:
        """Return the output of the recurrence and the message to the block above."""
        return torch.cat([o, self.core.message(features)], dim=-1) if self.core.passed else o

    def _surround(self, e: Float[Tensor, "*batch inputs"], o: Float[Tensor, "*batch features"]) -> Tensor:
        """Return the output of the block from its embedded input and the output of the recurrence with its message."""
        o, message = o.tensor_split([self.core.hidden_size], dim=-1)
        y = e[..., : self.width] + self._projected(e, o)
        y = self.last(y if self.feed_forward is None else y + self.feed_forward(y))
        return torch.cat([y, message], dim=-1) if self.core.passed else y

    def _projected(self, e: Tensor, o: Tensor) -> Float[Tensor, "*batch width"]:
        """Return the output of the recurrence after gate, norm and projection."""
        kind = self.surroundings.gate
        if kind in ("glu", "half glu"):
            o = gelu(o)
            return glu(self.out(o)) if kind == "glu" else o * torch.sigmoid(self.out(o))
        if self.gate is not None:
            o = o * _GATES[kind](self.gate(self.norm(e)))
        if self.surroundings.activation == "gelu":
            o = gelu(o)
        return self.out(self.gated_norm(o))

    def _inner(self, fields: list[Tensor]) -> Any:
        return type(self.core.initial_state(0))(*fields)

    def jacobian(self, x: Float[Tensor, "batch inputs"], state: Any) -> Float[Tensor, "batch size size"] | None:
        """Return the matrix of the step if there is no convolution; else None, and `torch.func` is used."""
        if self.convolution is not None or not isinstance(self.core, AffineCell):
            return None
        return self.core.state_jacobian(self.core.project(self.norm(self.embed(x))), state)


@cache
def _with_register(inner: Any) -> Any:
    """Return the NamedTuple of a register and the fields of another."""
    return namedtuple("BlockState", ("conv", *inner._fields))
