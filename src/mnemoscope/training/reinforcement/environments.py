"""Environments stepped together: a thin layer over gymnasium."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int

MakeEnvironment = Callable[[], Any]
"""Gives a new `gymnasium.Env` whose observations are arrays and whose actions are numbers from 0 on."""


def need(module: str) -> Any:
    """A module of the `rl` extra."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"Reinforcement learning needs {package}: pip install 'mnemoscope[rl]'.") from error


def minigrid(name: str) -> MakeEnvironment:
    """What makes the environment `MiniGrid-<name>-v0`; it shows the 7 x 7 squares before the agent, and neither the
    mission nor the direction.

    >>> environment = minigrid("MemoryS7")()
    >>> environment.reset(seed=0)[0].shape
    (7, 7, 3)
    """
    gymnasium, wrappers = need("gymnasium"), (need("minigrid"), need("minigrid.wrappers"))[1]
    full = f"MiniGrid-{name}-v0"
    if full not in gymnasium.registry:
        known = [key[9:-3] for key in gymnasium.registry if key.startswith("MiniGrid-") and key.endswith("-v0")]
        raise ValueError(f"There is no MiniGrid environment {name!r}. There are {', '.join(known)}.")

    def make() -> Any:
        return wrappers.ImgObsWrapper(gymnasium.make(full, disable_env_checker=True))

    return make


class Outcome(NamedTuple):
    """What one step of all environments brought."""

    rewards: Float[Tensor, " acting"]
    ended: Bool[Tensor, " acting"]
    """Where the episode is over: at its goal, or at its limit of steps, which counts as an end like any other."""


class Environments:
    """Copies of one environment, each of which begins a new episode as soon as one has ended.

    An episode is determined by its seed, which follows from the seed given here, the copy's number and the episode's,
    and by its actions; so that `position` is all there is to know, and `go_to` finds back to it.

    Args:
        make: gives a new copy.
        number: how many.
        seed: of all episodes.
        stream: of two streams with the same seed no episode is that of the other.

    """

    def __init__(self, make: MakeEnvironment, number: int, seed: int = 0, stream: int = 0) -> None:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"There must be at least one environment, but number is {number!r}.")
        self.copies = [make() for _ in range(number)]
        self.seed, self.stream = seed, stream
        self.actions = _number_of_actions(self.copies[0])
        self._episodes = [0] * number
        self._done: list[list[int]] = [[] for _ in range(number)]
        """Actions since the beginning of each episode."""
        self.observations = torch.stack([self._begin(copy) for copy in range(number)])
        """What each copy shows now, (batch, ...)."""

    def __len__(self) -> int:
        return len(self.copies)

    @property
    def started(self) -> Bool[Tensor, " batch"]:
        """Where the present observation is the first of an episode."""
        return torch.tensor([not done for done in self._done])

    def step(self, actions: Int[Tensor, " acting"], which: Int[Tensor, " acting"] | None = None) -> Outcome:
        """Act in every copy, or in some; `observations` and `started` are then of what comes next."""
        acting = range(len(self)) if which is None else which.tolist()
        seen, rewards, ended = zip(
            *(self._act(*one) for one in zip(acting, actions.tolist(), strict=True)), strict=True
        )
        new = torch.stack(seen)
        self.observations = new if which is None else self.observations.index_copy(0, which, new)
        return Outcome(torch.tensor(rewards, dtype=torch.float32), torch.tensor(ended))

    def position(self) -> dict[str, Tensor]:
        """Which episode each copy is in, what was done there, and what it shows."""
        longest = max(map(len, self._done))
        done = [[*done, *[-1] * (longest - len(done))] for done in self._done]
        return {
            "episodes": torch.tensor(self._episodes),
            "done": torch.tensor(done, dtype=torch.long).reshape(len(self), longest),
            "observations": self.observations,
        }

    def go_to(self, position: Mapping[str, Tensor]) -> None:
        """Begin the episodes of a position again, and act as was done there."""
        if len(position["episodes"]) != len(self):
            raise ValueError(f"A position of {len(position['episodes'])} environments does not suit {len(self)}.")
        self._episodes = position["episodes"].tolist()
        seen = []
        for copy, done in enumerate(position["done"].tolist()):
            last = self._begin(copy)
            for action in done:
                if action >= 0:
                    last, _, ended = self._act(copy, action)
                    if ended:
                        raise self._undetermined()
            seen.append(last)
        self.observations = torch.stack(seen)
        if not torch.equal(self.observations, position["observations"]):
            raise self._undetermined()

    def _begin(self, copy: int) -> Tensor:
        self._done[copy] = []
        seed = np.random.SeedSequence((self.stream, copy, self._episodes[copy], self.seed)).generate_state(1)[0]
        return _as_tensor(self.copies[copy].reset(seed=int(seed))[0])

    def _act(self, copy: int, action: int) -> tuple[Tensor, float, bool]:
        seen, reward, terminated, truncated, _ = self.copies[copy].step(action)
        self._done[copy].append(action)
        if terminated or truncated:
            self._episodes[copy] += 1
            return self._begin(copy), float(reward), True
        return _as_tensor(seen), float(reward), False

    def _undetermined(self) -> ValueError:
        return ValueError(
            f"{type(self.copies[0]).__name__} does not come to the same observations by the same seeds and actions, "
            f"so that a run in it cannot be resumed: draw its random numbers from np_random, or start again."
        )


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
