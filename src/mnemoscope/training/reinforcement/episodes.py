"""Returns of a trained agent in whole episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.training.reinforcement.actor_critic import ActorCritic
from mnemoscope.training.reinforcement.environments import Environments, MakeEnvironment
from mnemoscope.training.reinforcement.episode_states import select_states
from mnemoscope.training.reinforcement.grid.rooms import BatchedRoom
from mnemoscope.training.seeding import seeded


@dataclass(frozen=True)
class EpisodeReturns:
    """Returns and lengths of whole episodes."""

    rewards: Float[Tensor, " episodes"]
    """Sum of the rewards of each episode, not discounted."""
    lengths: Float[Tensor, " episodes"]
    """Steps of each episode."""

    @property
    def mean(self) -> float:
        """Mean reward of an episode."""
        return self.rewards.mean().item()

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for one episode."""
        return self.rewards.std().item() / len(self.rewards) ** 0.5

    def summary(self) -> str:
        """Return mean reward, mean length and number of episodes in one line."""
        reward, steps = f"{self.mean:.3f} ± {self.error:.3f}", self.lengths.mean().item()
        return f"reward {reward} in {steps:.0f} steps, {len(self.rewards)} episodes"


@torch.no_grad()
def play_episodes(
    agent: ActorCritic,
    make: MakeEnvironment | BatchedRoom,
    episodes: int = 100,
    seed: int = 0,
    greedy: bool = False,
) -> EpisodeReturns:
    """Run an agent for some episodes in parallel, one per environment, without learning.

    Every episode that starts is run to its end, so long episodes count like short ones.

    Args:
        agent: the agent, which stays unchanged.
        make: returns a new environment; or a room whose copies are tensors, which gives the same episodes if it has a
            pool of levels.
        episodes: number of episodes.
        seed: seed of the episodes and of the actions. The episodes differ from those of `train_agent`.
        greedy: take the most likely action; otherwise draw one, as in training.

    """
    device, training = next(agent.parameters()).device, agent.training
    stream = 1  # training uses stream 0
    if isinstance(make, BatchedRoom):
        pool = replace(make, levels=None if make.levels is None else episodes)
        environments = pool.environments(episodes, seed, stream, device)
    else:
        environments = Environments(make, episodes, seed, stream)
    state, playing = agent.cell.initial_state(episodes), torch.arange(episodes)
    rewards, lengths = torch.zeros(episodes), torch.zeros(episodes)
    agent.eval()
    with seeded("play", seed, device=device):
        while len(playing):
            (policy, _), state = agent.step(environments.observations.to(device)[playing.to(device)], state)
            actions = policy.argmax(1) if greedy else torch.multinomial(policy.exp(), 1).squeeze(1)
            outcome = environments.step(actions.cpu(), playing)
            rewards[playing] += outcome.rewards.cpu()
            lengths[playing] += 1
            unfinished = (~outcome.ended.cpu()).nonzero().squeeze(1)
            if len(unfinished) < len(playing):
                state, playing = select_states(agent.cell, state, unfinished.to(device)), playing[unfinished]
    agent.train(training)
    return EpisodeReturns(rewards, lengths)
