"""The images of a hundred shapes, drawn rather than downloaded: families of random shapes, and a selection of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from numpy.random import RandomState
from torch import Tensor

from mnemoscope.base.array_types import Float

Ink = np.ndarray
"""Booleans, (side, side): True where there is ink."""
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
    random = RandomState(0)  # its numbers are the same in every version of numpy
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


def star(side: int, random: RandomState) -> Ink:
    """Draw a star of three to nine points around its centre, sometimes hollow."""
    radius, angle = _polar(side, (0.0, 0.0))
    points, turn = random.randint(3, 10), random.uniform(0, 2 * np.pi)
    outer, depth = random.uniform(0.6, 0.95), random.uniform(0.2, 0.8)
    phase = (points * (angle + turn) / (2 * np.pi)) % 1
    edge = outer * (1 - depth * np.abs(2 * phase - 1))  # one minimum and one maximum per point
    return _hollow(radius / edge, random)


def blob(side: int, random: RandomState) -> Ink:
    """Draw a closed curve whose radius is a Fourier series of the angle, sometimes hollow."""
    radius, angle = _polar(side, tuple(random.uniform(-0.15, 0.15, 2)))
    orders = np.arange(1, 6)
    sizes = random.normal(size=5) * 0.35 / np.sqrt(orders)
    phases = random.uniform(0, 2 * np.pi, 5)
    waves = sum(a * np.cos(k * angle + p) for a, k, p in zip(sizes, orders, phases, strict=True))
    return _hollow(radius / (0.5 * np.exp(waves)), random)


def line(side: int, random: RandomState) -> Ink:
    """Draw a thick line through three to six corners, sometimes closed."""
    corners = random.uniform(size=(random.randint(3, 7), 2))
    low, high = corners.min(0), corners.max(0)
    corners = (2 * corners - low - high) * 0.8 / (high - low).max()  # from -0.8 to 0.8 along the longer side
    if random.uniform() < 0.5:
        corners = np.concatenate([corners, corners[:1]])
    y, x = _grid(side)
    points = np.stack([y, x], -1)[:, :, None]  # (side, side, 1, 2)
    start, along = corners[:-1], np.diff(corners, axis=0)
    position = ((points - start) * along).sum(-1) / (along**2).sum(-1)
    nearest = start + np.clip(position, 0, 1)[..., None] * along
    return (np.linalg.norm(points - nearest, axis=-1) < random.uniform(0.06, 0.16)).any(-1)


def arcs(side: int, random: RandomState) -> Ink:
    """Draw two to four thick arcs around different centres."""
    ink = np.zeros((side, side), dtype=bool)
    for _ in range(random.randint(2, 5)):
        radius, angle = _polar(side, tuple(random.uniform(-0.4, 0.4, 2)))
        begin, extent = random.uniform(0, 2 * np.pi), random.uniform(0.3, 1) * 2 * np.pi
        ring = np.abs(radius - random.uniform(0.2, 0.75)) < random.uniform(0.05, 0.15)
        ink |= ring & ((angle - begin) % (2 * np.pi) < extent)
    return ink


def icon(side: int, random: RandomState) -> Ink:
    """Draw random squares of a grid with four to six rows, sometimes mirror-symmetric."""
    number = random.randint(4, 7)
    filled = random.uniform(size=(number, number)) < random.uniform(0.3, 0.6)
    if random.uniform() < 0.5:
        filled |= filled[:, ::-1]
    y, x = _grid(side)
    row, column = (np.floor((position / 0.9 + 1) / 2 * number).astype(int) for position in (y, x))
    inside = (row >= 0) & (row < number) & (column >= 0) & (column < number)
    return inside & filled[row.clip(0, number - 1), column.clip(0, number - 1)]


FAMILIES: tuple[Callable[[int, RandomState], Ink], ...] = (star, blob, line, arcs, icon)


def _grid(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of the pixels of the square from -1 to 1: rows downwards, columns to the right."""
    centres = (np.arange(side) + 0.5) / side * 2 - 1
    y, x = np.meshgrid(centres, centres, indexing="ij")
    return y, x


def _polar(side: int, centre: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    y, x = _grid(side)
    return np.hypot(y - centre[0], x - centre[1]), np.arctan2(y - centre[0], x - centre[1])


def _hollow(distance: np.ndarray, random: RandomState) -> Ink:
    """Return the pixels within the edge, at distance 1; a third of the shapes have a hole."""
    hole = random.uniform(0.4, 0.75) if random.uniform() < 1 / 3 else 0.0
    return (distance < 1) & (distance >= hole)
