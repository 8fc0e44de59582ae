"""Bring your own network: torch.nn modules and plain functions as cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell
from mnemoscope.cells.from_torch import TORCH_NETWORKS, cell_from_torch
from mnemoscope.cells.state import State


def adapt(
    network: nn.Module | Callable[[Tensor, Any], Any],
    *,
    state_size: int | tuple[int, ...] | None = None,
    input_size: int | None = None,
    bounds: tuple[float, float] | None = None,
) -> Cell:
    """Return a `Cell` that computes the steps of any recurrent network and shares its parameters.

    The cell computes what the network computes in evaluation mode: dropout between layers is not applied. Weights that
    are computed from others (torch.nn.utils.parametrize, parametrizations, prune) are recomputed for every sequence.

    Args:
        network: torch.nn.RNN, GRU or LSTM (any number of layers, one direction), their Cell forms, a `Cell`, or any
            function or module `(x, state) -> state` that treats the members of a batch independently.
        state_size: number of state features of a function; a tuple if its state is a tuple of tensors.
        input_size: number of input features of a function; None if it accepts any number.
        bounds: (low, high), if a function is known to map states between these bounds into themselves.

    >>> adapt(torch.nn.GRU(3, 16, num_layers=2)).initial_state(1)[1].shape
    torch.Size([1, 16])
    >>> adapt(lambda x, h: torch.tanh(2 * h + x), state_size=3)(torch.zeros(1, 1), torch.ones(1, 3)).shape
    torch.Size([1, 3])

    """
    if isinstance(network, (*TORCH_NETWORKS, Cell)):
        if state_size is not None or input_size is not None or bounds is not None:
            raise ValueError(
                f"state_size, input_size and bounds describe a function; omit them for a {type(network).__name__}."
            )
        return network if isinstance(network, Cell) else cell_from_torch(network)
    if not callable(network):
        raise TypeError(
            f"adapt takes torch.nn.RNN, GRU, LSTM, their Cell forms, or a function (x, state) -> state, "
            f"but got a {type(network).__name__}."
        )
    if state_size is None:
        raise ValueError("Pass state_size=...: the number of features of the state cannot be read off a function.")
    return FunctionCell(network, state_size, input_size, bounds)


class FunctionCell(Cell):
    """A function `(x, state) -> state` as a cell."""

    def __init__(
        self,
        function: Callable[[Tensor, Any], Any],
        state_size: int | tuple[int, ...],
        input_size: int | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        super().__init__()
        sizes = (state_size,) if isinstance(state_size, int) else state_size
        if not sizes or min(sizes) < 1:
            raise ValueError(f"state_size must be positive, but is {state_size}.")
        if bounds is not None and not bounds[0] < bounds[1]:
            raise ValueError(f"bounds must be (low, high) with low < high, but are {bounds}.")
        self.function = function  # a module is registered as a submodule, so that frozen() copies its weights
        self.state_size = state_size
        self.input_size = input_size
        self.box = bounds
        self.register_buffer("_like", torch.zeros(()), persistent=False)  # holds dtype and device

    def initial_state(self, batch: int) -> State:
        like: Tensor = self.get_buffer("_like")
        if isinstance(self.state_size, int):
            return like.new_zeros(batch, self.state_size)
        return tuple(like.new_zeros(batch, size) for size in self.state_size)

    def forward(self, x: Float[Tensor, "batch ..."], state: State) -> State:
        return self.function(x, state)

    def output(self, state: State) -> Float[Tensor, "batch features"]:
        return state if isinstance(state, Tensor) else state[0]

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        if self.box is None:
            return None
        size = self.state_size if isinstance(self.state_size, int) else sum(self.state_size)
        one = self.get_buffer("_like").new_ones(size)
        return self.box[0] * one, self.box[1] * one
