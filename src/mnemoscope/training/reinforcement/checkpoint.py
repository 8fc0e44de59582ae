"""The checkpoint of an agent: everything that the next rollout depends on, in one safetensors file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import Optimizer

from mnemoscope.cells.state import State, named_leaves
from mnemoscope.training.checkpoint import optimiser_tensors, restore_optimiser, restore_state
from mnemoscope.training.reinforcement.actor_critic import ActorCritic
from mnemoscope.training.reinforcement.environments import Environments
from mnemoscope.training.reinforcement.ppo import PPO
from mnemoscope.training.run_folder import load_weights
from mnemoscope.training.tensor_files import read_tensors, with_prefix, write_tensors


@dataclass
class Progress:
    """Values carried from rollout to rollout, besides weights, optimiser and environments."""

    state: State | None = None
    """State of the network after the last step."""
    running: Tensor | None = None
    """Reward and length so far of each environment's present episode, (2, batch)."""
    rollouts: int = 0
    """Rollouts done."""
    seconds: float = 0.0
    """Time spent."""
    metrics_size: int = 0
    """Bytes of metrics.jsonl that belong to these rollouts."""


def save_checkpoint(
    path: Path, agent: ActorCritic, optimiser: Optimizer, environments: Environments, progress: Progress, ppo: PPO
) -> None:
    """Write the checkpoint; seeds follow from the number of rollouts done."""
    assert progress.state is not None
    assert progress.running is not None
    tensors = {f"model.{name}": tensor for name, tensor in agent.state_dict().items()}
    tensors |= optimiser_tensors(agent, optimiser)
    tensors |= {f"position.{name}": tensor for name, tensor in environments.position().items()}
    tensors |= {f"state.{name}": tensor for name, tensor in named_leaves(progress.state)}
    tensors["running"] = progress.running
    counters = {"rollouts": progress.rollouts, "seconds": progress.seconds, "metrics_size": progress.metrics_size}
    write_tensors(path, tensors, {"ppo": asdict(ppo), "counters": counters})


def restore_checkpoint(
    path: Path, agent: ActorCritic, optimiser: Optimizer, environments: Environments, ppo: PPO
) -> Progress:
    """Restore agent, optimiser and environments in place from `save_checkpoint`, and return the rest."""
    tensors, header = read_tensors(path)
    if header["ppo"] != asdict(ppo):
        changed = ", ".join(name for name, value in asdict(ppo).items() if header["ppo"].get(name) != value)
        raise ValueError(f"{path} belongs to a run with other settings ({changed}); start again with overwrite=True.")
    load_weights(agent, with_prefix("model.", tensors), path)
    restore_optimiser(agent, optimiser, tensors)
    environments.restore(with_prefix("position.", tensors))
    state = restore_state(agent, with_prefix("state.", tensors))
    return Progress(state, tensors["running"].to(torch.float32), **header["counters"])
