"""Reinforcement learning with any cell: gymnasium environments, actor-critic agents, proximal policy optimisation.

gymnasium and MiniGrid come with `pip install 'mnemoscope[rl]'`.
"""

from mnemoscope.training.reinforcement.actor_critic import ActorCritic as ActorCritic, PolicyAndValue as PolicyAndValue
from mnemoscope.training.reinforcement.agent_training import (
    AgentTrainResult as AgentTrainResult,
    train_agent as train_agent,
)
from mnemoscope.training.reinforcement.environments import Environments as Environments, minigrid as minigrid
from mnemoscope.training.reinforcement.episodes import EpisodeReturns as EpisodeReturns, play_episodes as play_episodes
from mnemoscope.training.reinforcement.grid import BatchedRoom as BatchedRoom, GridRooms as GridRooms
from mnemoscope.training.reinforcement.grid_agent import (
    GridEncoder as GridEncoder,
    build_grid_agent as build_grid_agent,
)
from mnemoscope.training.reinforcement.parallel_environments import ParallelEnvironments as ParallelEnvironments
from mnemoscope.training.reinforcement.ppo import (
    PPO as PPO,
    clipped_loss as clipped_loss,
    generalised_advantages as generalised_advantages,
)
from mnemoscope.training.reinforcement.rollout import Rollout as Rollout, collect_rollout as collect_rollout
