"""Temporary changes of the state of torch and of the processor: generators, threads, denormal numbers.

One thread at a time may change what the whole process shares.
"""

from __future__ import annotations

import sys
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


@contextmanager
def flushed_denormals() -> Generator[None]:
    """Count denormal numbers, below 1.2e-38 in float32 and 2.2e-308 in float64, as 0, if torch uses one thread.

    Gradients that vanish over many steps become such numbers, and so do Adam's moments of weights without a gradient.
    Processors are many times slower with them. With several threads nothing changes: those that start in the context
    would inherit the setting and keep it, so that a part of every later product would be flushed.
    """
    if torch.get_num_threads() > 1:
        yield
        return
    before = sys.float_info.min / 2 == 0  # measured, because torch does not report its setting
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
