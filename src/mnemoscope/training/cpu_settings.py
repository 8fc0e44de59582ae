"""Settings of torch on the CPU that hold while a run lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def cpu_threads(number: int | None) -> Iterator[None]:
    """Use so many CPU threads inside the context; None keeps the present number."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if number is None else number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Treat denormal numbers as 0 in this thread inside the context.

    Some CPUs compute many times slower with denormals, and a converged network is full of them: a quarter of Adam's
    moments for an encoder with a saturated softmax, for example. On x86, a step of a Turing machine that has unlearned
    its task takes four times as long.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)  # torch's default; torch cannot report the present setting
