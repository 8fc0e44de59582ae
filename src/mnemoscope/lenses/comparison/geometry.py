"""Geometric similarity of activity: Procrustes alignment and linear CKA, as cosines between 0 and 1."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

Samples = Float[Tensor, "samples units"]
OtherSamples = Float[Tensor, "samples other"]
"""The same samples of another number of units."""


def centred(activity: Float[Tensor, "time trials units"]) -> Samples:
    """Return the samples of all steps and trials, with mean 0 and norm 1; missing steps are left out."""
    samples = activity.flatten(0, 1)
    samples = samples[~samples.isnan().any(1)].double()
    samples = samples - samples.mean(0)
    return samples / samples.norm().clamp_min(1e-300)


def procrustes_cosine(first: Samples, second: OtherSamples) -> float:
    """Return the largest `<X, Y R>` over orthogonal R: the nuclear norm of `X^T Y` for X and Y of norm 1.

    Units may differ in number: the smaller population is padded with silent units.
    """
    return float(torch.linalg.svdvals(first.T @ second).sum())


def cka_cosine(first: Samples, second: OtherSamples) -> float:
    """Return linear centred kernel alignment: the cosine between `X X^T` and `Y Y^T`."""
    cross = (first.T @ second).square().sum()
    return float(cross / ((first.T @ first).norm() * (second.T @ second).norm()).clamp_min(1e-300))
