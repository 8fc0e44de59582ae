"""Temporary changes of torch's process-wide state. One thread at a time may make them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import RLock

import torch

TORCH_STATE = RLock()
"""Held while the global generators, or the number of CPU threads that new threads start with, differ from what the
caller has set. Every such change takes this lock: two that overlap would restore each other's values."""


@contextmanager
def restored_generators(devices: Sequence[int] = ()) -> Generator[None]:
    """Restore the global generators, of the CPU and of these GPUs, after the context.

    `torch.random.fork_rng` alone is not safe in threads: of two contexts that overlap, each draws the numbers of the
    other, and the one that ends last restores a state inside the other.
    """
    with TORCH_STATE, torch.random.fork_rng(devices):
        yield


def present_threads() -> int:
    """Return the number of CPU threads that torch uses in this thread.

    A new thread takes over the number that was set last in any thread. Reading it under the lock keeps it from taking
    over a temporary number of another run for good.
    """
    with TORCH_STATE:
        return torch.get_num_threads()
