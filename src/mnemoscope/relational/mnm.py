"""Metalearned neural memory (MNM): the memory is a small network, and writing changes its weights."""

from __future__ import annotations

from typing import NamedTuple, Unpack

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.lstm import LSTM, LSTMState
from mnemoscope.relational.network import FEATURES, EncodedObjects, Logits, ModelOptions, ProblemLike
from mnemoscope.relational.recurrent import Recurrent

DEPTH = 3
"""Layers of the memory."""
Vectors = Float[Tensor, "batch features"]
Weights = Float[Tensor, "batch layers features features"]
"""The memory: the weights of one network per problem."""


class NeuralMemoryState(NamedTuple):
    """State of a neural memory cell."""

    controller: LSTMState
    weights: Weights
    read: Vectors
    error: Float[Tensor, "batch 1"]
    """Mean squared error of recalling the written values, summed over steps."""


class NeuralMemory(Cell):
    """LSTM with a network of three layers as its memory, `f(k) = W_3 tanh(W_2 tanh(W_1 k))`.

    This is MNM-p (Munkhdalai et al. 2019, with the sizes of Webb et al. 2021). The LSTM sees the input and the previous
    read. From h it computes a key and a value to write and a key to read, each through a tanh, and a rate beta between
    0 and 1. To write, each layer receives a target t_l that is linear in the value and learns it locally:
    `W_l <- W_l - beta (2 / d) (a_l - t_l) a_{l-1}^T`, where a_l is the output of layer l for the key. Then `f(key)` is
    read. The initial weights of the memory are random and not learned. All weights are initialised as in torch.
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
        zeros = self.weights.new_zeros(batch, self.weights.shape[-1])
        weights = self.weights.expand(batch, *self.weights.shape)
        return NeuralMemoryState(self.controller.initial_state(batch), weights, zeros, zeros[:, :1])

    def output(self, state: NeuralMemoryState) -> Vectors:
        return self.out(torch.cat([state.controller.h, state.read], dim=1))

    def forward(self, x: Vectors, state: NeuralMemoryState) -> NeuralMemoryState:
        controller = self.controller(torch.cat([x, state.read], dim=1), state.controller)
        rate, write, value, read = torch.tanh(self.orders(controller.h)).chunk(4, dim=1)
        weights = self.updated(state.weights, write, value, torch.sigmoid(self.rate(rate)))
        error = (layer_outputs(weights, write)[-1] - value).square().mean(1, keepdim=True)
        return NeuralMemoryState(controller, weights, layer_outputs(weights, read)[-1], state.error + error)

    def updated(self, weights: Weights, key: Vectors, value: Vectors, rate: Float[Tensor, "batch 1"]) -> Weights:
        """Return the weights of the memory after it has learned the value for the key."""
        activations = layer_outputs(weights, key)
        outputs = torch.stack(activations, 1)  # (batch, layers, features)
        inputs = torch.stack([key, *activations[:-1]], 1)
        error = outputs - self.targets(value).view_as(outputs)
        step = rate.unsqueeze(2) * (2 / error.shape[2])
        return weights - (step * error).unsqueeze(3) * inputs.unsqueeze(2)


def layer_outputs(weights: Weights, key: Vectors) -> list[Vectors]:
    """Return the output of each layer of the memory for a key."""
    outputs, layers = [], weights.unbind(1)
    for depth, W in enumerate(layers):
        a = (W @ (outputs[-1] if outputs else key).unsqueeze(2)).squeeze(2)
        outputs.append(a if depth == len(layers) - 1 else torch.tanh(a))
    return outputs


class MNM(Recurrent):
    """Neural memory that reads the objects and answers after an extra step with zero input.

    Its penalty, which is added to the loss, is the error of recalling what it wrote: the mean squared errors of the
    steps, summed and divided by the number of objects.
    """

    after = 1

    def __init__(self, problem: ProblemLike, **options: Unpack[ModelOptions]) -> None:
        super().__init__(problem, NeuralMemory(FEATURES), **options)
        self.out.reset_parameters()  # the initial weights of torch
        self._error: Tensor | None = None

    def answer(self, encoded: EncodedObjects) -> Logits:
        output, state = self.read(encoded)
        if self.training:
            self._error = state.error.mean() / self.objects
        return self.out(output)

    def penalty(self) -> Float[Tensor, ""] | None:
        """Return the recall error of the last pass in training mode, or None if there was none since the last call."""
        error, self._error = self._error, None
        return error
