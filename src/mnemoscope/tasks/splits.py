"""Splits of a task, and the seed of each of their batches."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal, get_args

Split = Literal["train", "validation", "test"]


def check_request(size: int, number: int, split: Split) -> None:
    """Whether there can be a batch of that size and number in that split."""
    if size < 1 or number < 0:
        raise ValueError(f"A batch has at least one example and a number from 0 on, but {size=} and {number=}.")
    if split not in get_args(Split):
        raise ValueError(f'split must be "train", "validation" or "test", but is {split!r}.')


def generator_seed(seed: int, number: int, split: Split) -> int:
    """31 hashed bits and one that says whether the batch is held out from training.

    The generator on the CPU uses 32 bits of its seed, so that a hash alone could let a training batch be a test batch;
    the last bit excludes it.
    """
    hashed = int.from_bytes(sha256(f"{split} {seed} {number}".encode()).digest()[:4])
    return hashed >> 1 << 1 | (split != "train")
