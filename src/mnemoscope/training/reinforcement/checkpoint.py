"""Everything that the next rollout depends on, in one safetensors file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from mnemoscope.cells.state import State, map_state, named_leaves
from mnemoscope.training.files import read_tensors, write_tensors
from mnemoscope.training.reinforcement.actor_critic import ActorCritic
from mnemoscope.training.reinforcement.environments import Environments
from mnemoscope.training.reinforcement.ppo import PPO
from mnemoscope.training.run_folder import load_weights


@dataclass
class Progress:
    """What is carried from rollout to rollout, beside the weights, the optimiser and the environments."""

    state: State | None = None
    """Of the network, after the last step."""
    running: Tensor | None = None
    """Reward and length of each environment's present episode so far, (2, batch)."""
    rollouts: int = 0
    """How many are done."""
    seconds: float = 0.0
    """Time spent."""
    metrics_size: int = 0
    """Bytes of metrics.jsonl that belong to them."""


def save_checkpoint(
    path: Path, agent: ActorCritic, optimiser: Optimizer, environments: Environments, done: Progress, ppo: PPO
) -> None:
    """Write it; seeds follow from the number of rollouts done."""
    tensors = {f"model.{name}": tensor for name, tensor in agent.state_dict().items()}
    for name, parameter in agent.named_parameters():
        tensors |= {f"optimiser.{key}.{name}": value for key, value in optimiser.state.get(parameter, {}).items()}
    tensors |= {f"position.{name}": tensor for name, tensor in environments.position().items()}
    assert done.state is not None
    assert done.running is not None
    tensors |= {f"state.{name}": tensor for name, tensor in named_leaves(done.state)} | {"running": done.running}
    counters = {"rollouts": done.rollouts, "seconds": done.seconds, "metrics_size": done.metrics_size}
    write_tensors(path, tensors, {"ppo": asdict(ppo), "counters": counters})


def restore_checkpoint(
    path: Path, agent: ActorCritic, optimiser: Optimizer, environments: Environments, ppo: PPO
) -> Progress:
    """Bring agent, optimiser and environments to where `save_checkpoint` found them, and return the rest."""
    tensors, header = read_tensors(path)
    if header["ppo"] != asdict(ppo):
        changed = ", ".join(name for name, value in asdict(ppo).items() if header["ppo"].get(name) != value)
        raise ValueError(f"{path} belongs to a run with other settings ({changed}); start again with overwrite=True.")
    load_weights(agent, _under("model.", tensors), path)
    device, learned = next(agent.parameters()).device, [one for one in agent.parameters() if one.requires_grad]
    names = dict(agent.named_parameters())
    kept: dict[int, dict[str, Any]] = {number: {} for number in range(len(learned))}
    places = {id(parameter): number for number, parameter in enumerate(learned)}
    for full, value in _under("optimiser.", tensors).items():
        key, _, name = full.partition(".")
        kept[places[id(names[name])]][key] = value
    optimiser.load_state_dict({"state": kept, "param_groups": optimiser.state_dict()["param_groups"]})
    environments.go_to(_under("position.", tensors))
    state, form = _under("state.", tensors), agent.cell.initial_state(1)
    leaves = iter([name for name, _ in named_leaves(form)])
    restored = map_state(lambda _: state[next(leaves)].to(device), form)
    return Progress(restored, tensors["running"].to(torch.float32), **header["counters"])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
