"""Linear operators of activity: delay embedding, and regression of each step on the one before (HAVOK).

The singular vectors V of the delay embedding are the coordinates, so that every coordinate has the same variance. The
operator A minimises `|V+ - V- A^T|^2 + ridge |A|^2`, where V- and V+ are the coordinates before and after each step
(Ostrow et al. 2023).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float

SMALLEST = 1e-6
"""Singular values below this share of the largest count as 0, since they are computed from their squares."""
VARIANCE = 0.99
"""Share of the variance that the default rank keeps in every system."""
LARGEST_RANK = 10
"""Largest default rank."""
DELAYS = 10
"""Default number of delays, if the shortest trial has three times as many steps."""


@dataclass(frozen=True)
class Embedding:
    """The delay embedding of one system, in its principal coordinates."""

    coordinates: Float[Tensor, "time trials dims"]
    """V: principal coordinates with unit norm, the largest first; NaN after the end of a trial."""
    singular_values: Float[Tensor, " dims"]

    @property
    def variance(self) -> Float[Tensor, " dims"]:
        """Share of the variance in the first coordinates, cumulated."""
        squares = self.singular_values.square()
        return squares.cumsum(0) / squares.sum()

    def operator(self, rank: int, ridge: float) -> Float[Tensor, "rank rank"]:
        """Return the operator of the first coordinates, padded with zeros if there are fewer than `rank`."""
        used = self.coordinates[:, :, :rank]
        before, after = used[:-1].flatten(0, 1), used[1:].flatten(0, 1)
        followed = ~after.isnan().any(1)
        before, after = before[followed], after[followed]
        square = before.T @ before + ridge * torch.eye(used.shape[2], dtype=used.dtype)
        operator = used.new_zeros(rank, rank)
        operator[: used.shape[2], : used.shape[2]] = torch.linalg.solve(square, before.T @ after).T
        return operator


def embed_delays(
    activity: Float[Tensor, "time trials units"], delays: int, interval: int = 1
) -> Float[Tensor, "steps trials dims"]:
    """Return the activity of each step followed by that of earlier steps; NaN after the end of a trial.

    >>> embed_delays(torch.arange(4.0).reshape(4, 1, 1), 2)[:, 0].tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]]
    """
    reach = (delays - 1) * interval
    if len(activity) <= reach + 1:
        raise ValueError(
            f"{delays} delays of {interval} steps need trials of {reach + 2} steps or more, but the longest has "
            f"{len(activity)}. Pass fewer delays."
        )
    last = len(activity)
    return torch.cat([activity[reach - lag : last - lag] for lag in range(0, reach + 1, interval)], 2)


def principal_embedding(activity: Float[Tensor, "time trials units"], delays: int, interval: int = 1) -> Embedding:
    """Return the delay embedding in principal coordinates; the activity is not centred, as in the published method."""
    embedded = embed_delays(_principal(activity.double()), delays, interval)
    present = ~embedded.isnan().any(2)
    rows = embedded[present]
    values, axes = _right_vectors(rows)
    coordinates = embedded.new_full((*embedded.shape[:2], len(values)), torch.nan)
    coordinates[present] = rows @ (axes / values)
    return Embedding(coordinates, values)


def default_delays(steps: int) -> int:
    """Return the default number of delays for trials of at least this many steps.

    >>> default_delays(100), default_delays(12)
    (10, 4)
    """
    return max(1, min(DELAYS, steps // 3))


def default_rank(embeddings: list[Embedding]) -> int:
    """Return the smallest rank that keeps 99% of the variance of every system, and 10 at most."""
    needed = [int((each.variance < VARIANCE).sum()) + 1 for each in embeddings]
    return min(LARGEST_RANK, max(needed))


def _principal(activity: Tensor) -> Tensor:
    """Return the activity in its principal coordinates, without the directions in which it is constant 0."""
    present: Bool[Tensor, "time trials"] = ~activity.isnan().any(2)
    rows = activity[present]
    _, axes = _right_vectors(rows)
    reduced = activity.new_full((*activity.shape[:2], axes.shape[1]), torch.nan)
    reduced[present] = rows @ axes
    return reduced


def _right_vectors(rows: Float[Tensor, "rows columns"]) -> tuple[Tensor, Tensor]:
    """Return singular values above rounding, the largest first, and right singular vectors, by the smaller product."""
    wide = rows.shape[0] < rows.shape[1]
    squares, vectors = torch.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
    values, vectors = squares.flip(0).clamp_min(0).sqrt(), vectors.flip(1)
    kept = max(1, int((values > SMALLEST * values[0]).sum()))
    values, vectors = values[:kept].clamp_min(1e-300), vectors[:, :kept]
    return values, rows.T @ (vectors / values) if wide else vectors
