"""RWKV-4 of transformers, whose state is five tensors with the layers along the last axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.cells.pretrained.module_cell import ModuleCell, named_inputs
from mnemoscope.cells.state import State

_BEFORE_THE_FIRST_KEY = -1e38
"""The largest key of an empty past, as transformers has it."""


class TimeMix(NamedTuple):
    """The state of time mixing: the last input, and the weighted sums of values and weights, both times e^-m."""

    shift: Tensor
    S: Tensor
    n: Tensor
    m: Tensor


class TimeAndChannelMix(NamedTuple):
    """The state of a layer: that of its time mixing, and the last input of its channel mixing."""

    shift: Tensor
    S: Tensor
    n: Tensor
    m: Tensor
    channel_shift: Tensor


class RWKVMixer(ModuleCell):
    """RwkvSelfAttention: the time mixing of one layer."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.input_size = int(module.config.hidden_size)

    def start(self) -> tuple[State, Tensor]:
        zeros = self.like.new_zeros(1, self.input_size or 0)
        return TimeMix(zeros, *_empty_sums(self.module)), zeros

    def advance(self, x: Tensor, state: TimeMix) -> tuple[Tensor, TimeMix]:
        columns = _columns({self.module.layer_id: state})
        output = self.pure(lambda: self.module(x.unsqueeze(1), state=columns, use_cache=True)[0])[0]
        return output[:, 0], TimeMix(*(column.values[self.module.layer_id] for column in columns[1:]))

    def whole(self, xs: Tensor) -> Tensor:
        return self.pure(lambda: self.module(xs)[0])[0]


class RWKVModel(ModuleCell):
    """A whole model, with or without its language-modelling head.

    In transformers the single steps of a batch mix its members: the shifted inputs (batch, features) meet the inputs
    (batch, 1, features). Here they have the same shape, so that members are independent.
    """

    @property
    def has_readout(self) -> bool:
        return hasattr(self.module, "rwkv")

    def start(self) -> tuple[list[State], Tensor]:
        blocks = (self.module.rwkv if self.has_readout else self.module).blocks
        zeros = self.like.new_zeros(1, self.module.config.hidden_size)
        layers = [TimeAndChannelMix(zeros, *_empty_sums(block.attention), zeros) for block in blocks]
        output = self.whole(torch.zeros(1, 1, dtype=torch.long, device=self.like.device))
        return layers, output[:, 0]

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        columns = _columns(dict(enumerate(state)))
        output = self.pure(lambda: self._run(x.unsqueeze(1), state=columns, use_cache=True))[0]
        channel_shift, *time_mix = (column.values for column in columns)
        return output[:, 0], [
            TimeAndChannelMix(*[part[layer] for part in (*time_mix, channel_shift)]) for layer in range(len(state))
        ]

    def whole(self, xs: Tensor) -> Tensor:
        return self.pure(lambda: self._run(xs, use_cache=False))[0]

    def _run(self, xs: Tensor, **options: Any) -> Tensor:
        options |= named_inputs(xs)
        return self.module(**options, return_dict=True)[0]


class _Column:
    """One of the five tensors of the state, as a tensor per layer that is replaced instead of written into."""

    def __init__(self, values: dict[int, Tensor], is_input: bool) -> None:
        self.values, self.is_input = values, is_input

    def __getitem__(self, index: tuple[slice, slice, int]) -> Tensor:
        value = self.values[index[2]]
        return value.unsqueeze(1) if self.is_input else value

    def __setitem__(self, index: tuple[slice, slice, int], value: Tensor) -> None:
        self.values[index[2]] = value


def _columns(layers: dict[int, Any]) -> list[_Column]:
    """Return the five parts of the state in the order of transformers; time mixing alone does not read the first."""
    names = ("channel_shift", "shift", "S", "n", "m")
    return [
        _Column({depth: getattr(part, name) for depth, part in layers.items() if hasattr(part, name)}, "shift" in name)
        for name in names
    ]


def _empty_sums(attention: Any) -> tuple[Tensor, Tensor, Tensor]:
    like = attention.key.weight
    zeros = like.new_zeros(1, attention.attention_hidden_size, dtype=torch.promote_types(like.dtype, torch.float32))
    return zeros, zeros, zeros + _BEFORE_THE_FIRST_KEY
