"""Reinforcement learning with any cell: gymnasium environments, actor-critic agents, proximal policy optimisation.

gymnasium and MiniGrid come with `pip install 'mnemoscope[rl]'`.
"""

from mnemoscope.training.reinforcement.actor_critic import ActorCritic, PolicyAndValue
from mnemoscope.training.reinforcement.advantages import generalised_advantages
from mnemoscope.training.reinforcement.agent_training import AgentTrainResult, train_agent
from mnemoscope.training.reinforcement.environments import Environments, minigrid
from mnemoscope.training.reinforcement.episodes import EpisodeReturns, play_episodes
from mnemoscope.training.reinforcement.grid_agent import GridEncoder, build_grid_agent
from mnemoscope.training.reinforcement.ppo import PPO, clipped_loss
from mnemoscope.training.reinforcement.rollout import Rollout, collect_rollout

__all__ = [
    "PPO",
    "ActorCritic",
    "AgentTrainResult",
    "Environments",
    "EpisodeReturns",
    "GridEncoder",
    "PolicyAndValue",
    "Rollout",
    "build_grid_agent",
    "clipped_loss",
    "collect_rollout",
    "generalised_advantages",
    "minigrid",
    "play_episodes",
    "train_agent",
]
