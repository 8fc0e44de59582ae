"""High-dimensional states in two or three coordinates: principal components, given directions, or single units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor

from mnemoscope.base.array_types import Float

DIMENSIONS = 3
"""Coordinates of a projection; states with fewer numbers keep theirs."""
LARGEST_SAMPLE = 2000
"""Principal components are computed from at most this many states, drawn at random with a fixed seed."""

ChosenAxes = Mapping[str, Any] | Sequence[int]
"""Directions (size,) of the axes of a figure by name, such as {"choice": readout.weight[0]}, or numbers of units."""


@dataclass(frozen=True)
class Projection:
    """A projection of states (..., size) to at most three coordinates (..., dims), their products with unit vectors."""

    centre: np.ndarray
    """State that is projected to the origin (size,)."""
    axes: np.ndarray
    """Rows of unit length (dims, size), orthogonal unless they were given."""
    share: tuple[float, ...] | None
    """Share of the variance along each axis; None where the axes are the coordinates of the states."""
    names: tuple[str, ...] = ()
    """Names of axes that were given; empty for others."""

    def __call__(self, states: np.ndarray) -> np.ndarray:
        return (states - self.centre) @ self.axes.T

    @property
    def labels(self) -> tuple[str, ...]:
        """One label per axis."""
        if self.names:
            return self.names
        if self.share is None:
            return tuple(f"state {axis + 1}" for axis in range(len(self.axes)))
        return tuple(
            f"PC {axis + 1} ({share:.0%})" if share > 0 else f"direction {axis + 1}"
            for axis, share in enumerate(self.share)
        )


def principal_projection(
    states: Float[Tensor, "points size"], spare_directions: Iterable[np.ndarray] = ()
) -> Projection:
    """Return the projection onto the leading principal components of the states.

    States of up to three dimensions keep their coordinates. Where the states span fewer than three dimensions (a
    single point, say), `spare_directions` and then the first coordinates supply the missing axes.
    """
    size = states.shape[1]
    if size <= DIMENSIONS:
        return Projection(np.zeros(size), np.eye(size), None)
    sample = _finite_sample(states)
    centre = sample.mean(0) if len(sample) else np.zeros(size)
    shares, found = _principal_components(sample - centre)
    if len(found) < DIMENSIONS:
        found = _complete_basis(found, chain(spare_directions, np.eye(min(size, 6), size)))
    axes = np.array(found)
    axes *= np.sign(np.take_along_axis(axes, np.abs(axes).argmax(1)[:, None], 1))  # the same sign in every run
    return Projection(centre, axes, (*shares, 0.0, 0.0, 0.0)[:DIMENSIONS])


def chosen_projection(states: Float[Tensor, "points size"], axes: ChosenAxes) -> Projection:
    """Return the projection onto one to three given directions or units.

    Coordinates are products with the directions, scaled to unit length; directions that are not orthogonal are kept as
    they are. With one direction, the second axis is the first principal component of the rest of the states.
    """
    size = states.shape[1]
    given = {name: _direction(name, axis, size) for name, axis in axes.items()} if isinstance(axes, Mapping) else {}
    if not isinstance(axes, Mapping):
        for unit in axes:
            if isinstance(unit, bool) or not isinstance(unit, int) or not 0 <= unit < size:
                raise ValueError(f"axes as numbers are units from 0 to {size - 1}, but {unit!r} was given.")
            given[f"unit {unit}"] = np.eye(size)[unit]
    if not 1 <= len(given) <= min(DIMENSIONS, size):
        raise ValueError(f"A figure has 1 to {min(DIMENSIONS, size)} different axes here, but {len(given)} were given.")
    names, rows = tuple(given), np.stack(list(given.values()))
    if len(rows) > 1 or size == 1:
        return Projection(np.zeros(size), rows, None, names)
    sample = _finite_sample(states)
    rest = sample - (sample @ rows[0])[:, None] * rows[0]
    centre = rest.mean(0) if len(rest) else np.zeros(size)
    found = _complete_basis([rows[0]], chain(_principal_components(rest - centre)[1], np.eye(min(size, 6), size)))
    return Projection(centre, np.stack(found[:2]), None, (*names, f"PC 1 without {names[0]}"))


def _direction(name: str, axis: Any, size: int) -> np.ndarray:
    direction = to_array(axis) if isinstance(axis, Tensor) else np.asarray(axis, dtype=float)
    if direction.shape != (size,):
        raise ValueError(f"The axis {name!r} must have {size} numbers, but its shape is {direction.shape}.")
    length = float(np.linalg.norm(direction))
    if not 0 < length < np.inf:
        raise ValueError(f"The axis {name!r} must be a finite direction of a length above 0.")
    return direction / length


def join_lines(lines: np.ndarray) -> np.ndarray:
    """Concatenate lines (lines, length, dims) to one (-1, dims), with a row of NaN after each line as a gap."""
    gap = np.full((lines.shape[0], 1, lines.shape[2]), np.nan)
    return np.concatenate([lines, gap], axis=1).reshape(-1, lines.shape[2])


def to_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor as a float64 array on the CPU."""
    return tensor.detach().cpu().double().numpy()


def _finite_sample(states: Tensor) -> np.ndarray:
    """Return the finite states among at most `LARGEST_SAMPLE` of them."""
    if len(states) > LARGEST_SAMPLE:
        chosen = np.random.default_rng(0).choice(len(states), LARGEST_SAMPLE, replace=False)
        states = states[chosen.tolist()]
    sample = to_array(states)
    return sample[np.isfinite(sample).all(1)]


def _principal_components(centred: np.ndarray) -> tuple[list[float], list[np.ndarray]]:
    """Return variance shares and axes of the leading components: three, or as many as the states span."""
    wide = len(centred) < centred.shape[1]
    powers, vectors = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    floor = max(1e-10 * powers.max(initial=0), 1e-24 * len(centred))  # the variance that rounding alone produces
    leading = [mode for mode in range(len(powers))[: -DIMENSIONS - 1 : -1] if powers[mode] > floor]
    axes = [centred.T @ vectors[:, mode] / powers[mode] ** 0.5 if wide else vectors[:, mode] for mode in leading]
    return [float(powers[mode] / powers.sum()) for mode in leading], axes


def _complete_basis(axes: list[np.ndarray], candidates: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Extend orthonormal axes to three by the components of the candidates orthogonal to them (Gram-Schmidt)."""
    for candidate in candidates:
        rest = candidate.astype(float)
        for axis in [*axes, *axes]:  # twice, against rounding
            rest = rest - (axis @ rest) * axis
        length = np.linalg.norm(rest)
        if length > 1e-6:
            axes = [*axes, rest / length]
        if len(axes) == DIMENSIONS:
            break
    return axes
