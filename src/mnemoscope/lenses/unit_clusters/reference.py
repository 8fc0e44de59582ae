"""Clusters of units and their quality, beside reference data that have no clusters."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.unit_clusters.clustering import k_means, silhouette


def normalised(variances: Float[Tensor, "units tasks"]) -> Float[Tensor, "units tasks"]:
    """Return the variances of each unit divided by its largest one."""
    return variances / variances.amax(1, keepdim=True)


def best_clusters(
    points: Float[Tensor, "units tasks"], numbers: range, restarts: int, generator: torch.Generator
) -> tuple[Int[Tensor, " units"], Float[Tensor, " numbers"]]:
    """Return the clusters with the largest silhouette, and the silhouette of every number of clusters."""
    distances = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    found = [k_means(points, number, restarts, generator) for number in numbers]
    scores = torch.tensor([silhouette(distances, labels) for labels in found], dtype=torch.float64)
    return found[int(scores.argmax())], scores


def reference_scores(
    variances: Float[Tensor, "units tasks"], numbers: range, restarts: int, draws: int, generator: torch.Generator
) -> Float[Tensor, " draws"]:
    """Return the largest silhouettes of data without clusters.

    A unit's profile is its share of variance in each task. The reference is uniform in the box around the profiles,
    along their principal axes (Tibshirani et al. 2001), so that it keeps their extent and correlation. It is then
    normalised as the data are, because dividing by the largest value pushes points apart towards the faces of a cube.
    """
    profiles = variances / variances.sum(1, keepdim=True)
    centre = profiles.mean(0)
    axes = torch.linalg.svd(profiles - centre, full_matrices=False)[2]
    scores = (profiles - centre) @ axes.T
    low, high = scores.amin(0), scores.amax(0)
    best = torch.zeros(draws, dtype=torch.float64)
    for draw in range(draws):
        drawn = torch.rand(scores.shape, dtype=torch.float64, generator=generator) * (high - low) + low
        fake = (drawn @ axes + centre).clamp_min(1e-12)
        best[draw] = best_clusters(normalised(fake), numbers, restarts, generator)[1].max()
    return best
