"""Groups in a matrix of distances: silhouettes, their permutation test, and classical scaling to a plane."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.seeds import seeded_generator

Square = Float[Tensor, "systems systems"]


def silhouettes(distances: Square, groups: Sequence[str]) -> Float[Tensor, " systems"]:
    """Return the silhouette of each system, from -1 to 1 (Rousseeuw 1987); 0 for a system alone in its group.

    It is `(b - a) / max(a, b)`, with the mean distance a to its own group and b to the nearest other group.

    >>> line = torch.tensor([0.0, 1.0, 10.0, 11.0], dtype=torch.float64)
    >>> [round(each, 2) for each in silhouettes((line[:, None] - line).abs(), ["a", "a", "b", "b"]).tolist()]
    [0.9, 0.89, 0.89, 0.9]
    """
    names = sorted(set(groups))
    member = torch.tensor([[group == name for name in names] for group in groups], dtype=torch.float64)
    sums, own = distances @ member, member.bool()
    alone = member.sum(0) @ member.T == 1
    within = sums[own] / (member.sum(0)[None].expand_as(sums)[own] - 1).clamp_min(1)
    nearest = (sums / member.sum(0)).masked_fill(own, torch.inf).amin(1)
    scale = torch.maximum(within, nearest)
    return torch.where(alone | (scale == 0), 0.0, (nearest - within) / torch.where(scale == 0, 1.0, scale))


def permutation_share(distances: Square, groups: Sequence[str], draws: int, seed: int) -> float:
    """Return the share of random assignments to groups whose mean silhouette is at least that of the given one."""
    generator = seeded_generator(seed)
    given = float(silhouettes(distances, groups).mean())
    drawn = []
    for _ in range(draws):
        order: list[int] = torch.randperm(len(groups), generator=generator).tolist()
        drawn.append(float(silhouettes(distances, [groups[place] for place in order]).mean()))
    return (1 + sum(value >= given - 1e-12 for value in drawn)) / (1 + draws)


def scale_to_plane(distances: Square, dims: int = 2) -> tuple[Float[Tensor, "systems dims"], float]:
    """Return points whose distances are close to the given ones (classical scaling), and the relative misfit.

    The misfit is the norm of the differences of distances, divided by that of the distances.
    """
    number = len(distances)
    centre = torch.eye(number, dtype=distances.dtype) - 1 / number
    values, vectors = torch.linalg.eigh(-centre @ distances.square() @ centre / 2)
    values, vectors = values.flip(0)[:dims].clamp_min(0), vectors.flip(1)[:, :dims]
    points = distances.new_zeros(number, dims)
    points[:, : vectors.shape[1]] = vectors * values.sqrt()
    misfit = (torch.cdist(points, points) - distances).norm() / distances.norm().clamp_min(1e-300)
    return points, float(misfit)
