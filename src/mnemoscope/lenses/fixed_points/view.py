"""The state space around fixed points, projected for drawing: points, trajectories and unstable directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.projection import ChosenAxes, Projection, chosen_projection, principal_projection, to_array
from mnemoscope.lenses.fixed_points.result import FixedPoints

MOST_TRAJECTORY_STATES = 30_000
"""Upper limit of the trajectory states that are drawn."""
MOST_DIRECTIONS = 6
"""Upper limit of the unstable directions that are drawn at one point; the fastest come first."""
ARM_LENGTH = 0.1
"""Half the length of a drawn direction, as a fraction of the extent of the points and trajectories."""


@dataclass(frozen=True)
class StateSpaceView:
    """All parts of a drawn state space, in two or three coordinates; a one-dimensional state is drawn over time."""

    labels: tuple[str, ...]
    """Labels of the axes."""
    points: np.ndarray
    """Fixed points (points, dims)."""
    slow: np.ndarray
    """Slow points (slow, dims)."""
    paths: np.ndarray
    """Trajectories (batch, time, dims); NaN where a state was not finite."""
    segments: np.ndarray
    """Unstable directions as line segments (segments, 2, dims)."""
    owners: np.ndarray
    """Index of the fixed point that each segment belongs to (segments,)."""
    principal: bool
    """Whether the axes are principal components instead of the coordinates of the state."""
    notes: tuple[str, ...]
    """Sentences about omitted parts."""
    project: Projection
    """The projection of states to these coordinates."""

    @property
    def opacity(self) -> float:
        """Opacity of the trajectories, lower the more states they have."""
        return min(0.8, max(0.15, 1200 / max(self.paths.shape[0] * self.paths.shape[1], 1)))


def project_state_space(
    fp: FixedPoints,
    trajectories: Float[Tensor, "time batch size"] | None = None,
    axes: ChosenAxes | None = None,
) -> StateSpaceView:
    """Project onto given axes, or principal components of the trajectories, or of the points without trajectories."""
    size = fp.states.shape[1]
    if trajectories is not None and (trajectories.dim() != 3 or trajectories.shape[2] != size):
        raise ValueError(
            f"The trajectories must have shape (time, batch, {size}), as the fixed points have {size} coordinates, but "
            f"have {tuple(trajectories.shape)}. run_with_cache(network, inputs)[1].flat() returns whole states; the "
            f"output of an LSTM or of several layers is a part of them."
        )
    if trajectories is not None and trajectories.numel() == 0:
        trajectories = None
    spare = (vector for _, vector in _unstable_vectors(fp))
    cloud = fp.states if trajectories is None else trajectories.reshape(-1, size)
    project = principal_projection(cloud, spare) if axes is None else chosen_projection(cloud, axes)
    points = project(to_array(fp.states))
    slow = project(to_array(fp.slow.states)) if fp.slow is not None else points[:0]
    drawn, notes = _thin_out(trajectories)
    paths = np.zeros((0, 0, points.shape[1])) if drawn is None else project(drawn).swapaxes(0, 1)
    paths[~np.isfinite(paths).all(-1)] = np.nan
    directions = list(_unstable_vectors(fp))
    owners = np.array([owner for owner, _ in directions], dtype=int)
    extent = max(_width(points), 0.5 * _width(paths.reshape(-1, points.shape[1]))) or 1.0
    arms = ARM_LENGTH * extent * np.array([vector for _, vector in directions]).reshape(-1, size) @ project.axes.T
    segments = np.stack([points[owners] - arms, points[owners] + arms], axis=1)
    if len(fp) and int(fp.unstable.max()) > MOST_DIRECTIONS:
        notes.append(f"At most {MOST_DIRECTIONS} unstable directions are drawn at each point, the fastest ones.")
    if size == 1:
        points, slow, paths, segments = _against_time(points, slow, paths, segments)
    labels = ("time step", "state") if size == 1 else project.labels
    principal = project.share is not None
    return StateSpaceView(labels, points, slow, paths, segments, owners, principal, tuple(notes), project)


def _unstable_vectors(fp: FixedPoints) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (point, unit vector) for each unstable direction; real and imaginary part for a complex pair."""
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


def _thin_out(trajectories: Tensor | None) -> tuple[np.ndarray | None, list[str]]:
    """Reduce trajectories to a number that can be drawn: omit whole trajectories before steps of any one."""
    if trajectories is None:
        return None, []
    time, batch = trajectories.shape[:2]
    kept, stride = min(batch, max(1, MOST_TRAJECTORY_STATES // time)), -(-time // MOST_TRAJECTORY_STATES)
    notes = []
    if kept < batch:
        notes.append(f"{kept} of the {batch} trajectories are drawn.")
    if stride > 1:
        notes.append(f"Only one in {stride} steps of the trajectory is drawn.")
    return to_array(trajectories[::stride, :kept]), notes


def _width(cloud: np.ndarray) -> float:
    cloud = cloud[np.isfinite(cloud).all(1)]
    return float(np.ptp(cloud, axis=0).max()) if len(cloud) else 0.0


def _against_time(
    points: np.ndarray, slow: np.ndarray, paths: np.ndarray, segments: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Add time as the first coordinate of one-dimensional states; fixed points are drawn at the last step."""
    steps = np.broadcast_to(np.arange(paths.shape[1], dtype=float)[:, None], (*paths.shape[:2], 1))
    end = max(paths.shape[1] - 1, 0)

    def at_end(states: np.ndarray) -> np.ndarray:
        return np.concatenate([np.full_like(states, end), states], axis=-1)

    return at_end(points), at_end(slow), np.concatenate([steps, paths], axis=-1), at_end(segments)
