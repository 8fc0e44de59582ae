"""Splits of a task, and the seeds of their batches."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal, get_args

Split = Literal["train", "validation", "test"]


def check_batch_request(size: int, number: int, split: Split) -> None:
    """Raise unless size, number and split describe a batch."""
    if size < 1 or number < 0:
        raise ValueError(f"A batch has at least one example and a number from 0 on, but {size=} and {number=}.")
    if split not in get_args(Split):
        raise ValueError(f'split must be "train", "validation" or "test", but is {split!r}.')


def generator_seed(seed: int, number: int, split: Split) -> int:
    """Return 31 hashed bits, and a last bit that is 1 unless the batch is for training.

    torch's CPU generator uses 32 bits of its seed, so two hashes could coincide. The last bit ensures that no training
    batch equals a held-out one.
    """
    hashed = int.from_bytes(sha256(f"{split} {seed} {number}".encode()).digest()[:4])
    return hashed >> 1 << 1 | (split != "train")
