"""One number per square of a MiniGrid room, and the properties of squares as tables of these numbers."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int, Num

OBJECTS, COLOURS, STATES = 11, 6, 3
"""Kinds of objects, colours and states of doors in MiniGrid's encoding of a square."""
UNSEEN, EMPTY_OBJECT, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA = range(10)
"""MiniGrid's numbers of objects; 10 is the agent, which is in no square of a room."""
OPEN, CLOSED, LOCKED = range(STATES)
"""MiniGrid's numbers for the states of a door."""
GREY = 5
"""MiniGrid's number for the colour of walls."""


def code(kind: int, colour: int = 0, state: int = 0) -> int:
    """Return the number of a square with this object, colour and state."""
    return (kind * COLOURS + colour) * STATES + state


EMPTY = code(EMPTY_OBJECT)
"""Code of an empty square, and of carrying nothing."""
OUTSIDE = code(WALL, GREY)
"""Code of the walls that an agent sees beyond the edge of a room."""


class Tables(NamedTuple):
    """Properties of the squares by their codes."""

    triples: Num[Tensor, "codes 3"]
    """Object, colour and state, as MiniGrid encodes them."""
    enterable: Bool[Tensor, " codes"]
    """Whether an agent can walk onto the square."""
    portable: Bool[Tensor, " codes"]
    """Whether an agent can pick the object up."""
    transparent: Int[Tensor, " codes"]
    """1 if an agent sees what is behind, else 0."""
    toggled: Int[Tensor, " codes"]
    """Code after a toggle without a key: doors open and close, and boxes, which are empty here, vanish."""
    locked: Bool[Tensor, " codes"]
    """Whether the square is a locked door."""
    key: Int[Tensor, " codes"]
    """Code of the key of a locked door."""
    unlocked: Int[Tensor, " codes"]
    """Code of a locked door after it was opened."""


@cache
def tables(device: str) -> Tables:
    """Return the tables on a device."""
    codes = torch.arange(OBJECTS * COLOURS * STATES)
    kind, colour, state = codes // (COLOURS * STATES), codes // STATES % COLOURS, codes % STATES
    door = kind == DOOR
    swapped = torch.where(door & (state == OPEN), codes + CLOSED, torch.where(door, codes - state, codes))
    locked = door & (state == LOCKED)
    every = Tables(
        triples=torch.stack([kind, colour, state], 1).to(torch.uint8),
        enterable=(kind == EMPTY_OBJECT) | (kind == FLOOR) | (kind == GOAL) | (kind == LAVA) | (door & (state == OPEN)),
        portable=(kind == KEY) | (kind == BALL) | (kind == BOX),
        transparent=((kind != WALL) & ~(door & (state != OPEN))).long(),
        toggled=torch.where(kind == BOX, EMPTY, torch.where(locked, codes, swapped)),
        locked=locked,
        key=(KEY * COLOURS + colour) * STATES,
        unlocked=codes - state,
    )
    return Tables(*(table.to(device) for table in every))
