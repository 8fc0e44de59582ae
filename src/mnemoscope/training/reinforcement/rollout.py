"""Rollouts of an agent, and the sequences into which they are cut for training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells.state import State
from mnemoscope.training.reinforcement.actor_critic import ActorCritic
from mnemoscope.training.reinforcement.environments import Environments
from mnemoscope.training.reinforcement.episode_states import reset_states, select_states
from mnemoscope.training.reinforcement.grid.rooms import GridRooms
from mnemoscope.training.reinforcement.parallel_environments import ParallelEnvironments
from mnemoscope.training.result import NonFiniteLoss

AnyEnvironments = Environments | ParallelEnvironments | GridRooms
"""Environments in this process, in several, or as tensors."""


class Rollout(NamedTuple):
    """Equally many steps in every environment; episodes may start and end within."""

    observations: Tensor
    """(time, batch, ...)."""
    actions: Int[Tensor, "time batch"]
    log_probabilities: Float[Tensor, "time batch"]
    """Log-probabilities of these actions when they were taken."""
    values: Float[Tensor, "time batch"]
    rewards: Float[Tensor, "time batch"]
    started: Bool[Tensor, "time batch"]
    """Whether an observation is the first of an episode."""
    ended: Bool[Tensor, "time batch"]
    """Whether an action was the last of an episode."""
    first: State
    """State before the first observation; the initial state where an episode starts with it."""
    last_values: Float[Tensor, " batch"]
    """Values after the last step."""


@torch.no_grad()
def collect_rollout(
    agent: ActorCritic, environments: AnyEnvironments, state: State | None, length: int
) -> tuple[Rollout, State]:
    """Act for `length` steps in all environments, and return the rollout and the state after it.

    Args:
        agent: the agent.
        environments: advanced in place.
        state: the state that the previous call returned; None for the first call.
        length: number of steps. Actions are drawn from torch's global generator.

    """
    device = next(agent.parameters()).device
    state = agent.cell.initial_state(len(environments)) if state is None else state
    first, steps = None, []
    for _ in range(length):
        started, observations = environments.started, environments.observations
        state = reset_states(agent.cell, state, started)
        first = state if first is None else first
        ((log_policy,), (values,)), state = agent.run(observations.to(device).unsqueeze(0), state)  # fused, if possible
        actions = _sample_actions(log_policy)
        log_probabilities = log_policy.gather(1, actions.unsqueeze(1)).squeeze(1)
        outcome = environments.step(actions.to(started.device))
        steps.append((observations, actions, log_probabilities, values, outcome.rewards, started, outcome.ended))
    ahead = reset_states(agent.cell, state, environments.started)
    last_values = agent.step(environments.observations.to(device), ahead)[0].values
    rollout = Rollout(
        *(torch.stack(column).to(device) for column in zip(*steps, strict=True)), first=first, last_values=last_values
    )
    if not bool(rollout.log_probabilities.isfinite().all()):  # after all steps: the CPU waits for a GPU once
        raise NonFiniteLoss(
            "The agent's policy is no longer finite; lower learning_rate or clip_norm, or change the initial weights."
        )
    return rollout, state


def _sample_actions(log_policy: Float[Tensor, "batch actions"]) -> Int[Tensor, " batch"]:
    """Return actions; all are equally likely if a policy is not finite, for which `multinomial` would raise."""
    finite = torch.isfinite(log_policy).all()
    return torch.multinomial(torch.where(finite, log_policy.exp(), 1.0), 1).squeeze(1)


class Sequences(NamedTuple):
    """Pieces of a rollout that belong to one episode each; tensors on the CPU."""

    member: Int[Tensor, " sequences"]
    """Environment of each sequence."""
    begin: Int[Tensor, " sequences"]
    """First step of each sequence in the rollout."""
    length: Int[Tensor, " sequences"]
    """Steps of each sequence."""

    def padded_times(
        self, which: Int[Tensor, " chosen"]
    ) -> tuple[Int[Tensor, "time chosen"], Bool[Tensor, "time chosen"]]:
        """Return the steps of these sequences, padded with their last step to equal length, and a mask of real ones."""
        count = torch.arange(int(self.length[which].max()), device=which.device).unsqueeze(1)
        length = self.length[which]
        return self.begin[which] + torch.minimum(count, length - 1), count < length

    def minibatches(self, number: int) -> Iterator[Int[Tensor, " chosen"]]:
        """Yield the sequences in random order, in `number` parts of about equal steps; fewer parts if there are few."""
        order = torch.randperm(len(self.length)).to(self.length.device)
        middle = self.length[order].cumsum(0) - self.length[order] / 2
        part = (middle * number / self.length.sum()).long()
        for index in part.unique().tolist():
            yield order[part == index]


def split_episodes(started: Bool[Tensor, "time batch"]) -> Sequences:
    """Cut a rollout where episodes start.

    >>> split_episodes(torch.tensor([[False], [False], [True]]))
    Sequences(member=tensor([0, 0]), begin=tensor([0, 2]), length=tensor([2, 1]))
    """
    begins = started.clone()
    begins[0] = True
    member, begin = begins.T.nonzero().unbind(1)
    end = torch.full_like(member, len(started))
    same_member = member[1:] == member[:-1]
    end[:-1] = torch.where(same_member, begin[1:], end[:-1])
    return Sequences(member, begin, end - begin)


def send(index: Tensor, device: torch.device) -> Tensor:
    """Return a copy of an index on the device; unlike `to`, it does not wait until a GPU has finished its work."""
    return index.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else index


def first_states(agent: ActorCritic, rollout: Rollout, sequences: Sequences, which: Int[Tensor, " chosen"]) -> State:
    """Return the states before these sequences: the rollout's first state at its first step, else the initial state."""
    member, at_start = sequences.member[which], sequences.begin[which] == 0
    chosen = send(torch.where(at_start, member, -1), rollout.values.device)
    return select_states(agent.cell, rollout.first, chosen)
