"""k-means with restarts, and the silhouette that judges its clusters."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int

ITERATIONS = 100
"""Most updates of the centres; few data need more than 20."""


def k_means(
    points: Float[Tensor, "points size"], clusters: int, restarts: int, generator: torch.Generator
) -> Int[Tensor, " points"]:
    """Return the cluster of each point, the best of several restarts of Lloyd's algorithm from k-means++ centres."""
    centres = _first_centres(points, clusters, restarts, generator)
    labels = torch.full((restarts, len(points)), -1)
    distances = torch.cdist(points.expand(restarts, -1, -1), centres)
    for _ in range(ITERATIONS):
        distances = torch.cdist(points.expand(restarts, -1, -1), centres)
        before, labels = labels, distances.argmin(2)
        if torch.equal(before, labels):
            break
        members = torch.nn.functional.one_hot(labels, clusters).to(points.dtype)  # (restarts, points, clusters)
        sizes = members.sum(1).unsqueeze(2)
        # An empty cluster moves to the point that is farthest from its centre.
        farthest = points[distances.amin(2).argmax(1)].unsqueeze(1)
        centres = torch.where(sizes > 0, members.mT @ points / sizes.clamp_min(1), farthest)
    return labels[(distances.amin(2) ** 2).sum(1).argmin()]


def _first_centres(points: Tensor, clusters: int, restarts: int, generator: torch.Generator) -> Tensor:
    """Return points drawn with a probability that rises with the squared distance from those already drawn."""
    chosen = torch.randint(len(points), (restarts, 1), generator=generator)
    for _ in range(clusters - 1):
        squares = torch.cdist(points.expand(restarts, -1, -1), points[chosen]).amin(2) ** 2
        squares = torch.where(squares.sum(1, keepdim=True) > 0, squares, 1.0)
        chosen = torch.cat([chosen, torch.multinomial(squares, 1, generator=generator)], 1)
    return points[chosen]


def silhouette(distances: Float[Tensor, "points points"], labels: Int[Tensor, " points"]) -> float:
    """Return the mean of (b - a) / max(a, b) over points (Rousseeuw 1987).

    a is the mean distance from the other points of the same cluster, and b the smallest mean distance from those of
    another. It is 0 for a point alone in its cluster.
    """
    members = torch.nn.functional.one_hot(labels).to(distances.dtype)  # (points, clusters)
    sizes = members.sum(0)
    sums = distances @ members
    own = sizes[labels]
    inner = sums.gather(1, labels.unsqueeze(1))[:, 0] / (own - 1).clamp_min(1)
    outer = (sums / sizes).masked_fill(members.bool() | (sizes == 0), torch.inf).amin(1)
    value = (outer - inner) / torch.maximum(outer, inner).clamp_min(1e-300)
    return float(torch.where(own > 1, value, 0.0).mean())
