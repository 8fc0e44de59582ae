"""Which of the processes of one training this is, as torchrun tells each of them. Imports no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass

_TOLD = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets, or anyone else who starts the processes of a training: torch's `env://`."""


class Elsewhere(RuntimeError):  # noqa: N818 (as StopIteration: it says what happened)
    """Another process of the same training has ended it, and tells why itself."""


@dataclass(frozen=True)
class Place:
    """Of a process among those that train together."""

    rank: int = 0
    """Its number, from 0 on."""
    size: int = 1
    """How many there are, on all machines."""
    local: int = 0
    """Its number on this machine."""

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size} processes"


def place() -> Place:
    """Where this process stands; alone, unless it was started as one of several.

    >>> place()
    Place(rank=0, size=1, local=0)
    """
    if not all(os.environ.get(name) for name in _TOLD):
        return Place()
    told = {name: os.environ.get(name, "0") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    try:
        rank, size, local = (int(value) for value in told.values())
    except ValueError:
        given = ", ".join(f"{name}={value!r}" for name, value in told.items())
        raise ValueError(f"Among processes that train together, {given} should be whole numbers.") from None
    return Place(rank, size, local)
