"""The part of a state on which an intervention acts, as flat vectors that can be read and written."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, State
from mnemoscope.cells.pretrained.module_cell import ModuleCell
from mnemoscope.cells.state import leaves, map_state


@dataclass(frozen=True)
class StatePart:
    """Some tensors of a state, joined to a flat vector of float64 in which complex numbers take two places."""

    chosen: tuple[bool, ...]
    """Whether each tensor of the state, in order, belongs to the part."""

    @classmethod
    def named(cls, cell: Cell, state: State, name: str | None) -> StatePart:
        """Return the tensor of this name, or all tensors that later steps read."""
        names = cell.state_names(state)
        if name is not None and name not in names:
            raise ValueError(f"The state has {', '.join(names)}, but no {name!r}.")
        if name is not None:
            return cls(tuple(each == name for each in names))
        unread = "output" if isinstance(cell, ModuleCell) else None  # kept in the state, but no step reads it
        numbers = (tensor.is_floating_point() or tensor.is_complex() for tensor in leaves(state))
        return cls(tuple(each != unread and number for each, number in zip(names, numbers, strict=True)))

    def read(self, state: State) -> Float[Tensor, "batch size"]:
        """Return the part as flat vectors."""
        return torch.cat([_flat(tensor) for tensor in self._chosen(state)], dim=1)

    def changed(self, state: State, changes: Float[Tensor, "batch size"]) -> State:
        """Return the state with changes added to the part."""
        sizes = [_flat(tensor).shape[1] for tensor in self._chosen(state)]
        parts, chosen = iter(changes.split(sizes, dim=1)), iter(self.chosen)
        return map_state(lambda tensor: _added(tensor, next(parts)) if next(chosen) else tensor, state)

    def _chosen(self, state: State) -> list[Tensor]:
        return [tensor for tensor, chosen in zip(leaves(state), self.chosen, strict=True) if chosen]


def select(state: State, rows: Tensor) -> State:
    """Return the state of some members of a batch."""
    return map_state(lambda tensor: tensor[rows.to(tensor.device)], state)


def _flat(tensor: Tensor) -> Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.reshape(len(real), prod(real.shape[1:])).double()


def _added(tensor: Tensor, change: Tensor) -> Tensor:
    if tensor.is_complex():
        shaped = change.reshape(*tensor.shape, 2).contiguous()
        return (tensor + torch.view_as_complex(shaped)).to(tensor.dtype)
    return (tensor + change.reshape(tensor.shape)).to(tensor.dtype)
