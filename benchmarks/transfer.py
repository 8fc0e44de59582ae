"""Reward of an agent in a larger MiniGrid room, during training and by the temperature of its policy.

    python benchmarks/transfer.py rellstm DoorKey-5x5 --device cuda --frames 400000 --keep        needs mnemoscope[rl]
    python benchmarks/transfer.py rellstm GoToDoor-5x5 --device cuda --frames 200000 1000000 --temperatures 1 --keep

The agents, rooms and settings are those of the study `minigrid`, except the number of frames. Each run adds a line to
benchmarks/results/transfer_<device>.jsonl: the command, the machine, and after each number of frames the rewards in the
small and in the large room. A temperature divides the scores of the actions; 1 is the policy as learned, and near 0 it
takes the most likely action.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import torch
from torch import Tensor

from common import command, folder, option_parser
from mnemoscope.studies.kerg2022.minigrid import BASE, OPTIONS, RELEASE, ROOMS
from mnemoscope.training.reinforcement import ActorCritic, BatchedRoom, build_grid_agent, collect_rollout
from mnemoscope.training.reinforcement.agent_training import finished_episodes
from mnemoscope.training.reinforcement.episode_states import select_states
from mnemoscope.training.reinforcement.grid import DrawnRooms
from mnemoscope.training.run_folder import environment
from mnemoscope.training.seeding import seeded

UNITS, RECENT = 64, 2_000


def main() -> None:
    """Train one agent, test it, and add a line to the results."""
    options = _options()
    torch.set_num_threads(1)
    places = ROOMS[options.room]
    agent = build_grid_agent(options.cell, hidden_size=UNITS, seed=options.seed, **OPTIONS[options.cell])
    agent.to(options.device)
    ppo = replace(BASE, seed=options.seed)
    small, large = (BatchedRoom(place, None, RELEASE) for place in places)
    rooms, optimiser = small.environments(ppo.environments, options.seed, device=options.device), ppo.optimiser(agent)
    assert isinstance(rooms, DrawnRooms)
    entropy = None  # before the first rollout
    state, running, recent, rollouts, rows = None, torch.zeros(2, ppo.environments), [], 0, []
    for frames in sorted(options.frames):
        while rollouts * ppo.environments * ppo.rollout < frames:
            with seeded("rollout", ppo.seed, rollouts, device=options.device):
                rooms.renew(ppo.rollout)
                rollout, state = collect_rollout(agent, rooms, state, ppo.rollout)
                entropy = round(ppo.improve(agent, optimiser, rollout)["entropy"], 3)
            rollouts += 1
            running, rewards, _ = finished_episodes(rollout, running)
            recent = (recent + rewards)[-RECENT:]
        row = {"frames": rollouts * ppo.environments * ppo.rollout, "entropy": entropy}
        row["training"] = round(sum(recent) / max(1, len(recent)), 4)
        row |= {place: _test(agent, room, options) for place, room in zip(places, (small, large), strict=True)}
        rows.append(row)
        print(json.dumps(row), flush=True)
    line = {
        "command": command(),
        "environment": environment(),
        "cell": options.cell,
        "seed": options.seed,
        "rows": rows,
    }
    with (folder(options.keep) / f"transfer_{options.device}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


@torch.no_grad()
def _test(agent: ActorCritic, room: BatchedRoom, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return mean and standard error of the rewards for each temperature; all episodes are run at the same time."""
    device, each = options.device, options.episodes
    temperatures = torch.tensor(options.temperatures, device=device).repeat_interleave(each).unsqueeze(1)
    copies = room.environments(len(temperatures), options.seed, 1, device)
    rewards, playing = torch.zeros(len(temperatures)), torch.arange(len(temperatures))
    state = agent.cell.initial_state(len(temperatures))
    with seeded("transfer", options.seed, device=device):
        while len(playing):
            here = playing.to(device)
            (policy, _), state = agent.step(copies.observations[here], state)
            actions = torch.multinomial((policy / temperatures[here]).softmax(1), 1).squeeze(1)
            outcome = copies.step(actions, playing)
            rewards[playing] += outcome.rewards.cpu()
            unfinished = (~outcome.ended.cpu()).nonzero().squeeze(1)
            if len(unfinished) < len(playing):
                state, playing = select_states(agent.cell, state, unfinished.to(device)), playing[unfinished]
    parts = zip(options.temperatures, rewards.split(each), strict=True)
    return {f"{temperature:g}": _mean(part) for temperature, part in parts}


def _mean(rewards: Tensor) -> list[float]:
    return [round(rewards.mean().item(), 4), round(rewards.std().item() / len(rewards) ** 0.5, 4)]


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("cell", choices=[*OPTIONS])
    parser.add_argument("room", choices=[*ROOMS])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--frames", type=int, nargs="+", required=True, help="frames of training before each test")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.02, 1.0, 1.5, 2.0, 3.0])
    parser.add_argument("--episodes", type=int, default=128, help="test episodes for each temperature")
    return parser.parse_args()


if __name__ == "__main__":
    main()
