"""Copies of a MiniGrid room that take their steps together, as operations on tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.training.reinforcement.environments import Outcome, episode_seed
from mnemoscope.training.reinforcement.grid.draws import draw_in_room
from mnemoscope.training.reinforcement.grid.levels import Levels, Release, generate_levels, open_room
from mnemoscope.training.reinforcement.grid.rules import Position
from mnemoscope.training.reinforcement.grid.stepping import first_position, step_rooms
from mnemoscope.training.reinforcement.grid.view import views
from mnemoscope.training.seeding import seeded


@dataclass(frozen=True)
class BatchedRoom:
    """A MiniGrid room for `train_agent` and `play_episodes` whose copies are tensors on the device of the agent.

    With a pool of levels, episodes, observations and rewards are those of `minigrid(name)`, as long as the pool lasts:
    MiniGrid generates the first `levels` episodes of all copies in advance, and the copies then go through them again.
    Without a pool, every episode has a new level, drawn on the device with the distribution of MiniGrid's generator.
    """

    name: str
    """Name of the room, as `minigrid` takes it."""
    levels: int | None = 16_384
    """Levels in the pool, raised to one per copy; None: new levels for each rollout."""
    release: Release = "minigrid 3"
    """Release of MiniGrid whose rules hold (`levels.Release`)."""

    def environments(
        self, number: int, seed: int = 0, stream: int = 0, device: torch.device | str = "cpu"
    ) -> GridRooms:
        """Return copies of the room; the arguments are those of `Environments`."""
        if self.levels is None:
            check_whole(1, number=number)
            with seeded("levels", stream, seed, device=torch.device(device)):
                return DrawnRooms(self.name, number, self.release, device)
        check_whole(1, number=number, levels=self.levels)
        episodes = max(1, self.levels // number)
        seeds = (episode_seed(stream, copy, episode, seed) for episode in range(episodes) for copy in range(number))
        return GridRooms(generate_levels(self.name, seeds, self.release), number, device)


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
        tensors = {name: part.to(device) for name, part in levels._asdict().items() if isinstance(part, Tensor)}
        self._levels = levels._replace(**tensors)
        self._level = torch.arange(number, device=device)
        self._show(first_position(self._levels, self._level))

    def __len__(self) -> int:
        return len(self._level)

    @property
    def started(self) -> Bool[Tensor, " batch"]:
        """Whether the present observation is the first of an episode."""
        return self._position.steps == 0

    def step(self, actions: Int[Tensor, " acting"], which: Int[Tensor, " acting"] | None = None) -> Outcome:
        """Act in every copy, or in the copies `which`; `observations` and `started` then describe the next step."""
        actions = actions.to(self._level.device)
        if which is None:
            self._position, self._level, self.observations, rewards, ended = step_rooms(
                self._levels, self._position, self._level, actions, len(self)
            )
            return Outcome(rewards, ended)
        which = which.to(self._level.device)
        part = Position(*(each[which] for each in self._position))
        stepped = step_rooms(self._levels, part, self._level[which], actions, len(self))
        self._position = Position(
            *(old.index_copy(0, which, new) for old, new in zip(self._position, stepped.position, strict=True))
        )
        self._level = self._level.index_copy(0, which, stepped.level)
        self.observations = self.observations.index_copy(0, which, stepped.observations)
        return Outcome(stepped.rewards, stepped.ended)

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
        self._show(Position(*(position[name].to(device) for name in Position._fields)))

    def _show(self, position: Position) -> None:
        self._position = position
        self.observations = views(position, self._levels.width, self._levels.occluded)
        """Present observation of each copy, (batch, 7, 7, 3)."""


class DrawnRooms(GridRooms):
    """Copies of one room whose next levels are drawn by `renew` from torch's global generator.

    Args:
        name: name of the room, as `minigrid` takes it.
        number: number of copies.
        release: release of MiniGrid whose rules hold.
        device: device of the copies.

    """

    def __init__(
        self, name: str, number: int, release: Release = "minigrid 3", device: torch.device | str = "cpu"
    ) -> None:
        self._room = open_room(name, release)
        super().__init__(draw_in_room(self._room, number, device), number, device)

    def renew(self, steps: int) -> None:
        """Draw as many levels as the copies can start in `steps` steps; present episodes continue."""
        device = self._level.device
        self._levels = draw_in_room(self._room, steps * len(self), device)
        self._level = torch.arange(len(self), device=device)
