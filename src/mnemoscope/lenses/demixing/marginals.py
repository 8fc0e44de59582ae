"""Marginalisations: the parts of mean activity that depend on time alone, on a condition, and on interactions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

TIME = "time"


def marginal_sets(conditions: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sets of conditions whose effects are separated; the empty set stands for time alone.

    >>> marginal_sets(("stimulus", "choice"))
    [(), ('stimulus',), ('choice',), ('stimulus', 'choice')]
    """
    return [chosen for size in range(len(conditions) + 1) for chosen in combinations(conditions, size)]


def marginal_name(conditions: Sequence[str]) -> str:
    """Return the name of a marginalisation: its conditions, or "time"."""
    return " x ".join(conditions) or TIME


def averaging_matrix(
    conditions: Sequence[str], sizes: Sequence[int], chosen: Sequence[str]
) -> Float[Tensor, "cells cells"]:
    """Return the projection of cell means onto the effect of the chosen conditions.

    It is a Kronecker product: J, all 1/n, averages over a condition, and I - J keeps what depends on it.
    """
    factors = []
    for name, size in zip(conditions, sizes, strict=True):
        mean = torch.full((size, size), 1 / size, dtype=torch.float64)
        factors.append(torch.eye(size, dtype=torch.float64) - mean if name in chosen else mean)
    return reduce(torch.kron, factors)


def marginalise(
    means: Float[Tensor, "time cells units"], averaging: Float[Tensor, "sets cells cells"]
) -> Float[Tensor, "sets time cells units"]:
    """Return the parts of the mean activity, of which the first, for time alone, loses its mean over time.

    The parts are orthogonal to each other, and their sum is the activity without the mean of every unit.
    """
    parts = torch.einsum("scd,tdu->stcu", averaging, means)
    parts[0] -= parts[0].mean(0, keepdim=True)
    return parts
