"""The images of a hundred shapes, drawn rather than downloaded."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.relational.outlines import FAMILIES, Ink

SHAPES = 100
"""Number of shapes."""
SIDE = 32
"""Side of an image, in pixels."""
SUPERSAMPLING = 4
"""Drawn pixels per side of an image pixel."""
LEAST_INK, MOST_INK = 0.04, 0.57
"""Least and largest fraction of ink."""
LEAST_DISTANCE = 0.25
"""Least root mean square difference of the pixels of any two shapes, also if one of them is mirrored."""


@cache
def shapes(size: int = SIDE) -> Float[Tensor, "100 32 32"]:
    """Return the shapes, black on white (ink 0, paper 1), `size` pixels high and wide in the middle of 32 x 32.

    They are stars, Fourier blobs, thick lines, arcs and icons of blocks, equally many of each, with 4 to 57% of ink.
    Any two are at least 0.25 apart: with more similar shapes, the accuracy on unseen ones drifts. The hundred shapes
    never change; an option of each task decides which of them it holds out. The tensor is cached and shared: do not
    modify it.

    >>> shapes().shape, shapes(16)[:, 0].min().item()
    (torch.Size([100, 32, 32]), 1.0)
    """
    if not 1 <= size <= SIDE:
        raise ValueError(f"A shape is 1 to {SIDE} pixels high and wide, but size is {size}.")
    ink = torch.from_numpy(_draw_shapes()).to(torch.float32)
    shrunk = torch.nn.functional.adaptive_avg_pool2d(ink, size)
    before = (SIDE - size) // 2
    after = SIDE - size - before
    return 1 - torch.nn.functional.pad(shrunk, (before, after, before, after))


@cache
def _draw_shapes() -> Ink:
    """Draw the shapes, (100, 128, 128), cycling through the families; too faint, full or similar ones are rejected."""
    random = np.random.RandomState(0)  # its numbers are the same in every version of numpy
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
