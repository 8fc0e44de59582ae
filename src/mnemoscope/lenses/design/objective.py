"""The objective of memory design: the relative total of the Fisher memory, its gradient and its bound.

A point is a list of tensors: (V, v) for a vector network, (U, V, W) for a matrix network.
"""

from __future__ import annotations

from itertools import count
from math import isfinite, prod

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.design.ascent import Point
from mnemoscope.lenses.design.constraints import Constraint
from mnemoscope.lenses.fisher.lens import fisher_memory
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.operators import spectral_radius
from mnemoscope.lenses.fisher.result import FisherMemory

LARGEST_RADIUS = 1 - 1e-6
"""Spectral radius of a step above which rounding determines the total; the objective is not defined there."""


def network_memory(point: Point, lags: int) -> FisherMemory:
    """Return the Fisher memory of the network at a point, with white noise."""
    if len(point) == 2:
        return fisher_memory(point[0], point[1], lags=lags)
    U, V, W = point
    return fisher_memory(MatrixSystem(U, V, W), lags=lags)


def relative_total(memory: FisherMemory, lags: int | None) -> Float[Tensor, ""]:
    """Return the information of all lags, or of the first ones, in units of that of one signal."""
    return memory.relative if lags is None else memory.curve[:lags].sum() / memory.input_information


def value_and_gradient(point: Point, lags: int | None) -> tuple[float, Point] | None:
    """Return the relative total and its gradient, or None where the network is unstable or amplifies too much."""
    if prod(spectral_radius(matrix) for matrix in point[:-1]) > LARGEST_RADIUS:
        return None
    leaves = [part.detach().requires_grad_() for part in point]
    try:
        value = relative_total(network_memory(leaves, lags or 1), lags)
        gradient = torch.autograd.grad(value, leaves)
    except (ValueError, OverflowError):  # unstable, or amplified beyond float64: the caller shortens the step
        return None
    if not all(bool(torch.isfinite(part).all()) for part in gradient):
        return None
    return value.item(), list(gradient)


def project(point: Point, constraint: Constraint) -> Point:
    """Return the nearest allowed matrices, and the source at length 1, because only its direction counts."""
    *matrices, source = point
    return [*(constraint.nearest(matrix) for matrix in matrices), source / torch.linalg.vector_norm(source)]


def with_best_source(point: Point) -> Point:
    """Return the same matrices with signals in the best direction, which has a closed form over all lags."""
    memory = network_memory([part.detach().requires_grad_() for part in point], 1)  # a route that knows `spatial`
    return [*(part.detach() for part in point[:-1]), memory.best_direction.detach()]


def amplification_bound(shape: tuple[int, ...], largest: float, lags: int | None) -> float:
    """Return `min(size, sum_k 1 / sum_(m <= k) g^(-2m))`, with g the largest singular value of a step.

    In a matrix network g is the product of both norms.
    """
    size, alpha = prod(shape), largest ** (2 * len(shape))
    total = inverse = 0.0
    for k in count() if lags is None else range(lags):
        inverse += alpha**-k
        total += 1 / inverse
        if total >= size or not isfinite(inverse) or (k > 0 and 1 / inverse < 1e-17 * total):
            break
    return min(float(size), total)
