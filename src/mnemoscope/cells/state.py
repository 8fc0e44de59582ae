"""States: a tensor, or a (named) tuple or dict of states, batch first."""

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
"""A tensor, or a tuple or dict of states. Python has no type for a NamedTuple of these that keeps its fields."""


def leaves(state: State) -> list[Tensor]:
    """Return the tensors of a state, in order."""
    return [tensor for _, tensor in named_leaves(state)]


def named_leaves(state: State, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield names and tensors of a state: `h` and `c` for an LSTM, `0.h`, `1.h` for a stack, `state` for a tensor.

    The entries of a dict come in the order of their names, whatever the order in which it was written.
    """
    if isinstance(state, Tensor):
        yield name or "state", state
        return
    for field, part in _parts(state).items():
        yield from named_leaves(part, f"{name}.{field}" if name else field)


def map_state(function: Callable[..., Any], *states: State) -> State:
    """Apply `function` to the corresponding tensors of one or several states; keeps the types of the first."""
    first = states[0]
    if isinstance(first, Tensor):
        return function(*states)
    columns = states if isinstance(first, tuple) else [_parts(state).values() for state in states]
    return _assembled(first, [map_state(function, *items) for items in zip(*columns, strict=True)])


def restore_form(state: Any, like: State, name: str = "") -> State:
    """Return `state` with the types of `like`, such as a tuple as a NamedTuple; raise unless all shapes agree."""
    expected = "a state" if not name else f"{name!r}"
    if isinstance(like, Tensor):
        if not isinstance(state, Tensor):
            raise ValueError(f"returned a {type(state).__name__} for {expected} that is one tensor")
        if state.shape != like.shape:
            raise ValueError(f"returned {expected} of {tuple(state.shape)} for one of {tuple(like.shape)}")
        return state
    wanted = _parts(like)
    given = _parts(tuple(state) if isinstance(state, list) else state) if not isinstance(state, Tensor) else {}
    if len(given) != len(wanted) or (isinstance(like, dict) and given.keys() != wanted.keys()):
        raise ValueError(
            f"returned {'a tensor' if isinstance(state, Tensor) else ', '.join(given) or 'nothing'} for {expected} of "
            f"{', '.join(wanted)}"
        )
    inner = zip(given.values(), wanted.items(), strict=True)
    return _assembled(like, [restore_form(part, old, f"{name}.{key}" if name else key) for part, (key, old) in inner])


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


def _parts(state: State) -> dict[str, State]:
    """Return the parts of a (named) tuple or a dict by name."""
    if isinstance(state, tuple):
        names = getattr(state, "_fields", range(len(state)))
        return {str(name): part for name, part in zip(names, state, strict=True)}
    if isinstance(state, dict):
        return {str(name): state[name] for name in sorted(state, key=str)}
    raise TypeError(
        f"A state is a tensor, or a (named) tuple or a dict of tensors, batch first, but a {type(state).__name__} was "
        f"given."
    )


def _assembled(like: State, parts: list[State]) -> State:
    """Return a (named) tuple or a dict of the form of `like`, with these parts in the order of `_parts`."""
    if isinstance(like, dict):
        return dict(zip(sorted(like, key=str), parts, strict=True))
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
