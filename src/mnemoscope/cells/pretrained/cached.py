"""Modules of transformers whose state is in a `Cache`: Mamba, Mamba-2, delta rules, and hybrids with attention."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.cells.pretrained.module_cell import ModuleCell, named_inputs
from mnemoscope.cells.pretrained.pure_step import PureStep
from mnemoscope.cells.state import State


class Recurrent(NamedTuple):
    """The state of a recurrent layer: the last inputs of its convolution, and its matrices."""

    conv: Tensor
    S: Tensor


class Attention(NamedTuple):
    """The keys and values of an attention layer, each (batch, slots, heads, features); every step appends a slot."""

    keys: Tensor
    values: Tensor


class RecurrentAndAttention(NamedTuple):
    """The state of a layer that has both."""

    conv: Tensor
    S: Tensor
    keys: Tensor
    values: Tensor


class CachedMixer(ModuleCell):
    """A mixer such as Mamba2Mixer or Qwen3NextGatedDeltaNet: from features to features of a sequence."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.input_size = int(self.module.hidden_size)

    def start(self) -> tuple[State, Tensor]:
        cache = self._cache()
        output, _ = self.pure(lambda: self._run(self.like.new_zeros(1, 1, self.input_size or 0), cache))
        return zeros(cache.layers[-1]), output[:, 0]

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        cache = self._cache()
        fill(cache.layers[-1], state)
        output, pure = self.pure(lambda: self._run(x.unsqueeze(1), cache), state)
        return output[:, 0], read(cache.layers[-1], state, pure)

    def whole(self, xs: Tensor) -> Tensor:
        return self.pure(lambda: self._run(xs, None))[0]

    def _run(self, xs: Tensor, cache: Any) -> Tensor:
        output = self.module(xs, cache_params=cache)
        return output[0] if isinstance(output, tuple) else output

    def _cache(self) -> Any:
        return _caches().Cache(layers=[_caches().LinearAttentionLayer() for _ in range(self.module.layer_idx + 1)])


class CachedModel(ModuleCell):
    """A whole model, with or without its language-modelling head: from tokens, or embeddings, to logits or features."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        options = signature(module.forward).parameters
        self._cache_name = "cache_params" if "cache_params" in options else "past_key_values"
        self._takes_positions = "position_ids" in options
        layers = self._cache().layers
        self.attention_layers = tuple(
            depth for depth, layer in enumerate(layers) if isinstance(layer, _caches().CacheLayerMixin)
        )
        """Layers with attention, whose keys and values grow."""

    @property
    def grows(self) -> bool:
        return bool(self.attention_layers)

    @property
    def takes_mask(self) -> bool:
        return not self.grows

    @property
    def has_readout(self) -> bool:
        return type(self.module).__name__.endswith("ForCausalLM")

    def start(self) -> tuple[list[State], Tensor]:
        cache = self._cache()
        token = torch.zeros(1, 1, dtype=torch.long, device=self.like.device)
        output, _ = self.pure(lambda: self._run(token, cache))
        return list(map(zeros, cache.layers)), output[:, 0]

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        cache = self._cache()
        for layer, part in zip(cache.layers, state, strict=True):
            fill(layer, part)
        output, pure = self.pure(lambda: self._run(x.unsqueeze(1), cache), state)
        return output[:, 0], [read(layer, part, pure) for layer, part in zip(cache.layers, state, strict=True)]

    def whole(self, xs: Tensor) -> Tensor:
        return self.pure(lambda: self._run(xs, None))[0]

    def _cache(self) -> Any:
        return _caches().DynamicCache(config=self.module.config)

    def _run(self, xs: Tensor, cache: Any) -> Tensor:
        options = {**named_inputs(xs), self._cache_name: cache}
        if self._takes_positions:  # Bamba does not count the past itself
            past = 0 if cache is None or not self.grows else cache.get_seq_length()
            options["position_ids"] = past + torch.arange(xs.shape[1], device=xs.device).unsqueeze(0)
            if cache is not None and not self.grows:  # a hybrid without attention; its masks count the keys
                options["attention_mask"] = {"full_attention": None, "linear_attention": None}
        return self.module(**options, use_cache=cache is not None, return_dict=True)[0]


def fill(layer: Any, state: State) -> None:
    """Put a state into a layer of a cache, as if the model had read the past."""
    if hasattr(state, "S"):
        layer.device, layer.dtype = state.S.device, state.S.dtype
        layer.conv_states[0], layer.recurrent_states[0] = state.conv, state.S
        layer.conv_kernel_size[0] = state.conv.shape[-1]
        layer.is_conv_states_initialized[0] = layer.is_recurrent_states_initialized[0] = True
        layer.has_previous_state[0] = True
    if hasattr(state, "keys"):
        layer.device, layer.dtype = state.keys.device, state.keys.dtype
        layer.keys, layer.values = state.keys.transpose(1, 2), state.values.transpose(1, 2)
        layer.is_initialized = True
        if getattr(layer, "is_sliding", False):
            window = layer.sliding_window - 1
            layer.cumulative_length = state.keys.shape[1]
            layer.keys, layer.values = layer.keys[:, :, -window:], layer.values[:, :, -window:]


def read(layer: Any, old: State, pure: PureStep) -> State:
    """Return the state of a layer after a step."""
    new: dict[str, Tensor] = {}
    if hasattr(old, "S"):
        new |= {"conv": pure.new_value(layer.conv_states[0]), "S": pure.new_value(layer.recurrent_states[0])}
    if hasattr(old, "keys"):
        for name in ("keys", "values"):
            slot = getattr(layer, name)[:, :, -1:].transpose(1, 2)
            new[name] = torch.cat([getattr(old, name), slot], dim=1)
    return old._replace(**new) if new else old


def zeros(layer: Any) -> State:
    """Return the state before the first input of a layer of a cache that has read one token."""
    parts: dict[str, Tensor] = {}
    if getattr(layer, "conv_states", None):
        if len(layer.conv_states) != 1:
            raise TypeError(f"A cache layer with {len(layer.conv_states)} recurrent states is not known.")
        parts |= {"conv": torch.zeros_like(layer.conv_states[0]), "S": torch.zeros_like(layer.recurrent_states[0])}
    if getattr(layer, "keys", None) is not None:
        parts |= {name: getattr(layer, name)[:, :, :0].transpose(1, 2) for name in ("keys", "values")}
    kinds: dict[tuple[str, ...], Any] = {kind._fields: kind for kind in (Recurrent, Attention, RecurrentAndAttention)}
    return kinds[tuple(parts)](**parts) if parts else ()


def _caches() -> Any:
    return import_module("transformers.cache_utils")  # where it is needed: it is an extra, and its import takes seconds
