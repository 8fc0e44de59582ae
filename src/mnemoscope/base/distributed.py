"""The rank of this process in a distributed run, read from the variables that torchrun sets. Imports no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass

_REQUIRED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables of torch's `env://` rendezvous; torchrun and other launchers set them."""


class OtherRankError(RuntimeError):
    """Another rank ended the run and reports the reason."""


@dataclass(frozen=True)
class ProcessRank:
    """Rank of this process in a distributed run."""

    rank: int = 0
    """Number of this process, counted from 0 over all machines."""
    world_size: int = 1
    """Number of processes on all machines."""
    local_rank: int = 0
    """Number of this process on this machine, counted from 0."""

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} processes"


def process_rank() -> ProcessRank:
    """Return the rank of this process; rank 0 of 1 unless a launcher started several processes.

    >>> process_rank()
    ProcessRank(rank=0, world_size=1, local_rank=0)
    """
    if not all(os.environ.get(name) for name in _REQUIRED):
        return ProcessRank()
    values = {name: os.environ.get(name, "0") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    try:
        rank, world_size, local_rank = (int(value) for value in values.values())
    except ValueError:
        given = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise ValueError(f"In a distributed run, {given} should be whole numbers.") from None
    return ProcessRank(rank, world_size, local_rank)
