"""Linear operators of activity: delay embedding, and regression of each step on the one before (HAVOK).

The singular vectors V of the delay embedding are the coordinates, so that every coordinate has the same variance. The
operator A minimises `|V+ - V- A^T|^2 + ridge |A|^2`, where V- and V+ are the coordinates before and after each step
(Ostrow et al. 2023).

The embedding E is tall, and A depends on it by small products only. With `E^T E = W S^2 W^T`, the coordinates are
`V = E W / S`, so that `V-^T V+ = (W / S)^T (E-^T E+) (W / S)`; `delays.py` computes the products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.comparison.delays import Activity, delay_products, embed_delays, is_finite

SMALLEST = 1e-6
"""Singular values below this share of the largest count as 0, since they are computed from their squares."""
VARIANCE = 0.9999
"""Share of the variance that the default rank keeps in every system, unless noise has a larger one."""
LARGEST_RANK = 10
"""Largest default rank."""
DELAYS = 10
"""Default number of delays, if the shortest trial has three times as many steps."""
FEW = 64
"""Size of a matrix up to which all its eigenvectors are computed as fast as the leading ones."""


@dataclass(frozen=True)
class Embedding:
    """The delay embedding of one system in its leading principal coordinates V, which have unit norm."""

    singular_values: Float[np.ndarray, " dims"]
    """The leading singular values, without those that are 0 up to rounding."""
    total: float
    """Sum of the squares of all singular values."""
    noise: float
    """Largest singular value that noise explains; 0 if it was not computed."""
    before: Float[np.ndarray, "dims dims"]
    """`V-^T V-`, over all steps that are followed by another one."""
    following: Float[np.ndarray, "dims dims"]
    """`V-^T V+`, with the coordinates of the next step."""

    @property
    def variance(self) -> Float[np.ndarray, " dims"]:
        """Share of the variance in the first coordinates, cumulated."""
        return np.cumsum(self.singular_values**2) / max(self.total, 1e-300)

    def operator(self, rank: int, ridge: float) -> Float[np.ndarray, "rank rank"]:
        """Return the operator of the first coordinates, padded with zeros if there are fewer than `rank`."""
        used = min(rank, len(self.singular_values))
        square = self.before[:used, :used] + ridge * np.eye(used)
        operator = np.zeros((rank, rank))
        operator[:used, :used] = np.linalg.solve(square, self.following[:used, :used]).T
        return operator


def principal_embedding(
    activity: Float[Tensor, "time trials units"], delays: int, interval: int = 1, rank: int | None = None
) -> Embedding:
    """Return the leading coordinates: `rank`, or as many as a default rank may need.

    The activity is not centred, as in the published method.
    """
    values = np.ascontiguousarray(activity.double().numpy())
    time, trials, units = values.shape
    if delays > 1 and units > FEW:
        values = _principal(values)
    if trials * (time - (delays - 1) * interval) < delays * values.shape[2]:
        return _embedding_of_few_steps(values, delays, interval, rank)
    products = delay_products(values, delays, interval)
    singular_values, axes = _leading_eigenvectors(products.all, rank or LARGEST_RANK)
    axes = axes / singular_values
    return Embedding(
        singular_values,
        total=float(products.all.trace()),
        noise=noise_level(products.all, trials * time) if rank is None else 0.0,
        before=axes.T @ products.before @ axes,
        following=axes.T @ products.following @ axes,
    )


def default_delays(steps: int) -> int:
    """Return the default number of delays for trials of at least this many steps.

    >>> default_delays(100), default_delays(12)
    (10, 4)
    """
    return max(1, min(DELAYS, steps // 3))


def default_rank(embedding: Embedding) -> int:
    """Return the number of coordinates above noise that keep 99.99% of the variance, and 10 at most."""
    above = int((embedding.singular_values > embedding.noise).sum())
    return max(1, min(LARGEST_RANK, above, int((embedding.variance < VARIANCE).sum()) + 1))


def noise_level(products: Float[np.ndarray, "dims dims"], rows: int) -> float:
    """Return the largest singular value that counts as noise, by the optimal hard threshold (Gavish & Donoho 2014).

    Most directions of a delay embedding hold noise, so that the median singular value shows its size. Without noise the
    median is near 0.
    """
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(products), 0))
    shape = min(len(products) / rows, rows / len(products), 1.0)
    return float((0.56 * shape**3 - 0.95 * shape**2 + 1.82 * shape + 1.43) * np.median(values))


def _embedding_of_few_steps(activity: Activity, delays: int, interval: int, rank: int | None) -> Embedding:
    """Return the embedding by the products of its rows, which are fewer than its columns."""
    embedded = embed_delays(activity, delays, interval)
    present = np.isfinite(embedded.sum(2))
    rows = embedded[present]
    products = rows @ rows.T
    values, vectors = _leading_eigenvectors(products, rank or LARGEST_RANK)
    coordinates = np.zeros((*present.shape, len(values)))
    coordinates[present] = vectors
    before = (coordinates[:-1] * present[1:, :, None]).reshape(-1, len(values))
    after = coordinates[1:].reshape(-1, len(values))
    noise = noise_level(products, embedded.shape[2]) if rank is None else 0.0
    return Embedding(values, float(products.trace()), noise, before.T @ before, before.T @ after)


def _principal(activity: Activity) -> Float[np.ndarray, "time trials directions"]:
    """Return the activity in its principal coordinates, without the directions in which it is constant 0."""
    units = activity.shape[2]
    rows = activity.reshape(-1, units)
    rows = rows if is_finite(rows) else rows[~np.isnan(rows).any(1)]
    if len(rows) < units:
        values, vectors = _leading_eigenvectors(rows @ rows.T, units)
        axes = rows.T @ (vectors / values)
    else:
        _, axes = _leading_eigenvectors(rows.T @ rows, units)
    return activity if axes.shape[1] == units else activity @ axes


def _leading_eigenvectors(square: Float[np.ndarray, "n n"], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return singular values and vectors from a matrix of products: the largest first, without those near 0."""
    size = len(square)
    if size <= FEW or 2 * most > size:
        squares, vectors = np.linalg.eigh(square)
    else:
        squares, vectors = eigh(square, subset_by_index=(size - most, size - 1))
    values, vectors = np.sqrt(np.maximum(squares[::-1][:most], 0)), vectors[:, ::-1][:, :most]
    kept = max(1, int((values > SMALLEST * values[0]).sum()))
    return np.maximum(values[:kept], 1e-300), vectors[:, :kept]
