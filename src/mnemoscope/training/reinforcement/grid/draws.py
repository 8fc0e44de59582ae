"""Levels of MiniGrid rooms drawn as tensors, with the distribution of MiniGrid's own generator.

MiniGrid draws an object's place again until it finds an empty square, so that all empty squares are equally likely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.training.reinforcement.grid.codes import (
    BALL,
    BOX,
    CLOSED,
    COLOURS,
    DOOR,
    EMPTY,
    GOAL,
    KEY,
    LOCKED,
    OUTSIDE,
    STATES,
    code,
)
from mnemoscope.training.reinforcement.grid.levels import MARGIN, Levels, Release, Room, open_room

RED, GREEN, BLUE, YELLOW = 0, 1, 2, 4
"""MiniGrid's numbers for the colours of doors, keys and goals."""


def draw_levels(name: str, number: int, release: Release = "minigrid 3", device: torch.device | str = "cpu") -> Levels:
    """Return random levels of `MiniGrid-<name>-v0`, drawn from torch's global generator of the device.

    >>> draw_levels("MemoryS7", 3).squares.shape
    torch.Size([3, 361])
    """
    return draw_in_room(open_room(name, release), number, device)


def draw_in_room(room: Room, number: int, device: torch.device | str = "cpu") -> Levels:
    """Return what `draw_levels` returns, for a room that is open already."""
    environment, shared = room
    sketch = Sketch(number, environment.width, environment.height, device)
    agent, direction, targets = DRAWS[type(environment).__name__](sketch, environment)
    squares = pad(sketch.squares, (MARGIN,) * 4, value=OUTSIDE).flatten(1).to(torch.uint8)
    return Levels(squares, agent, direction, torch.stack(targets, 1), **shared)._replace(
        rewards=shared["rewards"].to(device)
    )


class Sketch:
    """Squares of many levels while they are drawn. A column or a row is one number, or one per level."""

    def __init__(self, number: int, width: int, height: int, device: torch.device | str) -> None:
        self.number, self.width, self.height, self.device = number, width, height, device
        self.squares = torch.full((number, height, width), EMPTY, device=device)
        self.columns = torch.arange(width, device=device).view(1, 1, width)
        self.rows = torch.arange(height, device=device).view(1, height, 1)

    def whole(self, low: int, high: int | Tensor) -> Int[Tensor, " levels"]:
        """Return a random whole number from `low` to `high - 1` for each level."""
        span = torch.as_tensor(high, device=self.device) - low
        return low + (torch.rand(self.number, dtype=torch.float64, device=self.device) * span).long()

    def distinct(self, kinds: int, chosen: int) -> Int[Tensor, "levels chosen"]:
        """Return `chosen` different numbers below `kinds` for each level, in random order."""
        return torch.rand(self.number, kinds, device=self.device).argsort(1)[:, :chosen]

    def inside(
        self, left: int | Tensor, top: int, right: int | Tensor, bottom: int | Tensor
    ) -> Bool[Tensor, "levels rows columns"]:
        """Return which squares are in a rectangle, without the column `right` and the row `bottom`."""
        columns = (self.columns >= self._per_level(left)) & (self.columns < self._per_level(right))
        return (columns & (self.rows >= top) & (self.rows < self._per_level(bottom))).expand_as(self.squares)

    def build_walls(self, left: int, right: int | Tensor, bottom: int | Tensor) -> None:
        """Build walls around the rectangle from `left` and row 0 to before `right` and `bottom`."""
        border = self.inside(left, 0, right, bottom) & ~self.inside(left + 1, 1, right - 1, bottom - 1)
        self.squares = self.squares.masked_fill(border, OUTSIDE)

    def put(self, codes: int | Tensor, column: int | Tensor, row: int | Tensor) -> None:
        """Put an object on a square of each level."""
        here = (self.columns == self._per_level(column)) & (self.rows == self._per_level(row))
        self.squares = torch.where(here, self._per_level(codes), self.squares)

    def empty_square(self, where: Bool[Tensor, "levels rows columns"] | None = None) -> tuple[Tensor, Tensor]:
        """Return column and row of a random empty square of each level, within `where`."""
        empty = self.squares == EMPTY if where is None else (self.squares == EMPTY) & where
        chances = torch.rand(self.squares.shape, device=self.device).masked_fill(~empty, -1).flatten(1)
        square = chances.argmax(1)
        return square % self.width, square // self.width

    def place(self, column: int | Tensor, row: int | Tensor) -> Int[Tensor, " levels"]:
        """Return the place of a square in `Levels.squares`."""
        place = (row + MARGIN) * (self.width + 2 * MARGIN) + column + MARGIN
        return torch.as_tensor(place, device=self.device).expand(self.number).clone()

    def agent(self, where: Bool[Tensor, "levels rows columns"] | None = None) -> tuple[Tensor, Tensor]:
        """Return place and direction of an agent on a random empty square."""
        return self.place(*self.empty_square(where)), self.whole(0, 4)

    def zeros(self) -> Int[Tensor, " levels"]:
        """Return a zero for each level."""
        return torch.zeros(self.number, dtype=torch.long, device=self.device)

    def _per_level(self, number: int | Tensor) -> Int[Tensor, "levels 1 1"]:
        return torch.as_tensor(number, device=self.device).view(-1, 1, 1)


Drawn = tuple[Tensor, Tensor, tuple[Tensor, Tensor]]
"""Place and direction of the agent, and the two targets."""


def _red_blue_doors(sketch: Sketch, environment: Any) -> Drawn:
    size, left = environment.size, environment.size // 2
    sketch.build_walls(0, sketch.width, sketch.height)
    sketch.build_walls(left, left + size, size)
    agent, direction = sketch.agent(sketch.inside(left, 0, left + size, size))
    red, blue = (left, sketch.whole(1, size - 1)), (left + size - 1, sketch.whole(1, size - 1))
    sketch.put(code(DOOR, RED, CLOSED), *red)
    sketch.put(code(DOOR, BLUE, CLOSED), *blue)
    return agent, direction, (sketch.place(*red), sketch.place(*blue))


def _go_to_object(sketch: Sketch, environment: Any) -> Drawn:
    sketch.build_walls(0, sketch.width, sketch.height)
    kinds, places = torch.tensor([KEY, BALL, BOX], device=sketch.device), []
    for each in sketch.distinct(len(kinds) * COLOURS, environment.numObjs).unbind(1):
        column, row = sketch.empty_square()
        sketch.put((kinds[each // COLOURS] * COLOURS + each % COLOURS) * STATES, column, row)
        places.append(sketch.place(column, row))
    agent, direction = sketch.agent()
    return agent, direction, (_one_of(sketch, places), sketch.zeros())


def _go_to_door(sketch: Sketch, environment: Any) -> Drawn:
    width, height = sketch.whole(5, sketch.width + 1), sketch.whole(5, sketch.height + 1)
    sketch.build_walls(0, width, height)
    doors = (
        (sketch.whole(2, width - 2), sketch.zeros()),
        (sketch.whole(2, width - 2), height - 1),
        (sketch.zeros(), sketch.whole(2, height - 2)),
        (width - 1, sketch.whole(2, height - 2)),
    )
    for door, colour in zip(doors, sketch.distinct(COLOURS, len(doors)).unbind(1), strict=True):
        sketch.put((DOOR * COLOURS + colour) * STATES + CLOSED, *door)
    agent, direction = sketch.agent(sketch.inside(0, 0, width, height))
    return agent, direction, (_one_of(sketch, [sketch.place(*door) for door in doors]), sketch.zeros())


def _memory(sketch: Sketch, environment: Any) -> Drawn:
    end = sketch.whole(4, sketch.width - 2) if environment.random_length else sketch.zeros() + sketch.width - 3
    middle, rows, columns, end_column = sketch.height // 2, sketch.rows, sketch.columns, end.view(-1, 1, 1)
    sketch.build_walls(0, sketch.width, sketch.height)
    start_room = ((rows - middle).abs() == 2) & (columns < 5)
    hallway = ((rows - middle).abs() == 1) & (columns >= 4) & ((columns < end_column) | (columns == 4))
    split = ((columns == end_column) & (rows != middle)) | (columns == end_column + 2)
    sketch.squares = sketch.squares.masked_fill((start_room & (columns > 0)) | hallway | split, OUTSIDE)
    agent = sketch.place(sketch.whole(1, end + 1), middle)
    kinds = torch.tensor([code(KEY, GREEN), code(BALL, GREEN)], device=sketch.device)
    first, upper = sketch.whole(0, 2), sketch.whole(0, 2)
    sketch.put(kinds[first], 1, middle - 1)
    sketch.put(kinds[upper], end + 1, middle - 2)
    sketch.put(kinds[1 - upper], end + 1, middle + 2)
    above, below = sketch.place(end + 1, middle - 1), sketch.place(end + 1, middle + 1)
    same = first == upper
    return agent, sketch.zeros(), (torch.where(same, above, below), torch.where(same, below, above))


def _fetch(sketch: Sketch, environment: Any) -> Drawn:
    sketch.build_walls(0, sketch.width, sketch.height)
    kinds, objects = torch.tensor([KEY, BALL], device=sketch.device), []
    for _ in range(environment.numObjs):
        kind, colour = kinds[sketch.whole(0, len(kinds))], sketch.whole(0, COLOURS)
        objects.append((kind * COLOURS + colour) * STATES)
        sketch.put(objects[-1], *sketch.empty_square())
    agent, direction = sketch.agent()
    return agent, direction, (_one_of(sketch, objects), sketch.zeros())


def _door_key(sketch: Sketch, environment: Any) -> Drawn:
    sketch.build_walls(0, sketch.width, sketch.height)
    sketch.put(code(GOAL, GREEN), sketch.width - 2, sketch.height - 2)
    split = sketch.whole(2, sketch.width - 2)
    sketch.put(code(DOOR, YELLOW, LOCKED), split, sketch.whole(1, sketch.height - 2))
    wall = (sketch.columns == split.view(-1, 1, 1)) & (sketch.squares != code(DOOR, YELLOW, LOCKED))
    sketch.squares = sketch.squares.masked_fill(wall, OUTSIDE)
    left = sketch.inside(0, 0, split, sketch.height)
    column, row = sketch.empty_square(left)
    not_here = (sketch.columns != column.view(-1, 1, 1)) | (sketch.rows != row.view(-1, 1, 1))
    sketch.put(code(KEY, YELLOW), *sketch.empty_square(left & not_here))
    return sketch.place(column, row), sketch.whole(0, 4), (sketch.zeros(), sketch.zeros())


def _one_of(sketch: Sketch, choices: list[Tensor]) -> Int[Tensor, " levels"]:
    """Return one of the choices, each a number per level, with equal probability."""
    return torch.stack(choices, 1).gather(1, sketch.whole(0, len(choices)).unsqueeze(1)).squeeze(1)


DRAWS: dict[str, Callable[[Sketch, Any], Drawn]] = {
    "RedBlueDoorEnv": _red_blue_doors,
    "GoToObjectEnv": _go_to_object,
    "GoToDoorEnv": _go_to_door,
    "MemoryEnv": _memory,
    "FetchEnv": _fetch,
    "DoorKeyEnv": _door_key,
}
"""Functions that draw the levels, by the class of the MiniGrid environment."""
