"""Parts of the scans on the CPU: pieces of a sequence that stay in the cache, and the steps that hold a state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def leaky_mix(leak: float, like: np.ndarray) -> Callable[..., np.ndarray]:
    """Return a function `mix(x, z, out)` that writes `(1 - leak) x + leak z` into `out`, for arrays like this one.

    It overwrites z. As in `torch.lerp`, the formula starts from the nearer end, so that a leak of 1 yields z exactly.
    """
    factor = np.full_like(like, leak if leak < 0.5 else leak - 1)  # numpy takes longer to convert a number

    def from_x(x: np.ndarray, z: np.ndarray, out: np.ndarray) -> np.ndarray:
        np.multiply(np.subtract(z, x, out=z), factor, out=z)
        return np.add(x, z, out=out)

    def from_z(x: np.ndarray, z: np.ndarray, out: np.ndarray) -> np.ndarray:
        difference = np.subtract(z, x)
        return np.add(z, np.multiply(difference, factor, out=difference), out=out)

    return from_x if leak < 0.5 else from_z
