"""The recurrent modules of torch.nn as cells."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.elman import Elman
from mnemoscope.cells.gru import GRU
from mnemoscope.cells.lstm import LSTM, LSTMState
from mnemoscope.cells.nonlinearities import make_nonlinearity
from mnemoscope.cells.stack import Stack
from mnemoscope.cells.state import State
from mnemoscope.connectivity import Dense

TORCH_NETWORKS = (nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.LSTMCell)
"""The modules of torch.nn that `cell_from_torch` takes."""
_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
_HOOKS = (BasePruningMethod, SpectralNorm, WeightNorm)


def cell_from_torch(network: nn.Module) -> Cell:
    """Return a cell that shares its parameters with one of `TORCH_NETWORKS`."""
    if isinstance(network, nn.RNNBase) and network.bidirectional:
        raise ValueError(
            "A bidirectional network reads the sequence from both ends and so is not a map from state to state; "
            "adapt a network of one direction."
        )
    names = [f"{name}{suffix}" for suffix in _suffixes(network) for name in _WEIGHTS]
    with evaluating(network):
        computed = any(hasattr(network, name) and name not in network._parameters for name in names)
    cell = ComputedWeights(network) if computed else _snapshot(network)
    cell.batch_first = bool(getattr(network, "batch_first", False))
    return cell


class ComputedWeights(Cell):
    """A torch.nn network whose weights are computed from other parameters, as after parametrisation or pruning.

    The weights are read from the network once per sequence (or single step), so that gradients reach the underlying
    parameters, and later changes of the network take effect.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.input_size = int(getattr(network, "input_size"))  # noqa: B009 (all of TORCH_NETWORKS have it)

    def initial_state(self, batch: int) -> State:
        like = next(self.network.parameters())
        size = int(getattr(self.network, "hidden_size"))  # noqa: B009

        def layer() -> State:
            state = like.new_zeros(batch, size)
            if not isinstance(self.network, nn.LSTM | nn.LSTMCell):
                return state
            return LSTMState(like.new_zeros(batch, getattr(self.network, "proj_size", 0) or size), state)

        layers = tuple(layer() for _ in _suffixes(self.network))
        return layers[0] if len(layers) == 1 else layers

    def state_names(self, state: State) -> list[str]:
        return _snapshot(self.network).state_names(state)

    def output(self, state: State) -> Float[Tensor, "batch features"]:
        last = state if isinstance(state, Tensor | LSTMState) else state[-1]
        return last.h if isinstance(last, LSTMState) else last

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        return _snapshot(self.network).prepare(xs)

    def forward(self, x: Float[Tensor, "batch features"], state: State) -> State:
        return _snapshot(self.network)(x, state)

    def jacobian(self, x: Tensor, state: State) -> Tensor | None:
        with evaluating(self.network):
            return _snapshot(self.network).jacobian(x, state)

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        with evaluating(self.network):
            return _snapshot(self.network).bounds(low, high)

    def intermediates(self, x: Tensor, state: State) -> dict[str, Tensor]:
        with evaluating(self.network):
            return _snapshot(self.network).intermediates(x, state)

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Cell:
        """Return a constant copy, as every cell does; the weights are computed here, once."""
        with evaluating(self.network), torch.no_grad():
            cell = _snapshot(self.network).frozen(dtype, device)
        cell.batch_first = self.batch_first
        return cell


@contextmanager
def evaluating(network: nn.Module) -> Generator[None]:
    """Switch to evaluation mode: without dropout, and reading a spectrally normalised weight does not change it."""
    training = [module for module in network.modules() if module.training]
    network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _suffixes(network: nn.Module) -> list[str]:
    """Return the suffix of the weights' names for each layer."""
    return [f"_l{depth}" for depth in range(network.num_layers)] if isinstance(network, nn.RNNBase) else [""]


def _snapshot(network: nn.Module) -> Cell:
    """Return a cell with the network's current weights: parameters are shared, computed weights become buffers."""
    layers = [_layer(network, suffix) for suffix in _suffixes(network)]
    return layers[0] if len(layers) == 1 else Stack(layers)


def _layer(network: nn.Module, suffix: str) -> Cell:
    weights = {name: _read(network, f"{name}{suffix}") for name in _WEIGHTS}
    weight_ih, weight_hh = weights["weight_ih"], weights["weight_hh"]
    assert weight_ih is not None
    assert weight_hh is not None
    inputs, size = weight_ih.shape[1], int(getattr(network, "hidden_size"))  # noqa: B009
    if isinstance(network, nn.RNN | nn.RNNCell):
        drive = _TwoBiases()
        _hold(drive, weight=weight_ih, bias_ih=weights["bias_ih"], bias_hh=weights["bias_hh"])
        with torch.device("meta"):  # draws no random numbers for weights that are replaced below
            dense = Dense(size)
        _hold(dense, matrix=weight_hh)
        return Elman.from_parts(drive, dense, make_nonlinearity(network.nonlinearity, size), inputs, size)
    with torch.device("meta"):
        cell = GRU(inputs, size) if isinstance(network, nn.GRU | nn.GRUCell) else LSTM(inputs, size)
    _hold(cell, **{name: weight for name, weight in weights.items() if hasattr(cell, name)})
    return cell


def _read(network: nn.Module, name: str) -> Tensor | None:
    for hook in network._forward_pre_hooks.values():  # pruning and torch's older norms compute a weight in a hook
        if isinstance(hook, _HOOKS) and name in (getattr(hook, "_tensor_name", None), getattr(hook, "name", None)):
            hook(network, ())
    return getattr(network, name, None)


def _hold(module: nn.Module, **weights: Tensor | None) -> None:
    for name, weight in weights.items():
        if weight is None or isinstance(weight, nn.Parameter):
            module.register_parameter(name, weight)
        else:
            module._parameters.pop(name, None)
            module.register_buffer(name, weight)


class _TwoBiases(nn.Module):
    """The input projection of torch.nn.RNN, which has two biases."""

    weight: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias_ih is None or self.bias_hh is None else self.bias_ih + self.bias_hh
        return linear(x, self.weight, bias)
