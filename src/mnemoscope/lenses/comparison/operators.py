"""Linear operators of activity: delay embedding, and regression of each step on the one before (HAVOK).

The singular vectors V of the delay embedding are the coordinates, so that every coordinate has the same variance. The
operator A minimises `|V+ - V- A^T|^2 + ridge |A|^2`, where V- and V+ are the coordinates before and after each step
(Ostrow et al. 2023).

The embedding E is tall, and A depends on it by small products only. With `E^T E = W S^2 W^T`, the coordinates are
`V = E W / S`, so that `V-^T V+ = (W / S)^T (E-^T E+) (W / S)`; `delays.py` computes the products. `V-^T V-` lacks only
the last step of each trial, since `V^T V` is the identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.comparison.delays import Activity, Products, delay_products, embed_delays, is_finite

SMALLEST = 1e-6
"""Singular values below this share of the largest count as 0, since they are computed from their squares."""
VARIANCE = 0.9999
"""Share of the variance that the default rank keeps in every system, unless noise has a larger one."""
LARGEST_RANK = 10
"""Largest default rank."""
DELAYS = 10
"""Default number of delays, if the shortest trial has three times as many steps."""
TOGETHER = 1_000_000
"""Numbers in the matrices of products that are computed together."""
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

    def variance(self, rank: int) -> float:
        """Return the share of the variance in the first `rank` coordinates."""
        values = self.singular_values[:rank]
        return float(values @ values) / max(self.total, 1e-300)


def principal_embeddings(
    systems: Sequence[Float[Tensor, "_ _ _"]], delays: int, interval: int = 1, rank: int | None = None
) -> list[Embedding]:
    """Return the leading coordinates of each system (time, trials, units): `rank`, or as many as a default may need.

    The activity is not centred, as in the published method. Systems of the same shape are embedded together.
    """
    activities = [_varying(np.ascontiguousarray(each.numpy(), np.float64), delays) for each in systems]
    embeddings: dict[int, Embedding] = {}
    for numbers in _alike([activity.shape for activity in activities], delays):
        found = _embed_alike([activities[number] for number in numbers], delays, interval, rank)
        embeddings |= zip(numbers, found, strict=True)
    return [embeddings[number] for number in range(len(activities))]


def fit_operators(
    embeddings: Sequence[Embedding], ranks: Sequence[int], size: int, ridge: float
) -> Float[np.ndarray, "systems size size"]:
    """Return the operator of the first coordinates of each embedding, `rank` or all, padded with zeros."""
    before, following = np.zeros((2, len(embeddings), size, size))
    before[:] = np.eye(size)
    for number, (embedding, rank) in enumerate(zip(embeddings, ranks, strict=True)):
        used = min(rank, len(embedding.singular_values))
        before[number, :used, :used] = embedding.before[:used, :used]
        following[number, :used, :used] = embedding.following[:used, :used]
    return np.linalg.solve(before + ridge * np.eye(size), following).mT


def default_delays(steps: int) -> int:
    """Return the default number of delays for trials of at least this many steps.

    >>> default_delays(100), default_delays(12)
    (10, 4)
    """
    return max(1, min(DELAYS, steps // 3))


def default_rank(embedding: Embedding) -> int:
    """Return the number of coordinates above noise that keep 99.99% of the variance, and 10 at most."""
    most = min(LARGEST_RANK, int((embedding.singular_values > embedding.noise).sum()))
    return next((rank for rank in range(1, most) if embedding.variance(rank) >= VARIANCE), max(1, most))


def noise_level(products: Float[np.ndarray, "dims dims"], rows: int) -> float:
    """Return the largest singular value that counts as noise, by the optimal hard threshold (Gavish & Donoho 2014).

    Most directions of a delay embedding hold noise, so that the median singular value shows its size. Without noise the
    median is near 0.
    """
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(products), 0))
    shape = min(len(products) / rows, rows / len(products), 1.0)
    return float((0.56 * shape**3 - 0.95 * shape**2 + 1.82 * shape + 1.43) * np.median(values))


def _alike(shapes: Sequence[tuple[int, int, int]], delays: int) -> Iterator[list[int]]:
    """Return the numbers of systems of the same shape, as many together as need little memory."""
    for shape in dict.fromkeys(shapes):
        numbers = [number for number, each in enumerate(shapes) if each == shape]
        together = max(1, TOGETHER // (delays * shape[2]) ** 2)
        for start in range(0, len(numbers), together):
            yield numbers[start : start + together]


def _embed_alike(systems: list[Activity], delays: int, interval: int, rank: int | None) -> list[Embedding]:
    """Return the embeddings of systems of the same shape."""
    time, trials, units = systems[0].shape
    if trials * (time - (delays - 1) * interval) < delays * units:
        return [_embedding_of_few_steps(activity, delays, interval, rank) for activity in systems]
    products = delay_products(systems, delays, interval)
    singular_values, axes, kept = _leading_eigenvectors(products.all, rank or LARGEST_RANK)
    for number, used in enumerate(kept):
        axes[number, :, used:] = 0.0
    axes = axes / singular_values[:, None]
    last = products.last @ axes
    before, following = np.eye(axes.shape[2]) - last.mT @ last, axes.mT @ products.following @ axes
    noise = [noise_level(each, trials * time) if rank is None else 0.0 for each in products.all]
    totals = products.all.trace(axis1=1, axis2=2).tolist()
    return [
        Embedding(singular_values[number, :used], totals[number], noise[number],
                  before[number, :used, :used], following[number, :used, :used])
        for number, used in enumerate(kept)
    ]  # fmt: skip


def _embedding_of_few_steps(activity: Activity, delays: int, interval: int, rank: int | None) -> Embedding:
    """Return the embedding by the products of its rows, which are fewer than its columns."""
    embedded = embed_delays(activity, delays, interval)
    present = np.isfinite(embedded.sum(2))
    rows = embedded[present]
    products = rows @ rows.T
    values, vectors = _leading(products, rank or LARGEST_RANK)
    coordinates = np.zeros((*present.shape, len(values)))
    coordinates[present] = vectors
    before = (coordinates[:-1] * present[1:, :, None]).reshape(-1, len(values))
    after = coordinates[1:].reshape(-1, len(values))
    noise = noise_level(products, embedded.shape[2]) if rank is None else 0.0
    return Embedding(values, float(products.trace()), noise, before.T @ before, before.T @ after)


def _varying(activity: Activity, delays: int) -> Float[np.ndarray, "time trials directions"]:
    """Return the activity of many units in its principal coordinates, without directions in which it is constant 0."""
    units = activity.shape[2]
    if delays == 1 or units <= FEW:
        return activity
    rows = activity.reshape(-1, units)
    rows = rows if is_finite(rows) else rows[~np.isnan(rows).any(1)]
    if len(rows) < units:
        values, vectors = _leading(rows @ rows.T, units)
        axes = rows.T @ (vectors / values)
    else:
        _, axes = _leading(rows.T @ rows, units)
    return activity if axes.shape[1] == units else activity @ axes


def _leading(square: Float[np.ndarray, "n n"], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest singular values and their vectors from one matrix of products, without those near 0."""
    values, vectors, (kept,) = _leading_eigenvectors(square[None], most)
    return values[0, :kept], vectors[0, :, :kept]


def _leading_eigenvectors(squares: Products, most: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return the largest singular values and their vectors from matrices of products, and how many are not near 0."""
    size = squares.shape[1]
    if size <= FEW or 2 * most > size:
        values, vectors = np.linalg.eigh(squares)
    else:
        found = [eigh(square, subset_by_index=(size - most, size - 1)) for square in squares]
        values, vectors = (np.stack(parts) for parts in zip(*found, strict=True))
    values, vectors = np.sqrt(np.maximum(values[:, ::-1][:, :most], 0)), vectors[:, :, ::-1][:, :, :most]
    kept = (values > SMALLEST * values[:, :1]).sum(1).tolist()
    return np.maximum(values, 1e-300), vectors, [max(1, number) for number in kept]
