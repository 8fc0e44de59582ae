"""Metalearned neural memory: a memory that is a small network, written by changing its weights."""

from __future__ import annotations

from typing import NamedTuple, Unpack

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.lstm import LSTM, LSTMState
from mnemoscope.relational.network import FEATURES, Options, Seen, Sized
from mnemoscope.relational.recurrent import Recurrent

DEPTH = 3
"""Layers of the memory."""


class NeuralMemoryState(NamedTuple):
    """Of the controller, and of the memory."""

    controller: LSTMState
    weights: Float[Tensor, "batch layers features features"]
    """The memory: a network for each problem."""
    read: Float[Tensor, "batch features"]
    error: Float[Tensor, "batch 1"]
    """Mean squared error of what was written, summed over steps."""


class NeuralMemory(Cell):
    """MNM-p (Munkhdalai et al. 2019, with the sizes of Webb et al. 2021): an LSTM whose memory is a network of three
    layers, `f(k) = W_3 tanh(W_2 tanh(W_1 k))`.

    The LSTM sees the input and what was read a step ago. By h it sets a key and a value to write, a key to read, all
    tanh, and a rate beta between 0 and 1. To write, targets t_1, t_2, t_3 linear in the value are set for the layers,
    and each learns its own by itself: `W_l <- W_l - beta (2 / d) (a_l - t_l) a_{l-1}^T`, where a are what the layers
    make of the key. Then `f(key)` is read. The first weights of the memory are drawn once and not learned; all are
    drawn as torch does.
    """

    weights: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.input_size = features
        self.controller = LSTM(2 * features, features)
        self.orders = nn.Linear(features, 4 * features)
        self.rate = nn.Linear(features, 1)
        self.targets = nn.Linear(features, DEPTH * features)
        self.out = nn.Linear(2 * features, features)
        bound = features**-0.5
        self.register_buffer("weights", torch.empty(DEPTH, features, features).uniform_(-bound, bound))

    def initial_state(self, batch: int) -> NeuralMemoryState:
        nothing = self.weights.new_zeros(batch, self.weights.shape[-1])
        weights = self.weights.expand(batch, *self.weights.shape)
        return NeuralMemoryState(self.controller.initial_state(batch), weights, nothing, nothing[:, :1])

    def output(self, state: NeuralMemoryState) -> Float[Tensor, "batch features"]:
        return self.out(torch.cat([state.controller.h, state.read], dim=1))

    def forward(self, x: Float[Tensor, "batch features"], state: NeuralMemoryState) -> NeuralMemoryState:
        controller = self.controller(torch.cat([x, state.read], dim=1), state.controller)
        rate, write, value, read = torch.tanh(self.orders(controller.h)).chunk(4, dim=1)
        weights = self.written(state.weights, write, value, torch.sigmoid(self.rate(rate)))
        error = (recalled(weights, write)[-1] - value).square().mean(1, keepdim=True)
        return NeuralMemoryState(controller, weights, recalled(weights, read)[-1], state.error + error)

    def written(
        self,
        weights: Float[Tensor, "batch layers features features"],
        key: Float[Tensor, "batch features"],
        value: Float[Tensor, "batch features"],
        rate: Float[Tensor, "batch 1"],
    ) -> Float[Tensor, "batch layers features features"]:
        """The memory after it learned to say the value to the key."""
        seen = recalled(weights, key)
        said = torch.stack(seen, 1)  # (batch, layers, features)
        heard = torch.stack([key, *seen[:-1]], 1)
        wrong = said - self.targets(value).view_as(said)
        step = rate.unsqueeze(2) * (2 / wrong.shape[2])
        return weights - (step * wrong).unsqueeze(3) * heard.unsqueeze(2)


def recalled(
    weights: Float[Tensor, "batch layers features features"], key: Float[Tensor, "batch features"]
) -> list[Tensor]:
    """What each layer of the memory makes of a key."""
    made, layers = [], weights.unbind(1)
    for depth, W in enumerate(layers):
        a = (W @ (made[-1] if made else key).unsqueeze(2)).squeeze(2)
        made.append(a if depth == len(layers) - 1 else torch.tanh(a))
    return made


class MNM(Recurrent):
    """A neural memory reads the objects and, at one more step, nothing; its output then answers.

    How badly it recalls what it wrote is its penalty, beside the loss: the mean squared error of each step, summed, and
    divided by the number of objects.
    """

    after = 1

    def __init__(self, problem: Sized, **options: Unpack[Options]) -> None:
        super().__init__(problem, NeuralMemory(FEATURES), **options)
        self.out.reset_parameters()  # as torch draws them
        self._error: Tensor | None = None

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        output, state = self.read(seen)
        if self.training:
            self._error = state.error.mean() / self.objects
        return self.out(output)

    def penalty(self) -> Float[Tensor, ""] | None:
        """The error of what was written in the last pass in training mode since the penalty was asked for; None where
        there was none.
        """
        error, self._error = self._error, None
        return error
