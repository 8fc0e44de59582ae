"""Rules of MiniGrid's rooms: how an action changes a room, and when an episode ends with which success."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int, Num
from mnemoscope.training.reinforcement.grid.codes import COLOURS, EMPTY, GOAL, LAVA, STATES, code, tables

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, DONE = range(7)
"""MiniGrid's actions."""
PER_OBJECT = COLOURS * STATES
"""Codes per kind of object."""


class Position(NamedTuple):
    """Present state of all copies of a room."""

    squares: Num[Tensor, "batch places"]
    """Code of each square."""
    place: Int[Tensor, " batch"]
    """Place of the agent."""
    direction: Int[Tensor, " batch"]
    """Direction of the agent: right, down, left, up."""
    carried: Int[Tensor, " batch"]
    """Code of the carried object; `EMPTY` for none."""
    steps: Int[Tensor, " batch"]
    """Steps since the start of the episode."""
    targets: Int[Tensor, "batch 2"]
    """Numbers that the rule of the room needs."""


class Judged(NamedTuple):
    """End and success of an action."""

    ended: Bool[Tensor, " batch"]
    succeeded: Bool[Tensor, " batch"]
    """Whether the action earns the reward; it then ends the episode."""


class Rule(NamedTuple):
    """Everything in which one kind of room differs from the others."""

    targets: Callable[[Any, Callable[[Any], int]], tuple[int, int]]
    """Returns the targets of a level from a MiniGrid environment and a function from coordinates to places."""
    judge: str
    """Name in `JUDGES`, or "goal"."""
    picks_up: bool = True
    """Whether objects can be picked up; otherwise the action toggles."""


def act(before: Position, actions: Int[Tensor, " batch"], rule: Rule, width: int) -> tuple[Position, Judged]:
    """Return the positions after an action in every copy, and whether it ends the episodes, limits apart."""
    known = tables(str(before.squares.device))
    if not rule.picks_up:
        actions = torch.where(actions == PICK_UP, TOGGLE, actions)
    front = before.place + steps_ahead(before.direction, width)
    ahead = before.squares.gather(1, front.unsqueeze(1)).squeeze(1).long()
    forward, carried = actions == FORWARD, before.carried
    picks = (actions == PICK_UP) & known.portable[ahead] & (carried == EMPTY)
    drops = (actions == DROP) & (ahead == EMPTY) & (carried != EMPTY)
    opens = known.locked[ahead] & (carried == known.key[ahead])
    toggled = torch.where(opens, known.unlocked[ahead], known.toggled[ahead])
    new_ahead = torch.where(actions == TOGGLE, toggled, torch.where(drops, carried, ahead))
    new_ahead = torch.where(picks, EMPTY, new_ahead).to(before.squares.dtype)
    after = Position(
        before.squares.scatter(1, front.unsqueeze(1), new_ahead.unsqueeze(1)),
        torch.where(forward & known.enterable[ahead], front, before.place),
        (before.direction + (actions == RIGHT).long() - (actions == LEFT).long()) % 4,
        torch.where(picks, ahead, torch.where(drops, EMPTY, carried)),
        before.steps + 1,
        before.targets,
    )
    if rule.judge != "goal":
        return after, JUDGES[rule.judge](before, after, actions, width)
    kind = ahead // PER_OBJECT
    return after, Judged(forward & ((kind == GOAL) | (kind == LAVA)), forward & (kind == GOAL))


def steps_ahead(direction: Int[Tensor, " batch"], width: int) -> Int[Tensor, " batch"]:
    """Return the difference of places between an agent and the square in front of it."""
    across, along = direction % 2, 1 - 2 * (direction // 2)  # right, down, left, up
    return along * (1 + across * (width - 1))


def _doors_in_order(before: Position, after: Position, actions: Tensor, width: int) -> Judged:
    """Judge that the red door (the first target) is open before the blue one opens."""
    red, blue = torch.stack([each.squares.gather(1, before.targets) % STATES == 0 for each in (before, after)]).unbind(
        2
    )  # (before and after, batch)
    return Judged(blue[1] | (red[1] & blue[0]), blue[1] & red[0])


def _announced(before: Position, after: Position, actions: Tensor, width: int) -> Judged:
    """Judge that the agent says "done" next to the first target; opening anything ends the episode."""
    distance = (after.place - before.targets[:, 0]).abs()
    done = actions == DONE
    return Judged(done | (actions == TOGGLE), done & ((distance == 1) | (distance == width)))


def _announced_nearby(before: Position, after: Position, actions: Tensor, width: int) -> Judged:
    """Judge that the agent says "done" on one of the nine squares around the first target, as up to MiniGrid 2.0."""
    distance = (after.place - before.targets[:, 0]).abs()  # rows are far apart: walls surround every room
    done = actions == DONE
    return Judged(done | (actions == TOGGLE), done & ((distance <= 1) | ((distance - width).abs() <= 1)))


def _reached(before: Position, after: Position, actions: Tensor, width: int) -> Judged:
    """Judge that the agent is at the first target; the second one ends the episode too."""
    there = after.place.unsqueeze(1) == before.targets
    return Judged(there.any(1), there[:, 0])


def _fetched(before: Position, after: Position, actions: Tensor, width: int) -> Judged:
    """Judge that the carried object is the first target."""
    return Judged(after.carried != EMPTY, after.carried == before.targets[:, 0])


def _door_places(environment: Any, place: Callable[[Any], int]) -> tuple[int, int]:
    grid = environment.grid
    at = {id(each): (index % grid.width, index // grid.width) for index, each in enumerate(grid.grid)}
    return place(at[id(environment.red_door)]), place(at[id(environment.blue_door)])


def _one_place(environment: Any, place: Callable[[Any], int]) -> tuple[int, int]:
    return place(environment.target_pos), 0


def _two_places(environment: Any, place: Callable[[Any], int]) -> tuple[int, int]:
    return place(environment.success_pos), place(environment.failure_pos)


def _object(environment: Any, place: Callable[[Any], int]) -> tuple[int, int]:
    from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX

    return code(OBJECT_TO_IDX[environment.targetType], COLOR_TO_IDX[environment.targetColor]), 0


def _no_target(environment: Any, place: Callable[[Any], int]) -> tuple[int, int]:
    return 0, 0


JUDGES = {
    "doors in order": _doors_in_order,
    "announced": _announced,
    "announced nearby": _announced_nearby,
    "reached": _reached,
    "fetched": _fetched,
}
"""Functions that judge an action from the positions before and after it, the actions and the width."""
RULES = {
    "RedBlueDoorEnv": Rule(_door_places, "doors in order"),
    "GoToObjectEnv": Rule(_one_place, "announced"),
    "GoToObjectEnv of 2020": Rule(_one_place, "announced nearby"),
    "GoToDoorEnv": Rule(_one_place, "announced"),
    "MemoryEnv": Rule(_two_places, "reached", picks_up=False),
    "FetchEnv": Rule(_object, "fetched"),
    "DoorKeyEnv": Rule(_no_target, "goal"),
}
"""Rules by the class of the MiniGrid environment, and the rule of gym-minigrid 1.0 where it is another one."""
