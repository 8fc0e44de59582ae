"""Reinforcement learning with any cell: environments of gymnasium, actor-critics, proximal policy optimisation.

gymnasium and MiniGrid come with `pip install 'mnemoscope[rl]'`.
"""

from mnemoscope.training.reinforcement.actor_critic import ActorCritic, GridEncoder, Outlook
from mnemoscope.training.reinforcement.advantages import generalised_advantages
from mnemoscope.training.reinforcement.environments import Environments, minigrid
from mnemoscope.training.reinforcement.learning import Learned, grid_agent, learn
from mnemoscope.training.reinforcement.playing import Played, play
from mnemoscope.training.reinforcement.ppo import PPO, clipped_loss
from mnemoscope.training.reinforcement.rollout import Rollout, collect

__all__ = [
    "PPO",
    "ActorCritic",
    "Environments",
    "GridEncoder",
    "Learned",
    "Outlook",
    "Played",
    "Rollout",
    "clipped_loss",
    "collect",
    "generalised_advantages",
    "grid_agent",
    "learn",
    "minigrid",
    "play",
]
