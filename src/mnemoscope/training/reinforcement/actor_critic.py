"""An actor-critic agent: a recurrent cell whose readout gives a policy and a value."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells import Cell, Model, scan
from mnemoscope.cells.state import State


class PolicyAndValue(NamedTuple):
    """Policy and value that an agent computes from its observations."""

    log_policy: Float[Tensor, "*sequence actions"]
    """Logarithms of the action probabilities."""
    values: Float[Tensor, " *sequence"]
    """Expected discounted sum of the future rewards."""


class ActorCritic(Model):
    """A model whose linear readout gives a score for each action, and a value.

    The scores start near 0, so that all actions are about equally likely at first. The caller passes the state in and
    receives the next one, and passes the initial state where an episode starts.

    Args:
        cell: the recurrent cell; its inputs are the outputs of `encode`.
        actions: number of actions.
        encode: module applied to observations (..., *observation); the identity by default.

    >>> from mnemoscope.cells import LSTM
    >>> from mnemoscope.training.reinforcement import GridEncoder
    >>> agent = ActorCritic(LSTM(64, 32), actions=7, encode=GridEncoder(64))
    >>> (log_policy, values), state = agent.run(torch.zeros(20, 5, 7, 7, 3, dtype=torch.uint8))
    >>> log_policy.shape, values.shape
    (torch.Size([20, 5, 7]), torch.Size([20, 5]))

    """

    def __init__(self, cell: Cell, actions: int, encode: nn.Module | None = None) -> None:
        if isinstance(actions, bool) or not isinstance(actions, int) or actions < 2:
            raise ValueError(f"An agent needs at least two actions to choose from, but actions is {actions!r}.")
        super().__init__(cell, actions + 1, encode)
        self.actions = actions
        with torch.no_grad():
            self.linear_readout.weight[:actions] *= 0.01
            self.linear_readout.bias.zero_()

    def run(
        self,
        observations: Tensor,
        state: State | None = None,
        mask: Bool[Tensor, "time batch"] | None = None,
    ) -> tuple[PolicyAndValue, State]:
        """Return policy and value for sequences of observations (time, batch, ...), and the last state."""
        return self.run_encoded(self.encode(observations), state, mask)

    def run_encoded(
        self,
        features: Float[Tensor, "time batch features"],
        state: State | None = None,
        mask: Bool[Tensor, "time batch"] | None = None,
    ) -> tuple[PolicyAndValue, State]:
        """Return what `run` returns, for observations that are encoded already."""
        outputs, state = scan(self.cell, features, state, mask=mask)
        return self._read(outputs), state

    def step(self, observations: Tensor, state: State) -> tuple[PolicyAndValue, State]:
        """Return policy and value for one observation each, (batch, ...), and the next state."""
        outputs, state = self.cell.step(self.encode(observations), state)
        return self._read(outputs), state

    def _read(self, outputs: Tensor) -> PolicyAndValue:
        scores, values = self.readout(outputs).split([self.actions, 1], dim=-1)
        return PolicyAndValue(scores.log_softmax(-1), values.squeeze(-1))
