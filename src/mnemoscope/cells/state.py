"""States: a tensor, or a (named, possibly nested) tuple of tensors, batch first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Float

State = Any
"""A tensor, or a tuple of states. Python has no type for a NamedTuple of these that keeps its fields."""


def leaves(state: State) -> list[Tensor]:
    """Return the tensors of a state, in order."""
    return [tensor for _, tensor in named_leaves(state)]


def named_leaves(state: State, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield names and tensors of a state: `h` and `c` for an LSTM, `0.h`, `1.h` for a stack, `state` for a tensor."""
    if isinstance(state, Tensor):
        yield name or "state", state
    elif isinstance(state, tuple):
        fields = getattr(state, "_fields", range(len(state)))
        for field, part in zip(fields, state, strict=True):
            yield from named_leaves(part, f"{name}.{field}" if name else str(field))
    else:
        raise _not_a_state(state)


def map_state(function: Callable[..., Any], *states: State) -> State:
    """Apply `function` to the corresponding tensors of one or several states; keeps the tuple types."""
    first = states[0]
    if isinstance(first, Tensor):
        return function(*states)
    if not isinstance(first, tuple):
        raise _not_a_state(first)
    parts = [map_state(function, *items) for items in zip(*states, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def stack_states(states: Sequence[State]) -> State:
    """Return one state with tensors (time, batch, ...); if states grow, earlier ones are padded with zeros."""
    return map_state(lambda *tensors: torch.stack([pad_slots(tensor, tensors[-1]) for tensor in tensors]), *states)


def pad_slots(tensor: Tensor, like: Tensor) -> Tensor:
    """Pad a tensor (batch, slots, ...) with zeros to the number of slots of `like`, from a later state."""
    if tensor.shape == like.shape:
        return tensor
    return pad(tensor, (0, 0) * (tensor.dim() - 2) + (0, like.shape[1] - tensor.shape[1]))


@dataclass(frozen=True)
class Layout:
    """The layout of a state in one flat real vector; a complex entry takes two numbers."""

    example: State
    """A state of the same form, with any batch size."""

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(prod(_real_shape(tensor)) for tensor in leaves(self.example))

    def flatten(self, state: State) -> Float[Tensor, "batch size"]:
        """Return the state as flat real vectors."""
        real = [torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in leaves(state)]
        return torch.cat([tensor.flatten(1) for tensor in real], dim=1)

    def unflatten(self, flat: Float[Tensor, "batch size"]) -> State:
        """Return flat real vectors as a state of the example's form."""
        if isinstance(self.example, Tensor) and not self.example.is_complex():
            return flat.reshape(flat.shape[0], *self.example.shape[1:])
        chunks = iter(flat.split([prod(_real_shape(tensor)) for tensor in leaves(self.example)], dim=1))
        return map_state(lambda template: _restored(template, next(chunks)), self.example)


def _restored(template: Tensor, flat: Tensor) -> Tensor:
    chunk = flat.reshape(flat.shape[0], *_real_shape(template))
    return torch.view_as_complex(chunk.contiguous()) if template.is_complex() else chunk


def _real_shape(tensor: Tensor) -> tuple[int, ...]:
    shape = tuple(tensor.shape[1:])
    return (*shape, 2) if tensor.is_complex() else shape


def _not_a_state(thing: object) -> TypeError:
    return TypeError(
        f"A state is a tensor or a (named) tuple of tensors, batch first, but a {type(thing).__name__} was given."
    )
