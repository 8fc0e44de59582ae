"""What an agent reaches in episodes from which it does not learn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.training.reinforcement.actor_critic import ActorCritic, members
from mnemoscope.training.reinforcement.environments import Environments, MakeEnvironment
from mnemoscope.training.seeding import seeded


@dataclass(frozen=True)
class Played:
    """Whole episodes, each from its beginning to its end."""

    rewards: Float[Tensor, " episodes"]
    """Sums over each episode, not discounted."""
    lengths: Float[Tensor, " episodes"]
    """Steps of each."""

    @property
    def mean(self) -> float:
        """Mean reward."""
        return self.rewards.mean().item()

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for one episode."""
        return self.rewards.std().item() / len(self.rewards) ** 0.5

    def summary(self) -> str:
        """One line."""
        reward, steps = f"{self.mean:.3f} ± {self.error:.3f}", self.lengths.mean().item()
        return f"reward {reward} in {steps:.0f} steps, {len(self.rewards)} episodes"


@torch.no_grad()
def play(agent: ActorCritic, make: MakeEnvironment, episodes: int = 100, seed: int = 0, greedy: bool = False) -> Played:
    """Let an agent play so many episodes side by side, one in each environment: none is left out for being long.

    Args:
        agent: with state functional, as it was left; nothing is learned.
        make: gives a new environment.
        episodes: how many.
        seed: of the episodes, which are others than those of `learn`, and of the actions.
        greedy: take the likeliest action; otherwise draw one, as in learning.

    """
    environments = Environments(make, episodes, seed, stream=1)  # learning has stream 0
    device, training = next(agent.parameters()).device, agent.training
    state, playing = agent.cell.initial_state(episodes), torch.arange(episodes)
    rewards, lengths = torch.zeros(episodes), torch.zeros(episodes)
    agent.eval()
    with seeded("play", seed, device=device):
        while len(playing):
            outlook, state = agent.look(environments.observations[playing].to(device), state)
            policy = outlook.log_policy
            chosen = policy.argmax(1) if greedy else torch.multinomial(policy.exp(), 1).squeeze(1)
            outcome = environments.step(chosen.cpu(), playing)
            rewards[playing] += outcome.rewards
            lengths[playing] += 1
            staying = (~outcome.ended).nonzero().squeeze(1)
            if len(staying) < len(playing):
                state, playing = members(agent.cell, state, staying.to(device)), playing[staying]
    agent.train(training)
    return Played(rewards, lengths)
