"""Speed of trajectories, and the times at which one is nearest to each state of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EDGE = 0.05
"""Share of a path at either end where, with noise, the nearest state may lie beyond it."""
SLOWEST = 0.02
"""Slope below which aligned times do not advance."""


@dataclass(frozen=True)
class Kinematics:
    """The motion of each condition, and its alignment with the reference (times, conditions)."""

    speed: np.ndarray
    """Length of each step; NaN after the end of a condition."""
    aligned: np.ndarray
    """Time at which each condition is nearest to the reference at each of its steps; NaN once either has ended."""
    distance: np.ndarray
    """Distance from the reference there."""
    ratio: np.ndarray
    """Speed of each condition relative to the reference (conditions,)."""


def align_paths(means: np.ndarray, reference: int) -> Kinematics:
    """Return the kinematics of mean trajectories (time, conditions, size), NaN after the end of each."""
    speed = np.linalg.norm(np.diff(means, axis=0), axis=2)
    base = _known(means[:, reference])
    aligned, distance = np.full((2, *means.shape[:2]), np.nan)
    ratio = np.full(means.shape[1], np.nan)
    for condition in range(means.shape[1]):
        path = _known(means[:, condition])
        if len(path) < 2:
            continue
        times, apart = nearest_times(path, base)
        end = len(base) if condition == reference else _end(times, len(path))
        aligned[:end, condition], distance[:end, condition] = times[:end], apart[:end]
        ratio[condition] = _relative_speed(times[:end], len(path))
    return Kinematics(speed, aligned, distance, ratio)


def nearest_times(path: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the time, between steps too, at which a path (time, size) is nearest to each state, and the distance."""
    steps = np.diff(path, axis=0)
    lengths = np.maximum((steps**2).sum(1), 1e-300)  # a step of length 0 is nearest at its beginning
    offset = states[:, None] - path[:-1]  # (states, segments, size)
    share = np.clip((offset * steps).sum(2) / lengths, 0, 1)
    apart = np.linalg.norm(offset - share[:, :, None] * steps, axis=2)
    segment = apart.argmin(1)
    rows = np.arange(len(states))
    return segment + share[rows, segment], apart[rows, segment]


def _end(times: np.ndarray, length: int) -> int:
    """Return the first step of the reference whose nearest state may lie beyond the end of the path."""
    beyond = np.flatnonzero(times >= (1 - EDGE) * (length - 1))
    return int(beyond[0]) if len(beyond) else len(times)


def _relative_speed(times: np.ndarray, length: int) -> float:
    """Return the speed relative to the reference: 1 over the slope of the aligned times, after the path begins.

    It is NaN where these times do not advance: the condition does not follow the reference.
    """
    before = np.flatnonzero(times <= EDGE * (length - 1))
    begin = int(before[-1]) + 1 if len(before) else 0
    if len(times) - begin < 3:
        return np.nan
    slope = np.polyfit(np.arange(begin, len(times)), times[begin:], 1)[0]
    return 1 / slope if slope > SLOWEST else np.nan


def _known(path: np.ndarray) -> np.ndarray:
    """Return the states of a path before its first unknown one."""
    unknown = np.flatnonzero(np.isnan(path).any(1))
    return path[: unknown[0]] if len(unknown) else path
