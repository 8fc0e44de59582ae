"""One step of all copies of a room: the action, the next level where an episode ends, and the view."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int, Num
from mnemoscope.kernels.devices import no_triton
from mnemoscope.training.reinforcement.grid.codes import EMPTY
from mnemoscope.training.reinforcement.grid.levels import Levels
from mnemoscope.training.reinforcement.grid.rules import RULES, Position, act
from mnemoscope.training.reinforcement.grid.view import views


class Stepped(NamedTuple):
    """Result of a step."""

    position: Position
    """State of the copies, in the next level where an episode ended."""
    level: Int[Tensor, " batch"]
    observations: Num[Tensor, "batch 7 7 3"]
    rewards: Float[Tensor, " batch"]
    ended: Bool[Tensor, " batch"]


def step_rooms(
    levels: Levels,
    position: Position,
    level: Int[Tensor, " batch"],
    actions: Int[Tensor, " batch"],
    copies: int,
) -> Stepped:
    """Act in all copies; an episode that ends is followed by the level `copies` after its own."""
    if no_triton("step of rooms", level.device) is None:
        from mnemoscope.training.reinforcement.grid import triton_step

        return Stepped(*triton_step.step(levels, position, level, actions, copies))
    return step_by_operations(levels, position, level, actions, copies)


def step_by_operations(
    levels: Levels, position: Position, level: Int[Tensor, " batch"], actions: Int[Tensor, " batch"], copies: int
) -> Stepped:
    """Act by operations of torch, on any device."""
    after, judged = act(position, actions, RULES[levels.rule], levels.width)
    ended = judged.ended | (after.steps >= levels.limit)
    rewards = torch.where(judged.succeeded, levels.rewards[after.steps], 0.0)
    level = torch.where(ended, (level + copies) % len(levels.squares), level)
    new = Position(
        *(
            torch.where(ended.view(-1, *(1,) * (old.dim() - 1)), fresh, old)
            for fresh, old in zip(first_position(levels, level), after, strict=True)
        )
    )
    return Stepped(new, level, views(new, levels.width, levels.occluded), rewards, ended)


def first_position(levels: Levels, level: Int[Tensor, " batch"]) -> Position:
    """Return the state of copies at the start of these levels."""
    none = torch.zeros_like(level)
    return Position(
        levels.squares[level], levels.place[level], levels.direction[level], none + EMPTY, none, levels.targets[level]
    )
