"""Gaussian mixtures fitted to loadings by expectation maximisation."""

from __future__ import annotations

from math import log, pi

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.connectivity import LoadingMixture, Loadings

RESTARTS = 5
"""Random starts of the fit, of which the likeliest is kept."""
STEPS = 300
"""Largest number of steps of one fit."""
TOLERANCE = 1e-6
"""A fit ends when a step raises the mean log-likelihood of a unit by less."""
RIDGE = 1e-6
"""Variance added to every column, relative to that of the column, so that no population shrinks to a point."""


def fit_mixture(loadings: Loadings, populations: int, seed: int = 0) -> tuple[LoadingMixture, Float[Tensor, ""]]:
    """Return the mixture of Gaussian populations that fits loadings best, and the mean log-likelihood of a unit.

    Expectation maximisation starts several times; every start makes the units that are nearest to some random units
    the first populations. One population has the mean and the covariance of all units.

    >>> loadings = LoadingMixture.from_overlaps(torch.tensor([[1.5]])).sample(2000, seed=0)
    >>> mixture, likelihood = fit_mixture(loadings, 1)
    >>> round(mixture.covariances[0, 0, 1].item(), 1)
    1.5
    """
    check_whole(1, populations=populations)
    table = loadings.table().double()
    size, columns = table.shape
    if size <= columns * populations:
        raise ValueError(
            f"{populations} populations with {columns} columns need more than {columns * populations} units, but there "
            f"are {size}. Fit fewer populations, or fit a larger network."
        )
    scale = table.std(0).clamp_min(1e-12)
    standard, generator = table / scale, torch.Generator().manual_seed(seed)
    fits = [_fit(standard, populations, generator) for _ in range(RESTARTS if populations > 1 else 1)]
    weights, means, covariances, likelihood = max(fits, key=lambda fit: float(fit[3]))
    order = weights.argsort(descending=True)
    dtype = loadings.left.dtype
    mixture = LoadingMixture(
        weights[order].to(dtype),
        (means[order] * scale).to(dtype),
        (covariances[order] * scale * scale[:, None]).to(dtype),
        loadings.widths,
    )
    return mixture, likelihood - scale.log().sum()


def _fit(table: Tensor, populations: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return weights, means, covariances and mean log-likelihood after one start."""
    centres = table[torch.randperm(len(table), generator=generator)[:populations]]
    nearest = torch.cdist(table, centres).argmin(1)
    shares = torch.nn.functional.one_hot(nearest, populations).to(table)
    before = torch.tensor(-torch.inf, dtype=table.dtype)
    weights, means, covariances = _maximise(table, shares)
    for _ in range(STEPS):
        joint = _log_densities(table, means, covariances) + weights.log()
        likelihood = joint.logsumexp(1).mean()
        if likelihood - before < TOLERANCE:
            break
        before = likelihood
        weights, means, covariances = _maximise(table, joint.softmax(1))
    return weights, means, covariances, likelihood


def _maximise(table: Tensor, shares: Float[Tensor, "units populations"]) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights, means and covariances of populations to which units belong by these shares."""
    counts = shares.sum(0).clamp_min(1e-10)
    means = shares.mT @ table / counts[:, None]
    away = table - means[:, None]  # (populations, units, columns)
    covariances = (shares.mT.unsqueeze(2) * away).mT @ away / counts[:, None, None]
    return counts / counts.sum(), means, covariances + RIDGE * torch.eye(table.shape[1]).to(table)


def _log_densities(table: Tensor, means: Tensor, covariances: Tensor) -> Float[Tensor, "units populations"]:
    roots = torch.linalg.cholesky(covariances)
    away = (table - means[:, None]).mT  # (populations, columns, units)
    distances = torch.linalg.solve_triangular(roots, away, upper=False).square().sum(1)
    volumes = roots.diagonal(dim1=1, dim2=2).log().sum(1) + table.shape[1] * log(2 * pi) / 2
    return -(distances / 2).mT - volumes
