"""RecurrentGemma of transformers (Griffin), whose recurrent state is in attributes of its modules."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from mnemoscope.base.array_types import Float, Int
from mnemoscope.cells.pretrained.cached import CachedModel, fill, read, zeros
from mnemoscope.cells.pretrained.module_cell import ModuleCell, named_inputs
from mnemoscope.cells.state import State


class Griffin(NamedTuple):
    """The state of a recurrent block: the last inputs of its convolution, its units, and 1 after the first input."""

    conv: Tensor
    h: Tensor
    started: Tensor


class GriffinMixer(ModuleCell):
    """RecurrentGemmaRecurrentBlock: a convolution and a real-gated linear recurrent unit."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.input_size = int(module.hidden_size)

    def start(self) -> tuple[State, Tensor]:
        return _empty(self.module), self.like.new_zeros(1, self.input_size or 0)

    def advance(self, x: Tensor, state: Griffin) -> tuple[Tensor, Griffin]:
        with _placed({self.module: state}) as units:
            position = _positions(state)
            output = self.pure(lambda: self.module(x.unsqueeze(1), position, None, use_cache=True)[0])[0]
            return output[:, 0], _taken(self.module, units[self.module])

    def whole(self, xs: Tensor) -> Tensor:
        positions = torch.arange(xs.shape[1], device=xs.device).unsqueeze(0)
        return self.pure(lambda: self.module(xs, positions, None, use_cache=False)[0])[0]


class GriffinModel(CachedModel):
    """A whole model, with or without its language-modelling head."""

    def start(self) -> tuple[list[State], Tensor]:
        cache, past = self._cache(), torch.zeros(1, 1, dtype=torch.long, device=self.like.device)
        with _placed({block: _empty(block) for block in self._blocks() if hasattr(block, "rg_lru")}):
            output = self.pure(lambda: self._run(past, cache, past))[0]
        layers = zip(self._blocks(), cache.layers, strict=True)
        return [_empty(block) if hasattr(block, "rg_lru") else zeros(layer) for block, layer in layers], output[:, 0]

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        cache, blocks = self._cache(), self._blocks()
        recurrent = {block: part for block, part in zip(blocks, state, strict=True) if isinstance(part, Griffin)}
        for layer, part in zip(cache.layers, state, strict=True):
            fill(layer, part if not isinstance(part, Griffin) else ())
        past = cache.get_seq_length() if self.grows else _positions(state[0])
        with _placed(recurrent) as units:
            output, pure = self.pure(lambda: self._run(x.unsqueeze(1), cache, past), state)
            new = [
                _taken(block, units[block]) if block in recurrent else read(layer, part, pure)
                for block, layer, part in zip(blocks, cache.layers, state, strict=True)
            ]
        return output[:, 0], new

    def _run(self, xs: Tensor, cache: Any, past: Any = 0) -> Tensor:
        options: dict[str, Any] = named_inputs(xs)
        options["position_ids"] = past + torch.arange(xs.shape[1], device=xs.device).unsqueeze(0)
        if cache is not None:  # the cache holds the keys of the window, so that a step needs no mask
            options |= {"past_key_values": cache, "attention_mask": {"sliding_attention": None}}
        return self.module(**options, use_cache=cache is not None, return_dict=True)[0]

    def _blocks(self) -> list[Any]:
        return [layer.temporal_block for layer in getattr(self.module, "model", self.module).layers]


class _Unit:
    """The recurrence of one block for one step, in place of the module's, which has no forward-mode derivative."""

    def __init__(self, module: Any, h: Tensor) -> None:
        self.module, self.h = module, h

    def __call__(
        self, activations: Float[Tensor, "batch 1 width"], position_ids: Tensor
    ) -> Float[Tensor, "batch 1 width"]:
        """Return the next state of the units: `h' = a h + sqrt(1 - a^2) i x`, and `i x` at the first step."""
        unit, x = self.module, activations[:, 0]
        heads = x.unflatten(-1, (unit.num_attention_heads, unit.block_width))

        def gate(weight: Tensor, bias: Tensor) -> Tensor:
            return torch.sigmoid(torch.einsum("bhi,hij->bhj", heads, weight) + bias).flatten(-2)

        log_a = -8 * gate(unit.recurrent_gate_weight, unit.recurrent_gate_bias) * softplus(unit.recurrent_param)
        first = position_ids == 0
        scale = torch.where(first, 1, torch.sqrt(-torch.expm1(2 * log_a)))
        decay = torch.where(first, 0, torch.exp(log_a))
        self.h = decay * self.h + scale * gate(unit.input_gate_weight, unit.input_gate_bias) * x
        return self.h.unsqueeze(1)


@contextmanager
def _placed(states: dict[Any, Griffin]) -> Generator[dict[Any, _Unit]]:
    """Put states into their blocks, and take out again what the blocks keep."""
    units = {block: _Unit(block.rg_lru, state.h) for block, state in states.items()}
    before = {block: (block.conv1d_state, block.rg_lru.recurrent_states) for block in states}
    try:
        for block, unit in units.items():
            block.conv1d_state, block.rg_lru.forward = states[block].conv, unit
        yield units
    finally:
        for block, (conv, recurrent) in before.items():
            block.conv1d_state, block.rg_lru.recurrent_states = conv, recurrent
            vars(block.rg_lru).pop("forward", None)


def _taken(block: Any, unit: _Unit) -> Griffin:
    return Griffin(block.conv1d_state, unit.h, torch.ones_like(unit.h[:, :1]))


def _positions(state: Griffin) -> Int[Tensor, "batch 1"]:
    """Return 0 for the first input of a sequence and 1 for later ones, which is all that a recurrent block reads."""
    return (state.started > 0.5).long()


def _empty(block: Any) -> Griffin:
    like = block.linear_x.weight
    return Griffin(
        like.new_zeros(1, block.lru_width, block.conv1d_width - 1),
        like.new_zeros(1, block.lru_width),
        like.new_zeros(1, 1),
    )
