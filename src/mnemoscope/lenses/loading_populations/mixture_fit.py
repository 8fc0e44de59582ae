"""Gaussian mixtures fitted to loadings by expectation maximisation."""

from __future__ import annotations

from math import log, pi
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.connectivity import LoadingMixture, Loadings

STARTS, FIRST_STEPS = 30, 30
"""Random starts of a fit, and the steps of each before they are compared."""
FINISHED = 3
"""Likeliest starts that are continued, of which the likeliest is kept."""
STEPS = 300
"""Largest number of further steps."""
TOLERANCE = 1e-6
"""A fit ends when a step raises the mean log-likelihood of a unit by less."""
RIDGE = 1e-6
"""Variance added to every column, relative to that of the column, so that no population shrinks to a point."""


def fit_mixture(loadings: Loadings, populations: int, seed: int = 0) -> tuple[LoadingMixture, Float[Tensor, ""]]:
    """Return the mixture of Gaussian populations that fits loadings best, and the mean log-likelihood of a unit.

    Expectation maximisation starts many times; every start makes the units that are nearest to some random units the
    first populations. After some steps the likeliest are continued. With few starts, populations that differ in their
    covariances alone are often missed. One population has the mean and the covariance of all units.

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
    standard, generator = table / scale, seeded_generator(seed)
    fits = [_start(standard, populations, generator) for _ in range(STARTS if populations > 1 else 1)]
    for steps, number in ((FIRST_STEPS, FINISHED), (STEPS, 1)):
        fits = [_improved(standard, fit, steps) for fit in fits]
        fits = sorted(fits, key=lambda fit: float(fit.likelihood), reverse=True)[:number]
    weights, means, covariances, likelihood = fits[0]
    order = weights.argsort(descending=True)
    dtype = loadings.left.dtype
    mixture = LoadingMixture(
        weights[order].to(dtype),
        (means[order] * scale).to(dtype),
        (covariances[order] * scale * scale[:, None]).to(dtype),
        loadings.widths,
    )
    return mixture, likelihood - scale.log().sum()


class _Fit(NamedTuple):
    weights: Tensor
    means: Tensor
    covariances: Tensor
    likelihood: Tensor
    """Mean log-likelihood of a unit, one step before these parameters."""


def _start(table: Tensor, populations: int, generator: torch.Generator) -> _Fit:
    """Return the populations of the units that are nearest to some random units."""
    centres = table[torch.randperm(len(table), generator=generator)[:populations]]
    nearest = torch.cdist(table, centres).argmin(1)
    shares = torch.nn.functional.one_hot(nearest, populations).to(table)
    return _Fit(*_maximise(table, shares), table.new_tensor(-torch.inf))


def _improved(table: Tensor, fit: _Fit, steps: int) -> _Fit:
    """Return the fit after so many steps, or after fewer if it improves no more."""
    for _ in range(steps):
        joint = _log_densities(table, fit.means, fit.covariances) + fit.weights.log()
        likelihood = joint.logsumexp(1).mean()
        if likelihood - fit.likelihood < TOLERANCE:
            return fit._replace(likelihood=likelihood)
        fit = _Fit(*_maximise(table, joint.softmax(1)), likelihood)
    return fit


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
