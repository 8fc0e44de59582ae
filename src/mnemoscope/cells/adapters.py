"""Bring your own network: torch.nn modules and plain functions as cells."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell
from mnemoscope.cells.from_torch import TORCH_NETWORKS, cell_from_torch
from mnemoscope.cells.pretrained.detection import cell_from_library, library_of
from mnemoscope.cells.state import Layout, State, leaves, map_state, named_leaves, restore_form

Network = nn.Module | Callable[[Tensor, Any], Any]
"""A `Cell`, a recurrent module of torch.nn or of a known library, or any function or module `(x, state) -> state`."""


def adapt(
    network: Network,
    *,
    state: State | None = None,
    output: Callable[[Any], Tensor] | None = None,
    state_size: int | tuple[int, ...] | None = None,
    input_size: int | None = None,
    bounds: tuple[float, float] | None = None,
) -> Cell:
    """Return a `Cell` that computes the steps of any recurrent network and shares its parameters.

    The cell computes what the network computes in evaluation mode: dropout between layers is not applied. Weights that
    are computed from others (torch.nn.utils.parametrize, parametrizations, prune) are recomputed for every sequence.
    It takes sequences in the layout of the network: (batch, time, features) if a torch.nn module has `batch_first`.

    Args:
        network: torch.nn.RNN, GRU or LSTM (any number of layers, one direction), their Cell forms, a `Cell`, a model or
            mixer of transformers, mambapy, minGRU-pytorch or xlstm (docs/adapters.md lists them), or any function or
            module `(x, state) -> state` that treats the members of a batch independently.
        state: for a function or a module of your own: its state before the first input, as a batch of one. It may be a
            tensor (1, ...) of any shape, or a (named) tuple or a dict of such states.
        output: a function from a state to the features (batch, features) that a readout sees. By default the state,
            flat, if it is one tensor, and the first tensor if `state_size` is a tuple.
        state_size: instead of `state`, where it begins at 0: its number of features; a tuple if the state is a tuple
            of tensors.
        input_size: number of input features of a function; None if it accepts any number.
        bounds: (low, high), if a function is known to map states between these bounds into themselves.

    >>> adapt(torch.nn.GRU(3, 16, num_layers=2)).initial_state(1)[1].shape
    torch.Size([1, 16])
    >>> adapt(lambda x, h: torch.tanh(2 * h + x), state_size=3)(torch.zeros(1, 1), torch.ones(1, 3)).shape
    torch.Size([1, 3])

    A network with a vector h and a matrix M that accumulates outer products:

    >>> def step(x, state):
    ...     h = torch.tanh(x + (state["M"] @ state["h"].unsqueeze(-1)).squeeze(-1))
    ...     return {"h": h, "M": 0.9 * state["M"] + 0.1 * h.unsqueeze(-1) * h.unsqueeze(-2)}
    >>> start = {"h": torch.zeros(1, 4), "M": torch.zeros(1, 4, 4)}
    >>> cell = adapt(step, state=start, output=lambda state: state["h"], input_size=4)
    >>> cell.output(cell.initial_state(5)).shape
    torch.Size([5, 4])

    """
    if isinstance(network, (*TORCH_NETWORKS, Cell)):
        given = (state, output, state_size, input_size, bounds)
        if any(option is not None for option in given):
            raise ValueError(
                f"state, output, state_size, input_size and bounds describe a function; omit them for a "
                f"{type(network).__name__}."
            )
        return network if isinstance(network, Cell) else cell_from_torch(network)
    if not callable(network):
        raise TypeError(
            f"A network is a torch.nn.RNN, GRU or LSTM, one of their Cell forms, a mnemoscope cell, or a function "
            f"(x, state) -> state, but got a {type(network).__name__}."
        )
    if state is None and state_size is None:
        if isinstance(network, nn.Module) and library_of(network):
            return cell_from_library(network)
        raise _state_needed(network)
    if state is not None and state_size is not None:
        raise ValueError("Pass either state or state_size, not both.")
    return FunctionCell(network, state_size, input_size, bounds, state=state, output=output)


def as_cell(network: Network, state: State | None = None) -> Cell:
    """Return any network as a cell; every public function calls this on the network that it is given.

    A function that was not adapted takes the form of its state from `state`, where one is known, and begins at 0.
    """
    known = isinstance(network, (*TORCH_NETWORKS, Cell)) or library_of(network) or not callable(network)
    if known or state is None or _recurrent_parts(network):
        return adapt(network)
    return adapt(network, state=map_state(lambda tensor: torch.zeros_like(tensor[:1]), state))


class FunctionCell(Cell):
    """A function `(x, state) -> state` as a cell; `adapt` describes its options."""

    takes_integers = True

    def __init__(
        self,
        function: Callable[[Tensor, Any], Any],
        state_size: int | tuple[int, ...] | None = None,
        input_size: int | None = None,
        bounds: tuple[float, float] | None = None,
        *,
        state: State | None = None,
        output: Callable[[Any], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if bounds is not None and not bounds[0] < bounds[1]:
            raise ValueError(f"bounds must be (low, high) with low < high, but are {bounds}.")
        self.function = function  # a module is registered as a submodule, so that frozen() copies its weights
        self.read = output
        self.input_size = input_size
        self.box = bounds
        self.first_is_output = state is None
        self.start = _zeros(state_size) if state is None else _checked_start(state)
        weight = next((tensor for tensor in self._weights() if tensor.is_floating_point()), leaves(self.start)[0])
        like = torch.zeros((), dtype=weight.dtype.to_real(), device=weight.device)
        self.register_buffer("_like", like, persistent=False)  # holds dtype and device

    @property
    def has_weights(self) -> bool:
        """Whether the function is a module with weights; otherwise it computes where its inputs are."""
        return next(self._weights(), None) is not None

    @property
    def follows_inputs(self) -> bool:
        return not self.has_weights and self.first_is_output

    def initial_state(self, batch: int) -> State:
        return map_state(lambda tensor: tensor.expand(batch, *tensor.shape[1:]).clone(), self._moved_start())

    def forward(self, x: Float[Tensor, "batch ..."], state: State) -> State:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        try:
            new = self.function(x, state)
        except RuntimeError as error:
            if not any(words in str(error) for words in ("dtype", "scalar type", "Input type")):
                raise
            raise ValueError(
                f"{name} does not compute with inputs of {x.dtype} and a state of {leaves(state)[0].dtype}: {error}. "
                f"Give its tensors the dtype of the inputs, or the inputs that of its tensors."
            ) from error
        try:
            return restore_form(new, state)
        except ValueError as error:
            raise ValueError(
                f"{name} {error}; a step must keep the shape of its state. If it returns (output, state), adapt a "
                f"module whose forward returns the state alone, and pass output=... for the output."
            ) from error

    def output(self, state: State) -> Float[Tensor, "batch features"]:
        if self.read is None:
            return self._only_tensor(state).flatten(1)
        features, batch = self.read(state), leaves(state)[0].shape[0]
        if not isinstance(features, Tensor) or features.dim() != 2 or features.shape[0] != batch:
            returned = tuple(features.shape) if isinstance(features, Tensor) else f"a {type(features).__name__}"
            raise ValueError(f"output must return features of shape ({batch}, features), but returned {returned}.")
        return features

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        if self.box is None:
            return None
        one = self.get_buffer("_like").new_ones(Layout(self.start).size)
        return self.box[0] * one, self.box[1] * one

    def _only_tensor(self, state: State) -> Tensor:
        tensors = dict(named_leaves(state))
        if len(tensors) > 1 and not self.first_is_output:
            raise ValueError(
                f"The state has several tensors ({', '.join(tensors)}), and which of them is the output is not known: "
                f"pass ms.adapt(..., output=lambda state: ...), a function that returns the output (batch, features)."
            )
        return next(iter(tensors.values()))

    def _moved_start(self) -> State:
        like = self.get_buffer("_like")
        return map_state(
            lambda tensor: tensor.to(like.device, like.dtype.to_complex() if tensor.is_complex() else like.dtype),
            self.start,
        )

    def _weights(self) -> Any:
        modules = [part for part in (self.function, self.read) if isinstance(part, nn.Module)]
        return chain.from_iterable(chain(module.parameters(), module.buffers()) for module in modules)


def _zeros(state_size: int | tuple[int, ...] | None) -> State:
    sizes = (state_size,) if isinstance(state_size, int) else state_size or ()
    if not sizes or min(sizes) < 1:
        raise ValueError(f"state_size must be positive, but is {state_size}.")
    return torch.zeros(1, sizes[0]) if isinstance(state_size, int) else tuple(torch.zeros(1, size) for size in sizes)


def _checked_start(state: State) -> State:
    for name, tensor in named_leaves(state):
        shape = tuple(tensor.shape)
        if not (tensor.is_floating_point() or tensor.is_complex()):
            raise ValueError(f"A state consists of real or complex numbers, but {name!r} is of {tensor.dtype}.")
        if tensor.dim() == 0 or shape[0] != 1 or 0 in shape:
            batch = "" if tensor.dim() < 2 else f", or [:1] if it is a batch of {shape[0]}"
            raise ValueError(
                f"state must be a batch of one state, each tensor of shape (1, ...), but {name!r} has shape {shape}: "
                f"pass it with [None] if a state has shape {shape}{batch}."
            )
    if not leaves(state):
        raise ValueError("state must have at least one tensor, but has none.")
    return map_state(lambda tensor: tensor.detach().clone(), state)


def _recurrent_parts(network: Any) -> list[tuple[str, nn.Module]]:
    """Return names and recurrent networks inside a module."""
    modules = network.named_modules() if isinstance(network, nn.Module) else []
    return [(name, part) for name, part in modules if name and isinstance(part, (*TORCH_NETWORKS, Cell))]


def _state_needed(network: Any) -> Exception:
    remedy = (
        "ms.adapt(network, state=...) with the state before the first input as a batch of one, or "
        "ms.adapt(network, state_size=...) with its number of features"
    )
    if not isinstance(network, nn.Module):
        return ValueError(f"The form of the state cannot be read off a function: pass {remedy}.")
    parts = [
        f"pass the cell itself, network.{name} ({type(part).__name__})" for name, part in _recurrent_parts(network)
    ]
    return TypeError(
        f"A {type(network).__name__} is not known to be a recurrent network: "
        f"{parts[0] if parts else 'if it contains one, pass the cell itself'}. If it is a step (x, state) -> state, "
        f"pass {remedy}."
    )
