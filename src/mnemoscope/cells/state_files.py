"""Save a state of a network to a file, and load it."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor

from mnemoscope.base.tensor_files import read_tensors, write_tensors
from mnemoscope.cells.adapters import Network, as_cell
from mnemoscope.cells.state import State, leaves, map_state


class _Header(TypedDict):
    state_of: str


def save_state(path: str | Path, network: Network, state: State) -> None:
    """Write a state of a network, each tensor (batch, ...), to a safetensors file; `load_state` reads it.

    >>> import tempfile, torch
    >>> network = torch.nn.LSTM(3, 8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_state(f"{folder}/state.safetensors", network, (torch.ones(5, 8), torch.zeros(5, 8)))
    ...     load_state(f"{folder}/state.safetensors", network).h.shape
    torch.Size([5, 8])
    """
    cell = as_cell(network, state)
    names = cell.state_names(cell.initial_state(1))
    given = leaves(state)
    if len(given) != len(names):
        raise ValueError(f"A state of this network has {', '.join(names)}, but {len(given)} tensors were given.")
    tensors = {name: _real(tensor) for name, tensor in zip(names, given, strict=True)}
    write_tensors(Path(path), tensors, {"state_of": type(cell).__name__})


def load_state(path: str | Path, network: Network) -> State:
    """Return the state in a file from `save_state`, in the form, dtype and place of the network's states.

    Args:
        path: the file.
        network: the network to which the state belongs, as in `scan`; it must have the same sizes as the one whose
            state was saved. A plain function must be adapted (`adapt`), so that the form of its state is known.

    """
    cell = as_cell(network)
    tensors, _ = read_tensors(Path(path), _Header)
    template = cell.initial_state(1)
    tensors = {name: _real(tensor) for name, tensor in tensors.items()}
    expected = {name: _real(tensor) for name, tensor in zip(cell.state_names(template), leaves(template), strict=True)}
    if tensors.keys() != expected.keys():
        raise ValueError(f"{path} has a state of {', '.join(tensors)}, but the network's is {', '.join(expected)}.")
    for name, tensor in tensors.items():
        if _sizes(tensor, cell.grows) != _sizes(expected[name], cell.grows):
            raise ValueError(
                f"{name!r} in {path} has the shape {tuple(tensor.shape)}, batch first, but a batch of one state of the "
                f"network {tuple(expected[name].shape)}."
            )
    if len({len(tensor) for tensor in tensors.values()}) != 1:
        raise ValueError(f"The tensors in {path} have several batch sizes.")
    names = iter(expected)
    return map_state(lambda like: _in_form(tensors[next(names)], like), template)


def _real(tensor: Tensor) -> Tensor:
    """Return a complex tensor as real and imaginary parts, since safetensors has no complex128."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _in_form(stored: Tensor, like: Tensor) -> Tensor:
    """Return a tensor from a file in the dtype and place of another."""
    return (torch.view_as_complex(stored) if like.is_complex() else stored).to(like)


def _sizes(tensor: Tensor, grows: bool) -> tuple[int, tuple[int, ...]]:
    """Return the number of dimensions, and the sizes that all states of a network share."""
    return tensor.dim(), tuple(tensor.shape[2 if grows else 1 :])
