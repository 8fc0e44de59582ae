"""The loop in which an agent learns: act, learn from it, and again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from mnemoscope import registry
from mnemoscope.base.progress import Bar
from mnemoscope.training.files import read_json, read_tensors, write_json, write_tensors
from mnemoscope.training.interruption import Interruption
from mnemoscope.training.reinforcement.actor_critic import ActorCritic, GridEncoder
from mnemoscope.training.reinforcement.checkpoint import Progress, restore_checkpoint, save_checkpoint
from mnemoscope.training.reinforcement.environments import Environments, MakeEnvironment
from mnemoscope.training.reinforcement.ppo import PPO
from mnemoscope.training.reinforcement.rollout import Rollout, collect
from mnemoscope.training.run_folder import RunFolder, environment, load_weights
from mnemoscope.training.seeding import seeded


@dataclass(frozen=True)
class Learned:
    """How it went. The agent has the weights of the end; `model.safetensors` in the folder holds them too."""

    folder: Path
    steps: int
    """In all environments together."""
    episodes: int
    """That ended."""
    seconds: float
    """Time spent, interruptions not counted."""
    metrics: list[dict[str, Any]]
    """A line for each rollout: rewards of the episodes that ended in it, and what learning from it was like."""
    cached: bool = False
    """Whether the run had been finished before, and was only looked up."""

    def summary(self) -> str:
        """One line."""
        return f"{self.steps:,} steps, {self.episodes:,} episodes, {self.seconds:.0f} s; reward {self.reward():.3f}"

    def reward(self, episodes: int = 100) -> float:
        """Mean reward of the newest episodes: of as many rollouts as it takes to have so many. NaN: none has ended."""
        number, total = 0, 0.0
        for line in reversed(self.metrics):
            if line["episodes"] and number < episodes:
                number, total = number + line["episodes"], total + line["episodes"] * line["reward"]
        return total / number if number else float("nan")


def grid_agent(
    cell: str, actions: int = 7, hidden_size: int = 64, features: int = 64, seed: int = 0, **options: Any
) -> ActorCritic:
    """An agent for MiniGrid around a cell of the registry, with its initial weights.

    >>> type(grid_agent("rellstm", short_term=5, relevant=5).cell).__name__
    'Attentive'
    """
    with seeded("initial weights", seed):
        network = registry.cells.load(cell)(input_size=features, hidden_size=hidden_size, **options)
        return ActorCritic(network, actions, GridEncoder(features))


def learn(
    agent: ActorCritic,
    make: MakeEnvironment,
    ppo: PPO,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    checkpoint_every: int = 20,
) -> Learned:
    """Teach an agent by proximal policy optimisation, in a folder of its own.

    A finished run is not repeated: its weights and its result come back. Equal agents and settings give equal weights,
    also if the run was interrupted, by Ctrl-C or by force, and resumed.

    Args:
        agent: learns in place.
        make: gives a new environment.
        ppo: how it learns.
        folder: `metrics.jsonl` (a line per rollout, without times), `checkpoint.safetensors`, `env.json`, and at the
            end `model.safetensors` and `result.json`.
        resume: go on from the last checkpoint; start if there is none.
        overwrite: start again from nothing.
        progress: show a bar with the reward.
        checkpoint_every: rollouts between checkpoints.

    """
    run = RunFolder(Path(folder))
    if resume and overwrite:
        raise ValueError("resume=True goes on with a run and overwrite=True starts it again; choose one of them.")
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, but is {checkpoint_every}.")
    if (run.path / "result.json").exists() and not overwrite:
        return _stored(agent, ppo, run)
    if (run.path / "env.json").exists() and not resume and not overwrite:
        raise FileExistsError(
            f"There is an unfinished run in {run.path}. Go on with it by resume=True, or start again by overwrite=True."
        )
    environments = Environments(make, ppo.environments, ppo.seed)
    if environments.actions != agent.actions:
        raise ValueError(f"The agent has {agent.actions} actions, but the environment {environments.actions}.")
    with run.claimed():
        run.remove_debris()
        if overwrite or not (run.path / "env.json").exists():
            for name in ("result.json", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl"):
                (run.path / name).unlink(missing_ok=True)
            write_json(run.path / "env.json", environment())
        return _learn(agent, environments, ppo, run, progress, checkpoint_every)


def _learn(
    agent: ActorCritic, environments: Environments, ppo: PPO, run: RunFolder, progress: bool, checkpoint_every: int
) -> Learned:
    optimiser, path = ppo.optimiser(agent), run.path / "checkpoint.safetensors"
    done = Progress(running=torch.zeros(2, ppo.environments))
    if path.exists():
        done = restore_checkpoint(path, agent, optimiser, environments, ppo)
    each = ppo.environments * ppo.rollout
    last, begun = -(-ppo.steps // each), perf_counter() - done.seconds
    with (
        run.open_metrics(done.metrics_size) as metrics,
        Interruption() as interruption,
        Bar(total=last * each, initial=done.rollouts * each, unit="step", unit_scale=True, disable=not progress) as bar,
    ):
        while done.rollouts < last:
            with seeded("rollout", ppo.seed, done.rollouts, device=next(agent.parameters()).device):
                rollout, done.state = collect(agent, environments, done.state, ppo.rollout)
                told = ppo.improve(agent, optimiser, rollout)
            done.rollouts += 1
            assert done.running is not None
            done.running, rewards, lengths = episodes_of(rollout, done.running)
            line = {
                "step": done.rollouts * each,
                "episodes": len(rewards),
                "reward": sum(rewards) / len(rewards) if rewards else None,
                "length": sum(lengths) / len(lengths) if lengths else None,
                **told,
            }
            metrics.write((json.dumps(line) + "\n").encode())
            bar.update(each)
            if rewards:
                bar.set_postfix_str(f"reward {line['reward']:.2f} in {line['length']:.0f} steps", refresh=False)
            if done.rollouts % checkpoint_every == 0 or done.rollouts == last or interruption.requested:
                metrics.flush()
                os.fsync(metrics.fileno())
                done.metrics_size, done.seconds = metrics.tell(), perf_counter() - begun
                save_checkpoint(path, agent, optimiser, environments, done, ppo)
            if interruption.requested and done.rollouts < last:
                raise KeyboardInterrupt(f"Stopped after {line['step']} steps; go on in {run.path} with resume=True.")
    write_tensors(run.path / "model.safetensors", agent.state_dict(), {"ppo": asdict(ppo)})
    write_json(run.path / "result.json", {"steps": last * each, "seconds": done.seconds})
    return _result(run, last * each, done.seconds, cached=False)


def episodes_of(rollout: Rollout, running: Tensor) -> tuple[Tensor, list[float], list[float]]:
    """Rewards and lengths of the episodes that end in a rollout, and what of others there is already, (2, batch)."""
    rewards, lengths, running = [], [], running.clone()
    for reward, ended in zip(rollout.rewards.cpu(), rollout.ended.cpu(), strict=True):
        running += torch.stack([reward, torch.ones_like(reward)])
        rewards += running[0, ended].tolist()
        lengths += running[1, ended].tolist()
        running[:, ended] = 0
    return running, rewards, lengths


def _stored(agent: ActorCritic, ppo: PPO, run: RunFolder) -> Learned:
    path = run.path / "model.safetensors"
    weights, header = read_tensors(path)
    if header["ppo"] != asdict(ppo):
        raise ValueError(f"{run.path} holds a finished run with other settings; start again with overwrite=True.")
    load_weights(agent, weights, path)
    result = read_json(run.path / "result.json")
    return _result(run, result["steps"], result["seconds"], cached=True)


def _result(run: RunFolder, steps: int, seconds: float, cached: bool) -> Learned:
    lines = run.read_metrics()
    return Learned(run.path, steps, sum(line["episodes"] for line in lines), seconds, lines, cached)
