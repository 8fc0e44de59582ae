"""Copies of a MiniGrid room that take their steps together, as operations on tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.training.reinforcement.environments import Outcome, episode_seed
from mnemoscope.training.reinforcement.grid.codes import EMPTY
from mnemoscope.training.reinforcement.grid.levels import Levels, generate_levels
from mnemoscope.training.reinforcement.grid.rules import RULES, Position, act
from mnemoscope.training.reinforcement.grid.view import views


@dataclass(frozen=True)
class BatchedRoom:
    """A MiniGrid room for `train_agent` and `play_episodes` whose copies are tensors on the device of the agent.

    Episodes, observations and rewards are those of `minigrid(name)`, as long as the pool of levels lasts: MiniGrid
    generates the first `levels` episodes of all copies in advance, and the copies then go through them again.
    """

    name: str
    """Name of the room, as `minigrid` takes it."""
    levels: int = 16_384
    """Levels in the pool; raised to one per copy."""

    def environments(
        self, number: int, seed: int = 0, stream: int = 0, device: torch.device | str = "cpu"
    ) -> GridRooms:
        """Return copies of the room; the arguments are those of `Environments`."""
        check_whole(1, number=number, levels=self.levels)
        episodes = max(1, self.levels // number)
        seeds = (episode_seed(stream, copy, episode, seed) for episode in range(episodes) for copy in range(number))
        return GridRooms(generate_levels(self.name, seeds), number, device)


class GridRooms:
    """Copies of one room, each of which starts its next level as soon as an episode has ended.

    It has the methods of `Environments`, but its tensors are on a device, and a step waits for nothing.

    Args:
        levels: the levels. Copy c starts its episode e in the level `c + e number`, from 0 again after the last.
        number: number of copies.
        device: device of the copies.

    """

    actions = 7
    """Number of actions."""

    def __init__(self, levels: Levels, number: int, device: torch.device | str = "cpu") -> None:
        check_whole(1, number=number)
        if len(levels.squares) % number:
            raise ValueError(f"{number} copies cannot share {len(levels.squares)} levels; give a multiple of {number}.")
        device = torch.device(device)
        self._levels = levels._replace(**{name: getattr(levels, name).to(device) for name in levels._fields[:4]})
        self._rule = RULES[levels.rule]
        taken = torch.arange(levels.limit + 1, dtype=torch.float64)
        self._rewards = (1 - 0.9 * (taken / levels.limit)).float().to(device)
        self._level = torch.arange(number, device=device)
        self._position = self._start(self._level)
        self._look()

    def __len__(self) -> int:
        return len(self._level)

    @property
    def started(self) -> Bool[Tensor, " batch"]:
        """Whether the present observation is the first of an episode."""
        return self._position.steps == 0

    def step(self, actions: Int[Tensor, " acting"], which: Int[Tensor, " acting"] | None = None) -> Outcome:
        """Act in every copy, or in the copies `which`; `observations` and `started` then describe the next step."""
        actions = actions.to(self._level.device)
        if which is not None:
            which = which.to(self._level.device)
        before = self._position if which is None else Position(*(part[which] for part in self._position))
        level = self._level if which is None else self._level[which]
        after, judged = act(before, actions, self._rule, self._levels.width)
        ended = judged.ended | (after.steps >= self._levels.limit)
        rewards = torch.where(judged.succeeded, self._rewards[after.steps], 0.0)
        level = torch.where(ended, (level + len(self)) % len(self._levels.squares), level)
        new = Position(
            *(
                torch.where(ended.view(-1, *(1,) * (old.dim() - 1)), fresh, old)
                for fresh, old in zip(self._start(level), after, strict=True)
            )
        )
        if which is None:
            self._position, self._level = new, level
        else:
            self._position = Position(
                *(old.index_copy(0, which, part) for old, part in zip(self._position, new, strict=True))
            )
            self._level = self._level.index_copy(0, which, level)
        self._look()
        return Outcome(rewards, ended)

    def position(self) -> dict[str, Tensor]:
        """Return the number of each copy's level and its present state."""
        return {"level": self._level, **self._position._asdict()}

    def restore(self, position: Mapping[str, Tensor]) -> None:
        """Continue at a `position` of equally many copies of the same levels."""
        shapes = {name: part.shape for name, part in self.position().items()}
        if {name: part.shape for name, part in position.items()} != shapes:
            raise ValueError(
                f"A position of {len(position['level'])} copies does not suit {len(self)} copies of this room; give "
                f"the room and the number with which the run began."
            )
        device = self._level.device
        self._level = position["level"].to(device)
        self._position = Position(*(position[name].to(device) for name in Position._fields))
        self._look()

    def _start(self, level: Int[Tensor, " batch"]) -> Position:
        levels = self._levels
        none = torch.zeros_like(level)
        return Position(
            levels.squares[level].long(),
            levels.place[level],
            levels.direction[level],
            none + EMPTY,
            none,
            levels.targets[level],
        )

    def _look(self) -> None:
        self.observations = views(self._position, self._levels.width, self._levels.occluded)
        """Present observation of each copy, (batch, 7, 7, 3)."""
