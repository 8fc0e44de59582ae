"""Maps with a known slow manifold, and maps without one: the lens is tested on them.

Each is a cell without input. Its manifold lies in the first coordinates of a rotated state, and the other coordinates
decay.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, sin

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.cells import Cell, adapt

Map = Callable[[Tensor], Tensor]


def planted_ring(anisotropy: float, places: int = 3, *, size: int = 6, decay: float = 0.5, seed: int = 0) -> Cell:
    """Return a map onto a circle: the angle a moves by -anisotropy sin(places a) in every step.

    It rests at as many stable as unstable places, and a small difference of angles at a stable place shrinks by the
    factor 1 - places * anisotropy.
    """

    def step(plane: Tensor) -> Tensor:
        return _turned(plane, anisotropy, places, decay)

    return _embedded(step, 2, size, decay, seed)


def planted_cycle(speed: float, *, size: int = 6, decay: float = 0.5, seed: int = 0) -> Cell:
    """Return a map onto a circle that turns by a constant angle in every step: a limit cycle, which holds a phase."""

    def step(plane: Tensor) -> Tensor:
        turned = plane @ torch.tensor([[cos(speed), sin(speed)], [-sin(speed), cos(speed)]]).to(plane)
        return _turned(turned, 0.0, 1, decay)

    return _embedded(step, 2, size, decay, seed)


def planted_torus(anisotropy: float, places: int = 2, *, size: int = 6, decay: float = 0.5, seed: int = 0) -> Cell:
    """Return a map onto the product of two circles, each as in `planted_ring`."""

    def step(planes: Tensor) -> Tensor:
        return torch.cat([_turned(planes[:, rows], anisotropy, places, decay) for rows in ([0, 1], [2, 3])], 1)

    return _embedded(step, 4, size, decay, seed)


def planted_flat(*leaks: float, size: int = 6, decay: float = 0.5, seed: int = 0) -> Cell:
    """Return a linear map with these eigenvalues near 1, one per dimension: a leaky line, plane or higher flat."""
    factors = torch.tensor(leaks, dtype=torch.float64)
    return _embedded(lambda h: h * factors.to(h), len(leaks), size, decay, seed)


def planted_sphere(anisotropy: float, *, size: int = 6, decay: float = 0.5, seed: int = 0) -> Cell:
    """Return a map onto a sphere that moves states away from its equator towards two poles."""

    def step(h: Tensor) -> Tensor:
        radius = h.norm(dim=1, keepdim=True).clamp_min(1e-12)
        moved = h / radius * (1 + anisotropy * torch.tensor([0.0, 0.0, 1.0]).to(h))
        return (1 + decay * (radius - 1)) * moved / moved.norm(dim=1, keepdim=True)

    return _embedded(step, 3, size, decay, seed)


def planted_points(points: Float[Tensor, "points dims"], *, pull: float = 0.05, size: int = 6, seed: int = 0) -> Cell:
    """Return a map that pulls each state towards the nearest of these points: isolated memories, slow or not."""

    def step(h: Tensor) -> Tensor:
        nearest = points.to(h)[torch.cdist(h, points.to(h)).argmin(1)]
        return h + pull * (nearest - h)

    return _embedded(step, points.shape[1], size, 0.5, seed)


def _turned(plane: Tensor, anisotropy: float, places: int, decay: float) -> Tensor:
    """Return states of a plane pulled to the unit circle, with the angle moved along it."""
    angle, radius = torch.atan2(plane[:, 1], plane[:, 0]), plane.norm(dim=1)
    angle, radius = angle - anisotropy * torch.sin(places * angle), 1 + decay * (radius - 1)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1)


def _embedded(step: Map, dims: int, size: int, decay: float, seed: int) -> Cell:
    """Return the map of `dims` coordinates in a space of `size`, rotated at random; other coordinates decay."""
    if size < dims:
        raise ValueError(f"size must be {dims} or more, but is {size}.")
    generator = seeded_generator(seed)
    rotation = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]

    def whole(x: Tensor, state: Tensor) -> Tensor:
        turned = state @ rotation.to(state)
        return torch.cat([step(turned[:, :dims]), decay * turned[:, dims:]], 1) @ rotation.T.to(state)

    return adapt(whole, state_size=size)
