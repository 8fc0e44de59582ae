"""What can be seen of a state space: fixed points, trajectories and unstable directions in two or three coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fixed_points.result import FixedPoints

MOST_CLOUD_STATES = 2000
"""Principal components are taken of at most this many states of the trajectories, drawn at random (always the same)."""
MOST_PATH_STATES = 30_000
"""At most this many states of trajectories are drawn."""
MOST_DIRECTIONS = 6
"""At most this many unstable directions of one point are drawn, the fastest first."""
ARM = 0.1
"""Half the length of a drawn direction, as a share of the extent of what is drawn."""


@dataclass(frozen=True)
class Projection:
    """An orthogonal projection of states (..., size) to at most three coordinates (..., dims)."""

    centre: np.ndarray
    axes: np.ndarray
    """Orthonormal rows (dims, size)."""
    share: tuple[float, ...] | None
    """Share of the variance along each axis; None where the axes are the states' own coordinates."""

    def __call__(self, states: np.ndarray) -> np.ndarray:
        return (states - self.centre) @ self.axes.T

    @property
    def labels(self) -> tuple[str, ...]:
        if self.share is None:
            return tuple(f"state {axis + 1}" for axis in range(len(self.axes)))
        return tuple(
            f"PC {axis + 1} ({share:.0%})" if share > 0 else f"direction {axis + 1}"
            for axis, share in enumerate(self.share)
        )


@dataclass(frozen=True)
class View:
    """All that is drawn of a state space, in two or three coordinates; a one-dimensional state is drawn over time."""

    labels: tuple[str, ...]
    points: np.ndarray
    """Fixed points (points, dims)."""
    slow: np.ndarray
    """Slow points (slow, dims)."""
    paths: np.ndarray
    """Trajectories (batch, time, dims); NaN where a state was not finite."""
    segments: np.ndarray
    """Unstable directions (segments, 2, dims)."""
    owners: np.ndarray
    """The fixed point that each segment belongs to (segments,)."""
    principal: bool
    """Whether the coordinates are principal components, and not the states' own."""
    notes: tuple[str, ...]
    """What was left out of the picture, in sentences."""

    @property
    def opacity(self) -> float:
        """Of the trajectories: the more there are, the fainter."""
        return min(0.8, max(0.15, 1200 / max(self.paths.shape[0] * self.paths.shape[1], 1)))


def principal_projection(fp: FixedPoints, trajectories: Float[Tensor, "time batch size"] | None = None) -> Projection:
    """Principal components of the trajectories, or of the fixed points where there are none.

    States of up to three dimensions keep their own coordinates. Where the cloud is too flat to fix three axes (a single
    point, say), unstable directions and then the first coordinates supply the rest.
    """
    size = fp.states.shape[1]
    if size <= 3:
        return Projection(np.zeros(size), np.eye(size), None)
    cloud = _cloud(fp.states if trajectories is None else trajectories.reshape(-1, size))
    centre = cloud.mean(0) if len(cloud) else np.zeros(size)
    variance, found = _principal(cloud - centre)
    spare = [vector for _, vector in _unstable_vectors(fp)] if len(found) < 3 else []
    axes = np.array(_completed(found, [*spare, *np.eye(min(size, 6), size)], 3))
    axes *= np.sign(np.take_along_axis(axes, np.abs(axes).argmax(1)[:, None], 1))  # a sign of its own, run after run
    return Projection(centre, axes, (*variance, 0.0, 0.0, 0.0)[:3])


def view(fp: FixedPoints, trajectories: Float[Tensor, "time batch size"] | None = None) -> View:
    """Project everything that is drawn of a state space."""
    size = fp.states.shape[1]
    if trajectories is not None and (trajectories.dim() != 3 or trajectories.shape[2] != size):
        raise ValueError(
            f"The trajectories must have shape (time, batch, {size}), as the fixed points have {size} coordinates, "
            f"but have {tuple(trajectories.shape)}."
        )
    if trajectories is not None and trajectories.numel() == 0:
        trajectories = None
    project = principal_projection(fp, trajectories)
    points = project(_array(fp.states))
    slow = project(_array(fp.slow.states)) if fp.slow is not None else points[:0]
    drawn, notes = _thinned(trajectories)
    paths = np.zeros((0, 0, points.shape[1])) if drawn is None else project(drawn).swapaxes(0, 1)
    paths[~np.isfinite(paths).all(-1)] = np.nan
    directions = list(_unstable_vectors(fp))
    owners = np.array([owner for owner, _ in directions], dtype=int)
    arms = ARM * _extent(points, paths) * np.array([vector for _, vector in directions]).reshape(-1, size)
    arms = arms @ project.axes.T
    segments = np.stack([points[owners] - arms, points[owners] + arms], axis=1)
    if len(fp) and int(fp.unstable.max()) > MOST_DIRECTIONS:
        notes.append(f"At most {MOST_DIRECTIONS} unstable directions are drawn at each point, the fastest ones.")
    if size == 1:
        points, slow, paths, segments = _over_time(points, slow, paths, segments)
    labels = ("time step", "state") if size == 1 else project.labels
    return View(labels, points, slow, paths, segments, owners, project.share is not None, tuple(notes))


def strung(pieces: np.ndarray) -> np.ndarray:
    """Lines (pieces, length, dims) as one run of states (-1, dims), with a gap of NaN after each."""
    gap = np.full((pieces.shape[0], 1, pieces.shape[2]), np.nan)
    return np.concatenate([pieces, gap], axis=1).reshape(-1, pieces.shape[2])


def _unstable_vectors(fp: FixedPoints) -> Iterator[tuple[int, np.ndarray]]:
    """(point, unit vector) for each unstable direction; a complex pair spans its plane by real and imaginary part."""
    for point, count in enumerate(fp.unstable.tolist()):
        values, vectors = fp.eigenvalues[point, :count].numpy(), fp.eigenvectors[point, :, :count].numpy()
        parts: list[np.ndarray] = []
        for value, vector in zip(values, vectors.T, strict=True):
            if abs(value.imag) <= 1e-12 * abs(value):
                parts.append(vector.real)
            elif value.imag > 0:
                parts += [vector.real, vector.imag]
        for part in parts[:MOST_DIRECTIONS]:
            length = np.linalg.norm(part)
            if length > 0:
                yield point, part / length


def _cloud(states: Tensor) -> np.ndarray:
    """The finite states, or enough of them."""
    if len(states) > MOST_CLOUD_STATES:
        chosen = np.random.default_rng(0).choice(len(states), MOST_CLOUD_STATES, replace=False)
        states = states[chosen.tolist()]
    cloud = _array(states)
    return cloud[np.isfinite(cloud).all(1)]


def _principal(centred: np.ndarray) -> tuple[list[float], list[np.ndarray]]:
    """Share of the variance and axis of the leading principal components, at most three; fewer for a flatter cloud."""
    wide = len(centred) < centred.shape[1]
    powers, vectors = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    floor = max(1e-10 * powers.max(initial=0), 1e-24 * len(centred))  # what rounding alone makes of a flat cloud
    leading = [mode for mode in range(len(powers))[:-4:-1] if powers[mode] > floor]
    axes = [centred.T @ vectors[:, mode] / powers[mode] ** 0.5 if wide else vectors[:, mode] for mode in leading]
    return [float(powers[mode] / powers.sum()) for mode in leading], axes


def _completed(axes: list[np.ndarray], candidates: list[np.ndarray], dims: int) -> list[np.ndarray]:
    """Orthonormal `axes`, lengthened to `dims` by what the candidates add (Gram-Schmidt)."""
    for candidate in candidates:
        if len(axes) == dims:
            break
        rest = candidate.astype(float)
        for axis in [*axes, *axes]:  # twice, for rounding
            rest = rest - (axis @ rest) * axis
        length = np.linalg.norm(rest)
        if length > 1e-6:
            axes = [*axes, rest / length]
    return axes


def _thinned(trajectories: Tensor | None) -> tuple[np.ndarray | None, list[str]]:
    """Few enough states to draw: whole trajectories are left out before any is thinned."""
    if trajectories is None:
        return None, []
    time, batch = trajectories.shape[:2]
    kept, stride, notes = min(batch, max(1, MOST_PATH_STATES // time)), -(-time // MOST_PATH_STATES), []
    if kept < batch:
        notes.append(f"{kept} of the {batch} trajectories are drawn.")
    if stride > 1:
        notes.append(f"Only one in {stride} steps of the trajectory is drawn.")
    return _array(trajectories[::stride, :kept]), notes


def _extent(points: np.ndarray, paths: np.ndarray) -> float:
    """Of the fixed points, or of half the trajectories where the points lie close together."""
    return max(_width(points), 0.5 * _width(paths.reshape(-1, points.shape[1]))) or 1.0


def _width(cloud: np.ndarray) -> float:
    cloud = cloud[np.isfinite(cloud).all(1)]
    return float(np.ptp(cloud, axis=0).max()) if len(cloud) else 0.0


def _over_time(
    points: np.ndarray, slow: np.ndarray, paths: np.ndarray, segments: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A one-dimensional state against time; the fixed points stand where the trajectories end."""
    steps = np.broadcast_to(np.arange(paths.shape[1], dtype=float)[:, None], (*paths.shape[:2], 1))
    end = max(paths.shape[1] - 1, 0)

    def standing(states: np.ndarray) -> np.ndarray:
        return np.concatenate([np.full_like(states, end), states], axis=-1)

    return standing(points), standing(slow), np.concatenate([steps, paths], axis=-1), standing(segments)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()
