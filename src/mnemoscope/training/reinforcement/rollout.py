"""What happened to an agent in so many steps, and the sequences from which it learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells.state import State
from mnemoscope.training import NonFiniteLoss
from mnemoscope.training.reinforcement.actor_critic import ActorCritic, begun_anew, members
from mnemoscope.training.reinforcement.environments import Environments


class Rollout(NamedTuple):
    """The same number of steps in every environment; episodes begin and end within."""

    observations: Tensor
    """(time, batch, ...)."""
    actions: Int[Tensor, "time batch"]
    log_probabilities: Float[Tensor, "time batch"]
    """Of these actions, when they were taken."""
    values: Float[Tensor, "time batch"]
    rewards: Float[Tensor, "time batch"]
    started: Bool[Tensor, "time batch"]
    """Where an observation is the first of an episode."""
    ended: Bool[Tensor, "time batch"]
    """Where an action was the last of an episode."""
    first: State
    """Before the first observation; the initial state where an episode starts with it."""
    last_values: Float[Tensor, " batch"]
    """Of what comes after the last step."""


@torch.no_grad()
def collect(agent: ActorCritic, environments: Environments, state: State | None, length: int) -> tuple[Rollout, State]:
    """Act for `length` steps in all environments, and return what happened and the state after it.

    `state` is what an earlier call returned, None at first. Actions are drawn from torch's global generator.
    """
    device = next(agent.parameters()).device
    state = agent.cell.initial_state(len(environments)) if state is None else state
    first, steps = None, []
    for _ in range(length):
        started, seen = environments.started, environments.observations
        state = begun_anew(agent.cell, state, started)
        first = state if first is None else first
        outlook, state = agent.look(seen.to(device), state)
        actions = _drawn(outlook.log_policy)
        chosen = outlook.log_policy.gather(1, actions.unsqueeze(1)).squeeze(1)
        outcome = environments.step(actions.cpu())
        steps.append((seen, actions, chosen, outlook.values, outcome.rewards, started, outcome.ended))
    ahead = begun_anew(agent.cell, state, environments.started)
    last_values = agent.look(environments.observations.to(device), ahead)[0].values
    columns = [torch.stack(column).to(device) for column in zip(*steps, strict=True)]
    return Rollout(*columns, first=first, last_values=last_values), state


def _drawn(log_policy: Float[Tensor, "batch actions"]) -> Int[Tensor, " batch"]:
    if not torch.isfinite(log_policy).all():
        raise NonFiniteLoss(
            "The agent's policy is no longer finite; lower learning_rate or clip_norm, or change the initial weights."
        )
    return torch.multinomial(log_policy.exp(), 1).squeeze(1)


class Sequences(NamedTuple):
    """Where the pieces of a rollout lie that belong to one episode each."""

    member: Int[Tensor, " sequences"]
    begin: Int[Tensor, " sequences"]
    length: Int[Tensor, " sequences"]

    def at(self, which: Int[Tensor, " chosen"]) -> tuple[Int[Tensor, "time chosen"], Bool[Tensor, "time chosen"]]:
        """Times of these sequences side by side, and which are theirs; a shorter one is filled up with its last."""
        count = torch.arange(int(self.length[which].max()), device=which.device).unsqueeze(1)
        length = self.length[which]
        return self.begin[which] + torch.minimum(count, length - 1), count < length

    def minibatches(self, number: int) -> Iterator[Int[Tensor, " chosen"]]:
        """The sequences in random order, in so many parts with about as many steps each; fewer if there are few."""
        order = torch.randperm(len(self.length)).to(self.length.device)
        middle = self.length[order].cumsum(0) - self.length[order] / 2
        part = (middle * number / self.length.sum()).long()
        for each in part.unique().tolist():
            yield order[part == each]


def cut(started: Bool[Tensor, "time batch"]) -> Sequences:
    """Cut a rollout where episodes begin.

    >>> cut(torch.tensor([[False], [False], [True]]))
    Sequences(member=tensor([0, 0]), begin=tensor([0, 2]), length=tensor([2, 1]))
    """
    begins = started.clone()
    begins[0] = True
    member, begin = begins.T.nonzero().unbind(1)
    last = torch.full_like(member, len(started))
    goes_on = member[1:] == member[:-1]
    last[:-1] = torch.where(goes_on, begin[1:], last[:-1])
    return Sequences(member, begin, last - begin)


def first_states(agent: ActorCritic, rollout: Rollout, sequences: Sequences, which: Int[Tensor, " chosen"]) -> State:
    """The states with which sequences begin: that of the rollout for its first step, the initial one later."""
    member, at_once = sequences.member[which], sequences.begin[which] == 0
    return members(agent.cell, rollout.first, torch.where(at_once, member, -1))
