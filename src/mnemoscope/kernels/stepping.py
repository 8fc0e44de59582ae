"""Parts of the scans on the CPU: pieces of a sequence that stay in the cache, and the steps that hold a state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

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
