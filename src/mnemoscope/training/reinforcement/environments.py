"""Vectorised environments: a thin layer over gymnasium."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.lazy_imports import import_extra

MakeEnvironment = Callable[[], Any]
"""Function that returns a new `gymnasium.Env` with arrays as observations and actions numbered from 0."""


def minigrid(name: str) -> MakeEnvironment:
    """Return a function that makes the environment `MiniGrid-<name>-v0`.

    An observation is the 7 x 7 squares in front of the agent, without the mission and the direction.

    >>> environment = minigrid("MemoryS7")()
    >>> environment.reset(seed=0)[0].shape
    (7, 7, 3)
    """
    gymnasium = _import_rl("gymnasium")
    _import_rl("minigrid")  # registers its environments
    wrappers = _import_rl("minigrid.wrappers")
    full = f"MiniGrid-{name}-v0"
    if full not in gymnasium.registry:
        known = [key[9:-3] for key in gymnasium.registry if key.startswith("MiniGrid-") and key.endswith("-v0")]
        raise ValueError(f"There is no MiniGrid environment {name!r}. There are {', '.join(known)}.")

    def make() -> Any:
        return wrappers.ImgObsWrapper(gymnasium.make(full, disable_env_checker=True))

    return make


def _import_rl(module: str) -> Any:
    return import_extra(module, "rl", "Reinforcement learning needs")


class Outcome(NamedTuple):
    """Result of one step in several environments."""

    rewards: Float[Tensor, " acting"]
    ended: Bool[Tensor, " acting"]
    """Whether the episode is over: at its goal, or at its limit of steps, which counts as an end like any other."""


class Environments:
    """Copies of one environment, each of which starts a new episode as soon as one has ended.

    An episode depends only on its seed and its actions. Its seed follows from the seed given here, the number of the
    copy and the number of the episode. So `position` describes the environments completely, and `restore` replays it.

    Args:
        make: returns a new copy.
        number: number of copies.
        seed: seed of all episodes.
        stream: two streams with the same seed have no episode in common.
        first: number of the first copy, where the copies before it are elsewhere.

    """

    def __init__(self, make: MakeEnvironment, number: int, seed: int = 0, stream: int = 0, first: int = 0) -> None:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"There must be at least one environment, but number is {number!r}.")
        self.copies = [make() for _ in range(number)]
        self.seed, self.stream, self.first = seed, stream, first
        self.actions = _number_of_actions(self.copies[0])
        self._episodes = [0] * number
        self._done: list[list[int]] = [[] for _ in range(number)]
        """Actions since the start of each copy's episode."""
        self.observations = torch.stack([self._start(copy) for copy in range(number)])
        """Present observation of each copy, (batch, ...)."""

    def __len__(self) -> int:
        return len(self.copies)

    @property
    def started(self) -> Bool[Tensor, " batch"]:
        """Whether the present observation is the first of an episode."""
        return torch.tensor([not done for done in self._done])

    def step(self, actions: Int[Tensor, " acting"], which: Int[Tensor, " acting"] | None = None) -> Outcome:
        """Act in every copy, or in the copies `which`; `observations` and `started` then describe the next step."""
        acting = range(len(self)) if which is None else which.tolist()
        steps = [self._act(copy, action) for copy, action in zip(acting, actions.tolist(), strict=True)]
        observations, rewards, ended = zip(*steps, strict=True)
        new = torch.stack(observations)
        self.observations = new if which is None else self.observations.index_copy(0, which, new)
        return Outcome(torch.tensor(rewards, dtype=torch.float32), torch.tensor(ended))

    def position(self) -> dict[str, Tensor]:
        """Return the number of each copy's episode, the actions so far in it, and the present observation."""
        longest = max(map(len, self._done))
        actions = [[*done, *[-1] * (longest - len(done))] for done in self._done]
        return {
            "episodes": torch.tensor(self._episodes),
            "done": torch.tensor(actions, dtype=torch.long).reshape(len(self), longest),
            "observations": self.observations,
        }

    def restore(self, position: Mapping[str, Tensor]) -> None:
        """Start the episodes of a `position` again, and replay their actions."""
        if len(position["episodes"]) != len(self):
            raise ValueError(f"A position of {len(position['episodes'])} environments does not suit {len(self)}.")
        self._episodes = position["episodes"].tolist()
        observations = []
        for copy, actions in enumerate(position["done"].tolist()):
            observation = self._start(copy)
            for action in actions:
                if action >= 0:
                    observation, _, ended = self._act(copy, action)
                    if ended:
                        raise self._not_deterministic()
            observations.append(observation)
        self.observations = torch.stack(observations)
        if not torch.equal(self.observations, position["observations"]):
            raise self._not_deterministic()

    def _start(self, copy: int) -> Tensor:
        self._done[copy] = []
        seed = episode_seed(self.stream, self.first + copy, self._episodes[copy], self.seed)
        return _as_tensor(self.copies[copy].reset(seed=seed)[0])

    def _act(self, copy: int, action: int) -> tuple[Tensor, float, bool]:
        observation, reward, terminated, truncated, _ = self.copies[copy].step(action)
        self._done[copy].append(action)
        if terminated or truncated:
            self._episodes[copy] += 1
            return self._start(copy), float(reward), True
        return _as_tensor(observation), float(reward), False

    def _not_deterministic(self) -> ValueError:
        return ValueError(
            f"{type(self.copies[0]).__name__} does not reach the same observations by the same seeds and actions, so a "
            f"run in it cannot be resumed: draw its random numbers from np_random, or start again."
        )


def episode_seed(stream: int, copy: int, episode: int, seed: int) -> int:
    """Return the seed of one episode of one copy."""
    return int(np.random.SeedSequence((stream, copy, episode, seed)).generate_state(1)[0])


def _number_of_actions(environment: Any) -> int:
    number = getattr(environment.action_space, "n", None)
    if number is None or getattr(environment.action_space, "start", 0) != 0:
        raise ValueError(
            f"An agent chooses among actions numbered from 0 on (gymnasium.spaces.Discrete), but this environment has "
            f"{environment.action_space}."
        )
    return int(number)


def _as_tensor(observation: Any) -> Tensor:
    if not isinstance(observation, np.ndarray):
        raise ValueError(
            f"An observation must be an array, but is a {type(observation).__name__}; wrap the environment so that it "
            f"shows one, as minigrid.wrappers.ImgObsWrapper does."
        )
    return torch.from_numpy(observation.copy())
