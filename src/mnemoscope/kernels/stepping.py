"""Parts of the scans on the CPU: pieces of a sequence that stay in the cache, and the steps that hold a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = Any
"""A tensor, or a numpy array that shares its memory."""
SHARED_FROM = 32_768
"""Numbers from which torch divides an elementwise operation among threads (its GRAIN_SIZE)."""

PIECE = 2**19
"""Bytes of gates, or of other numbers that are kept for each step, in one piece: they stay in the cache of a core."""


def pieces(like: Tensor, time: int, kept: int) -> list[slice]:
    """Return the steps of each piece; a step keeps `kept` numbers for each of `like` (batch, units)."""
    length = max(1, PIECE // max(1, kept * like.numel() * like.element_size()))
    return [slice(start, min(start + length, time)) for start in range(0, time, length)]


def held_steps(mask: Tensor | None, time: int) -> Sequence[Tensor | None]:
    """Return for each step where the state is held, (batch, 1), or None if there is no mask."""
    return (None,) * time if mask is None else (~mask.unsqueeze(-1)).unbind()


def as_array(x: Tensor) -> np.ndarray:
    """Return the numbers of a tensor on the CPU as an array, which shares its memory unless conj or neg is pending."""
    return x.detach().resolve_conj().resolve_neg().numpy()


class Steps:
    """Elementwise functions for the steps of a scan, with the names and the arguments that torch and numpy share.

    Calls of numpy cost half as much as those of torch, so that numpy computes steps that are too small for several
    threads.
    """

    def __init__(self, state: Tensor) -> None:
        known = state.dtype in (torch.float32, torch.float64) and state.device.type == "cpu"
        self.in_numpy = known and state.numel() < SHARED_FROM
        library = np if self.in_numpy else torch
        self.add, self.multiply, self.divide = library.add, library.multiply, library.divide
        self.maximum = library.maximum

    def writable(self, x: Tensor) -> Array:
        """Return `x` for the functions; writing to the result changes `x`."""
        return x.detach().numpy() if self.in_numpy else x

    def rows(self, x: Tensor) -> Sequence[Array]:
        """Return each step of `x` (time, ...) for the functions."""
        return list(as_array(x)) if self.in_numpy else x.unbind()
