"""The training loop of an agent: collect a rollout, improve the policy, repeat."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.optim import Optimizer

from mnemoscope.base.files import write_json
from mnemoscope.base.progress import Bar
from mnemoscope.base.reading import read_json
from mnemoscope.base.tensor_files import read_tensors, with_prefix, write_tensors
from mnemoscope.cells.state import State
from mnemoscope.training.checkpoint import checked_counters, network_tensors, restore_network
from mnemoscope.training.interruption import Interruption
from mnemoscope.training.metrics_file import MetricsFile
from mnemoscope.training.reinforcement.actor_critic import ActorCritic
from mnemoscope.training.reinforcement.environments import Environments, MakeEnvironment
from mnemoscope.training.reinforcement.episode_states import with_empty_rows, without_empty_rows
from mnemoscope.training.reinforcement.grid.rooms import BatchedRoom, DrawnRooms
from mnemoscope.training.reinforcement.parallel_environments import ParallelEnvironments
from mnemoscope.training.reinforcement.ppo import PPO
from mnemoscope.training.reinforcement.rollout import AnyEnvironments, Rollout, collect_rollout
from mnemoscope.training.run_folder import RunFolder, environment, load_weights
from mnemoscope.training.seeding import seeded


@dataclass(frozen=True)
class AgentTrainResult:
    """Result of a finished run. The agent holds the final weights; so does `model.safetensors` in the folder."""

    folder: Path
    steps: int
    """Steps in all environments together."""
    episodes: int
    """Episodes that ended."""
    seconds: float
    """Time spent, without interruptions."""
    metrics: list[dict[str, Any]]
    """A line per rollout: rewards of the episodes that ended in it, and means over its optimiser steps."""
    cached: bool = False
    """Whether the run had finished before, so that this result was read from its folder."""

    def summary(self) -> str:
        """Return steps, episodes, time and reward in one line."""
        return f"{self.steps:,} steps, {self.episodes:,} episodes, {self.seconds:.0f} s; reward {self.reward():.3f}"

    def reward(self, episodes: int = 100) -> float:
        """Return the mean reward over the last rollouts that together have so many episodes; NaN if none has ended."""
        number, total = 0, 0.0
        for line in reversed(self.metrics):
            if line["episodes"] and number < episodes:
                number, total = number + line["episodes"], total + line["episodes"] * line["reward"]
        return total / number if number else float("nan")


class _ModelHeader(TypedDict):
    ppo: dict[str, Any]


class _CheckpointHeader(_ModelHeader):
    counters: dict[str, Any]


class _StoredResult(TypedDict):
    steps: int
    seconds: float


@dataclass
class _Progress:
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


def train_agent(
    agent: ActorCritic,
    make: MakeEnvironment | BatchedRoom,
    ppo: PPO,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    checkpoint_every: int = 20,
    processes: int = 1,
) -> AgentTrainResult:
    """Train an agent by proximal policy optimisation, and write the run into a folder.

    A finished run is not repeated: its weights and its result are read from the folder. Equal agents and settings give
    equal weights, also if the run was interrupted (by Ctrl-C or by force) and resumed. The agent acts and learns on the
    device of its parameters.

    Args:
        agent: the agent, trained in place.
        make: returns a new environment; or a room whose copies are tensors on the agent's device.
        ppo: the algorithm and its settings.
        folder: holds `metrics.jsonl` (a line per rollout, without times), `checkpoint.safetensors` and `env.json`, and
            after the last step `model.safetensors` and `result.json`.
        resume: continue from the last checkpoint, or start without one.
        overwrite: start anew and discard an earlier run.
        progress: show a bar with the reward.
        checkpoint_every: rollouts between checkpoints.
        processes: number of processes among which the environments are divided; 1: they run in this one. It changes no
            result. Several processes pay if the agent learns on a GPU, or if the environments take most of the time.

    """
    run = RunFolder(Path(folder))
    if resume and overwrite:
        raise ValueError("resume=True continues a run and overwrite=True starts it again; choose one of them.")
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, but is {checkpoint_every}.")
    if (run.path / "result.json").exists() and not overwrite:
        return _stored(agent, ppo, run)
    if (run.path / "env.json").exists() and not resume and not overwrite:
        raise FileExistsError(
            f"There is an unfinished run in {run.path}. Continue it with resume=True, or start again with "
            f"overwrite=True."
        )
    with ExitStack() as resources:
        environments: AnyEnvironments
        if isinstance(make, BatchedRoom):
            if processes != 1:
                raise ValueError(f"The copies of a BatchedRoom are in one process, but processes is {processes}.")
            device = next(agent.parameters()).device
            environments = make.environments(ppo.environments, ppo.seed, device=device)
        elif processes == 1:
            environments = Environments(make, ppo.environments, ppo.seed)
        else:
            parallel = ParallelEnvironments(make, ppo.environments, ppo.seed, processes=processes)
            environments = resources.enter_context(parallel)
        if environments.actions != agent.actions:
            raise ValueError(f"The agent has {agent.actions} actions, but the environment {environments.actions}.")
        resources.enter_context(run.lock())
        run.remove_temporary_files()
        if overwrite or not (run.path / "env.json").exists():
            for name in ("result.json", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl"):
                (run.path / name).unlink(missing_ok=True)
            write_json(run.path / "env.json", environment())
        return _train(agent, environments, ppo, run, progress, checkpoint_every)


def _train(
    agent: ActorCritic, environments: AnyEnvironments, ppo: PPO, run: RunFolder, progress: bool, checkpoint_every: int
) -> AgentTrainResult:
    optimiser, done = ppo.optimiser(agent), _Progress(running=torch.zeros(2, ppo.environments))
    if run.checkpoint.exists():
        done = _restore_checkpoint(run.checkpoint, agent, optimiser, environments, ppo)
    size = ppo.environments * ppo.rollout  # steps of a rollout
    rollouts, started = -(-ppo.steps // size), perf_counter() - done.seconds
    with (
        MetricsFile(run.metrics, done.metrics_size) as metrics,
        Interruption() as interruption,
        Bar(
            total=rollouts * size, initial=done.rollouts * size, unit="step", unit_scale=True, disable=not progress
        ) as bar,
    ):
        while done.rollouts < rollouts:
            with seeded("rollout", ppo.seed, done.rollouts, device=next(agent.parameters()).device):
                if isinstance(environments, DrawnRooms):
                    environments.renew(ppo.rollout)
                rollout, done.state = collect_rollout(agent, environments, done.state, ppo.rollout)
                means = ppo.improve(agent, optimiser, rollout)
            done.rollouts += 1
            assert done.running is not None
            done.running, rewards, lengths = finished_episodes(rollout, done.running)
            line = {
                "step": done.rollouts * size,
                "episodes": len(rewards),
                "reward": sum(rewards) / len(rewards) if rewards else None,
                "length": sum(lengths) / len(lengths) if lengths else None,
                **means,
            }
            metrics.write(line)
            bar.update(size)
            if rewards:
                bar.set_postfix_str(f"reward {line['reward']:.2f} in {line['length']:.0f} steps", refresh=False)
            if done.rollouts % checkpoint_every == 0 or done.rollouts == rollouts or interruption.stop:
                done.metrics_size, done.seconds = metrics.synchronise(), perf_counter() - started
                _save_checkpoint(run.checkpoint, agent, optimiser, environments, done, ppo)
            if interruption.stop and done.rollouts < rollouts:
                raise interruption.error(f"after {line['step']} steps; continue in {run.path} with resume=True.")
    write_tensors(run.path / "model.safetensors", agent.state_dict(), {"ppo": asdict(ppo)})
    write_json(run.path / "result.json", {"steps": rollouts * size, "seconds": done.seconds})
    return _result(run, rollouts * size, done.seconds, cached=False)


def _save_checkpoint(
    path: Path, agent: ActorCritic, optimiser: Optimizer, environments: AnyEnvironments, progress: _Progress, ppo: PPO
) -> None:
    """Write the checkpoint; seeds follow from the number of rollouts done."""
    assert progress.running is not None
    state = without_empty_rows(agent.cell, progress.state)  # of 256 episodes, few are as long as the longest
    tensors = {**network_tensors(agent, optimiser, state), "running": progress.running}
    tensors |= {f"position.{name}": tensor for name, tensor in environments.position().items()}
    counters = {"rollouts": progress.rollouts, "seconds": progress.seconds, "metrics_size": progress.metrics_size}
    write_tensors(path, tensors, {"ppo": asdict(ppo), "counters": counters})


def _restore_checkpoint(
    path: Path, agent: ActorCritic, optimiser: Optimizer, environments: AnyEnvironments, ppo: PPO
) -> _Progress:
    """Restore agent, optimiser and environments in place from `_save_checkpoint`, and return the rest."""
    tensors, header = read_tensors(path, _CheckpointHeader)
    if header["ppo"] != asdict(ppo):
        changed = ", ".join(name for name, value in asdict(ppo).items() if header["ppo"].get(name) != value)
        raise ValueError(f"{path} belongs to a run with other settings ({changed}); start again with overwrite=True.")
    done = checked_counters(header["counters"], _Progress, path)
    state = restore_network(agent, optimiser, tensors, path, learned=done.rollouts > 0)
    done.state = with_empty_rows(agent.cell, state)
    environments.restore(with_prefix("position.", tensors))
    done.running = tensors["running"].to(torch.float32)
    return done


def finished_episodes(rollout: Rollout, running: Tensor) -> tuple[Tensor, list[float], list[float]]:
    """Return reward and length so far of unfinished episodes, and rewards and lengths of those that end in a rollout.

    Args:
        rollout: the rollout.
        running: reward and length so far of the episodes that continue from the rollout before, (2, batch).

    """
    rewards, lengths, running = [], [], running.clone()
    for reward, ended in zip(rollout.rewards.cpu(), rollout.ended.cpu(), strict=True):
        running += torch.stack([reward, torch.ones_like(reward)])
        rewards += running[0, ended].tolist()
        lengths += running[1, ended].tolist()
        running[:, ended] = 0
    return running, rewards, lengths


def _stored(agent: ActorCritic, ppo: PPO, run: RunFolder) -> AgentTrainResult:
    path = run.path / "model.safetensors"
    weights, header = read_tensors(path, _ModelHeader)
    if header["ppo"] != asdict(ppo):
        raise ValueError(f"{run.path} holds a finished run with other settings; start again with overwrite=True.")
    load_weights(agent, weights, path)
    result = read_json(run.path / "result.json", _StoredResult)
    return _result(run, result["steps"], result["seconds"], cached=True)


def _result(run: RunFolder, steps: int, seconds: float, cached: bool) -> AgentTrainResult:
    lines = run.read_metrics()
    return AgentTrainResult(run.path, steps, sum(line["episodes"] for line in lines), seconds, lines, cached)
