"""A hundred shapes to reason about, drawn rather than downloaded."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.relational.outlines import FAMILIES, Ink

SHAPES = 100
SIDE = 32
SUPERSAMPLING = 4
LEAST_INK, MOST_INK = 0.04, 0.57
LEAST_DISTANCE = 0.25
"""Root mean square over the pixels between any two shapes, also if one of them is mirrored."""


@cache
def shapes(size: int = SIDE) -> Float[Tensor, "100 32 32"]:
    """The shapes, black on white (ink 0, paper 1), `size` pixels high and wide in the middle of 32 x 32.

    Stars, Fourier blobs, thick lines, arcs and icons of blocks in turn, as many of each, with 4 to 57% of ink and any
    two at least 0.25 apart: shapes that are more alike let the accuracy on unseen ones drift. Always the same hundred;
    which of them a task holds out is the task's own option. The tensor is kept and shared: do not write into it.

    >>> shapes().shape, shapes(16)[:, 0].min().item()
    (torch.Size([100, 32, 32]), 1.0)
    """
    if not 1 <= size <= SIDE:
        raise ValueError(f"A shape is 1 to {SIDE} pixels high and wide, but size is {size}.")
    ink = torch.from_numpy(_drawn()).to(torch.float32)
    shrunk = torch.nn.functional.adaptive_avg_pool2d(ink, size)
    before = (SIDE - size) // 2
    after = SIDE - size - before
    return 1 - torch.nn.functional.pad(shrunk, (before, after, before, after))


@cache
def _drawn() -> Ink:
    """(100, 128, 128): shapes that are neither too faint, too full nor too like an earlier one, in turn by family."""
    random = np.random.RandomState(0)  # whose numbers are the same in every version of numpy
    kept: list[Ink] = []
    seen = np.empty((0, SIDE * SIDE))
    while len(kept) < SHAPES:
        ink = FAMILIES[len(kept) % len(FAMILIES)](SIDE * SUPERSAMPLING, random)
        pixels = ink.reshape(SIDE, SUPERSAMPLING, SIDE, SUPERSAMPLING).mean((1, 3))
        distances = np.sqrt(((seen - pixels.ravel()) ** 2).mean(1))
        if LEAST_INK <= pixels.mean() <= MOST_INK and (distances >= LEAST_DISTANCE).all():
            kept.append(ink)
            seen = np.concatenate([seen, pixels.reshape(1, -1), pixels[:, ::-1].reshape(1, -1)])
    return np.stack(kept)
