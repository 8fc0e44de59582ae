"""Agents with attention to their past, trained in small rooms and tested in large ones (Kerg, B.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mnemoscope.base.reading import read_json
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.replication.agreement import as_printed
from mnemoscope.replication.claims import Claim, Row, Subject, about, with_reason
from mnemoscope.replication.computed_study import legend_above
from mnemoscope.replication.learning_study import KEPT_POINTS, by_name, colours, finite
from mnemoscope.replication.study import Finished, Preset, Study, Trial, listed
from mnemoscope.replication.verdicts import UNKNOWN, Verdict
from mnemoscope.studies.kerg2022.guessing import largest_share
from mnemoscope.studies.kerg2022.notation import thesis
from mnemoscope.training import NonFiniteLoss
from mnemoscope.training.reinforcement import (
    PPO,
    ActorCritic,
    BatchedRoom,
    EpisodeReturns,
    build_grid_agent,
    play_episodes,
    train_agent,
)
from mnemoscope.training.reinforcement.grid import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = 5_000_000
"""Training steps of the published agents."""
OPTIONS: dict[str, dict[str, int]] = {"memlstm": {}, "rellstm": {"short_term": 5, "relevant": 5}, "lstm": {}}
"""Options of the agents' networks. Kerg, B.2 compares the first two, with nu = rho = 5; we add an LSTM."""
ROOMS: dict[str, tuple[str, str]] = {
    "RedBlueDoors-6x6": ("RedBlueDoors-6x6", "RedBlueDoors-8x8"),
    "GoToObject-6x6": ("GoToObject-6x6-N2", "GoToObject-8x8-N2"),
    "MemoryS7": ("MemoryS7", "MemoryS13"),
    "GoToDoor-5x5": ("GoToDoor-5x5", "GoToDoor-8x8"),
    "Fetch-5x5": ("Fetch-5x5-N2", "Fetch-8x8-N3"),
    "DoorKey-5x5": ("DoorKey-5x5", "DoorKey-16x16"),
}
"""Training and test environments with their full MiniGrid names; MiniGrid has no others of these sizes."""
TABLE: dict[str, dict[str, tuple[float, float]]] = {
    "RedBlueDoors-6x6": {"memlstm": (0.97, 0.95), "rellstm": (0.97, 0.95)},
    "GoToObject-6x6": {"memlstm": (0.85, 0.66), "rellstm": (0.84, 0.74)},
    "MemoryS7": {"memlstm": (0.4, 0.24), "rellstm": (0.94, 0.30)},
    "GoToDoor-5x5": {"memlstm": (0.17, 0.11), "rellstm": (0.25, 0.15)},
    "Fetch-5x5": {"memlstm": (0.42, 0.44), "rellstm": (0.5, 0.45)},
    "DoorKey-5x5": {"memlstm": (0.94, 0.31), "rellstm": (0.93, 0.44)},
}
"""Mean rewards in the training and the test environment."""
RELEASE: Release = "gym-minigrid 1"
"""Release of MiniGrid whose rules hold, that of the years of the publication. The rules matter in GoToObject: with
today's, no agent that has to guess the target can reach the published rewards (`docs/attention.md`)."""
CAUSES = {
    ("memlstm", "DoorKey-16x16"): "seeds vary from below the published reward to above it (docs/attention.md)",
    ("rellstm", "DoorKey-16x16"): f"{UNKNOWN}; seeds vary, by less than the difference (docs/attention.md)",
    ("memlstm", "RedBlueDoors-8x8"): f"{UNKNOWN}; seeds vary, by less than the difference (docs/attention.md)",
    ("rellstm", "RedBlueDoors-8x8"): f"{UNKNOWN}; seeds vary, by less than the difference (docs/attention.md)",
}
"""Why rewards in larger rooms are lower than published, by `benchmarks/transfer.py`."""
TOGETHER = 5_000
"""Test episodes that are run at the same time."""
BASE = PPO(steps=STEPS, environments=256, rollout=32, epochs=4, minibatches=4)
"""Settings of PPO. B.2 gives only the number of steps; the rest are common values, with more copies of the environment
than usual, because a GPU steps 256 in the time of one. Agents do not receive the mission, a sentence: in Fetch and GoTo
they have to guess the goal object. The published rewards suggest that the published agents had to guess too: they are
near the largest that a guess can reach."""


def _subject(room: str, network: str) -> Subject:
    return about(network, room, label=f"{room}, {network}")


def _claim(subject: Subject, place: str, reward: float) -> Claim:
    near = as_printed(f"{reward}" if len(f"{reward}") > 3 else f"{reward:.2f}")
    return Claim(subject, f"reward in {place}", reward, thesis("B.2 Table 1"), near, "higher")


class MiniGrid(Study):
    """Train agents in the small version of an environment, and test them in the large one."""

    name = "minigrid"
    resumes = True
    title = "Rooms larger than those of training"
    question = (
        "Does an agent that attends to few of its past states do better in larger rooms than one that attends to all?"
    )
    claims = tuple(
        _claim(_subject(room, network), place, reward)
        for room, row in TABLE.items()
        for network, rewards in row.items()
        for place, reward in zip(ROOMS[room], rewards, strict=True)
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A few steps of tiny agents in one environment, to check that the code runs.",
            {
                "rooms": ("GoToObject-6x6",),
                "hidden_size": 8,
                "episodes": 2,
                "ppo": {"steps": 256, "environments": 4, "rollout": 32, "minibatches": 2, "epochs": 1},
            },
        ),
        "cpu": Preset(
            "DoorKey only, 150,000 steps instead of 5,000,000; one seed, 32 episodes per test.",
            {
                "rooms": ("DoorKey-5x5",),
                "hidden_size": 64,
                "episodes": 32,
                "ppo": {"steps": 150_000, "environments": 64},
            },
        ),
        "paper": Preset(
            "All six environments, 5,000,000 steps as published, on a GPU; one seed, 10,000 episodes per test.",
            {"rooms": tuple(ROOMS), "hidden_size": 64, "episodes": 10_000, "device": "cuda", "ppo": {}},
        ),
    }
    cites = ("kerg2020", "schulman2016", "schulman2017", "chevalier2018")
    caption = (
        "Lines: reward of the episodes that end during training; they start too high, because the first episodes to "
        "end are those that reached their goal. Dots: reward after training in the training environment and in the "
        "larger one, with standard errors; circles: published rewards after 5,000,000 steps; grey bars: random "
        "actions. Agents do not receive the mission: in GoToObject, GoToDoor and Fetch they have to guess the target."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [
            Trial(
                f"{room}, {network}",
                {
                    "cell": network,
                    "options": options,
                    "room": room,
                    "release": RELEASE,
                    "levels": "new",
                    "hidden_size": settings["hidden_size"],
                    "episodes": settings["episodes"],
                    **{name: settings[name] for name in ("device",) if name in settings},
                    "ppo": asdict(replace(BASE, **settings["ppo"], seed=seed)),
                },
                seed,
                _subject(room, network),
            )
            for room in settings["rooms"]
            for network, options in OPTIONS.items()
            for seed in seeds
        ]

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        chosen, seed = trial.settings, trial.seed
        agent = build_grid_agent(chosen["cell"], hidden_size=chosen["hidden_size"], seed=seed, **chosen["options"])
        result: dict[str, Any] = {"parameters": sum(parameter.numel() for parameter in agent.parameters())}
        on_gpu = chosen.get("device") == "cuda"
        agent.to("cuda" if on_gpu else "cpu")
        ppo = PPO(**chosen["ppo"])
        home = folder / ("run" if on_gpu or "device" not in chosen else "run on a CPU")  # no checkpoint of a GPU
        small, large = (BatchedRoom(place, None, chosen["release"]) for place in ROOMS[chosen["room"]])
        try:
            trained = train_agent(agent, small, ppo, home, resume=True, progress=progress)
        except NonFiniteLoss as error:
            return result | {"failed": str(error).split(";")[0]}
        agents = {"after": agent, "random": _random_agent()}
        tested = {
            name: [_rewards(_play(player, room, chosen["episodes"], seed)) for room in (small, large)]
            for name, player in agents.items()
        }
        return result | {
            "steps": trained.steps,
            "episodes": trained.episodes,
            "seconds": round(trained.seconds, 1),
            **tested,
            "curve": _curve(trained.metrics),
        }

    def environment(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Return the environment in which the agent was trained, which may differ from the current one."""
        path = folder / "run" / "env.json"
        return read_json(path) if path.exists() else super().environment(trial, folder)

    def as_published(self, trial: Trial) -> bool:
        """Whether the agent took as many steps, in new levels, by the rules of the years of the publication."""
        rules = trial.settings.get("release") == RELEASE and trial.settings.get("levels") == "new"
        return rules and trial.settings["ppo"]["steps"] >= STEPS

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        return [row for trials in by_name(results).values() for row in self._rows(trials)]

    def _rows(self, trials: Sequence[Finished]) -> list[Row]:
        subject = trials[0].trial.subject
        stable = [each.result for each in finite(trials)]
        failed = [f"{len(trials) - len(stable)} did not stay finite"] if len(stable) < len(trials) else []
        if not stable:
            return [
                self.row(trials, f"reward in {place}", [], ours="none", remark=failed[0])
                for place in ROOMS[subject.task]
            ]
        rows = []
        for at, place in enumerate(ROOMS[subject.task]):
            measured = [result["after"][at]["mean"] for result in stable]
            ours = ", ".join(_with_error(result["after"][at]) for result in stable)
            random = listed((result["random"][at]["mean"] for result in stable), ".2f")
            release = trials[0].trial.settings.get("release", "minigrid 3")
            share = largest_share(place, release)
            guess = [] if share is None else [f"a guess of the target succeeds in at most {float(share):.3f}"]
            steps = f"{stable[0]['steps']:,} steps of training"
            remark = "; ".join([steps, f"{random} with random actions", *guess, *failed])
            row = self.row(trials, f"reward in {place}", measured, ours=ours, remark=remark)
            rows.append(_with_cause(row, share, release))
        seconds = listed((result["seconds"] for result in stable), ",.0f")
        last = ", ".join(_last(result["curve"]) for result in stable)
        remark = f"{trials[0].result['parameters']:,} parameters; {seconds} s"
        rows.append(Row(f"{trials[0].trial.name}: reward at the end of learning", "", last, remark=remark))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Draw learning curves, and the reward of each agent in both environments."""
        rooms = list(dict.fromkeys(each.trial.settings["room"] for each in results))
        networks = list(dict.fromkeys(each.trial.subject.network for each in results))
        figure, learning, tested = _panels(rooms)
        places = [place for room in rooms for place in ROOMS[room]]
        for number, (network, colour) in enumerate(zip(networks, colours(), strict=False)):
            shift, label = (number - (len(networks) - 1) / 2) * 0.22, network
            for room in rooms:
                trials = [each.result for each in results if each.trial.subject == about(network, room)]
                trials = [result for result in trials if "after" in result]
                for result in trials:
                    learning[room].plot(result["curve"]["step"], result["curve"]["reward"], color=colour, linewidth=1.4)
                for at, place in enumerate(ROOMS[room] if trials else ()):
                    x = places.index(place) + shift
                    random = fmean(result["random"][at]["mean"] for result in trials)
                    tested.bar(x, random, 0.2, color=COLOUR["line"], zorder=1)
                    mean, error = (fmean(result["after"][at][name] for result in trials) for name in ("mean", "error"))
                    tested.errorbar(x, mean, error, color=colour, marker=".", capsize=3, label=label)
                    label = None
                    if network in TABLE[room]:
                        tested.plot(x, TABLE[room][network][at], "o", color=colour, fillstyle="none", markersize=9)
        tested.set_xticks(range(len(places)), places, rotation=0 if len(rooms) == 1 else 90)
        for axes in (*learning.values(), tested):
            axes.set_ylim(-0.03, 1.05)
            style_page_axes(axes)
        legend_above(figure, len(networks))
        return figure


def _panels(rooms: Sequence[str]) -> tuple[Figure, dict[str, Any], Any]:
    """Make a panel for training in each room and one for all tests, to the right of one room or below several."""
    columns, single = min(3, len(rooms)), len(rooms) == 1
    rows = ceil(len(rooms) / columns)
    figure = new_figure(8.4, 3.8 if single else 2.2 * rows + 4.2)
    if single:
        grid = figure.add_gridspec(1, 2)
    else:
        grid = figure.add_gridspec(rows + 1, columns, height_ratios=[*[1] * rows, 1.8])
    learning = {room: figure.add_subplot(grid[divmod(number, columns)]) for number, room in enumerate(rooms)}
    for number, (room, axes) in enumerate(learning.items()):
        axes.set(xlabel="steps", ylabel="reward" if number % columns == 0 else "")
        axes.locator_params(axis="x", nbins=3)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:,.0f}k" if value else "0")
        if not single:
            axes.set_title(room, color=COLOUR["ink"], size=PAGE_FONT_SIZE)
    return figure, learning, figure.add_subplot(grid[0, 1] if single else grid[rows, :])


def _with_cause(row: Row, share: Fraction | None, release: Release) -> Row:
    """Explain a lower reward: by the share of successes that a guess can reach, or by the tests of transfer."""
    claim = row.claim
    if claim is None or row.verdict is not Verdict.WORSE:
        return row
    if share is not None and isinstance(claim.value, float) and claim.value > share:
        reason = f"by the rules of {release}, a guess succeeds in at most {float(share):.2f} of the episodes"
        return with_reason(row, reason)
    cause = CAUSES.get((claim.subject.network, claim.quantity.removeprefix("reward in ")))
    return row if cause is None else with_reason(row, cause)


def _random_agent() -> ActorCritic:
    """Return an agent that chooses all actions with equal probability."""
    agent = build_grid_agent("elman", hidden_size=1)
    nn.init.zeros_(agent.linear_readout.weight)
    return agent


def _play(agent: ActorCritic, room: BatchedRoom, episodes: int, seed: int) -> EpisodeReturns:
    """Run an agent for some episodes with new levels, at most `TOGETHER` at the same time."""
    sizes = [min(TOGETHER, episodes - begin) for begin in range(0, episodes, TOGETHER)]
    parts = [play_episodes(agent, room, size, seed * len(sizes) + part) for part, size in enumerate(sizes)]
    return EpisodeReturns(torch.cat([part.rewards for part in parts]), torch.cat([part.lengths for part in parts]))


def _rewards(played: EpisodeReturns) -> dict[str, float]:
    return {"mean": round(played.mean, 4), "error": round(played.error, 4), "steps": played.lengths.mean().item()}


def _with_error(rewards: Mapping[str, float]) -> str:
    return f"{rewards['mean']:.2f} ± {rewards['error']:.2f}"


def _last(curve: Mapping[str, Sequence[float]]) -> str:
    return f"{curve['reward'][-1]:.2f}" if curve["reward"] else "no episode ended"


def _curve(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return the mean reward and length of the episodes that ended in successive blocks of rollouts."""
    every = max(1, ceil(len(lines) / KEPT_POINTS))
    curve: dict[str, list[float]] = {"step": [], "reward": [], "length": []}
    for end in range(len(lines), 0, -every):
        ended = [line for line in lines[max(0, end - every) : end] if line["episodes"]]
        if ended:
            number = sum(line["episodes"] for line in ended)
            curve["step"].insert(0, lines[end - 1]["step"])
            for name in ("reward", "length"):
                mean = sum(line["episodes"] * line[name] for line in ended) / number
                curve[name].insert(0, float(f"{mean:.4g}"))
    return curve


STUDY = MiniGrid()
