"""The drift along a slow manifold: its field, where it rests, the error that it predicts, and noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fixed_points.starts import advance
from mnemoscope.lenses.slow_manifold.curve import Curve
from mnemoscope.lenses.slow_manifold.homology import pairwise_distances
from mnemoscope.lenses.slow_manifold.view import View, as_array

STILL = 1e-11
"""A drift of less than this share of the range per step is rounding."""
NEIGHBOURS = 8
"""States among which the drift on a surface is interpolated."""
FINEST = 0.01
"""Share of the range that a state may move in one step of the integration, if that is several steps of the network."""
MOST_INTEGRATION_STEPS = 300
"""Steps of the integration after which a lifetime counts as unlimited."""


@dataclass(frozen=True)
class CurveDrift:
    """The drift along a curve, at the positions of the states (states,)."""

    curve: Curve
    positions: np.ndarray
    drift: np.ndarray
    """Signed way along the curve in one step."""
    moved: np.ndarray
    """Signed way along the curve in many steps: it has the sign of the drift, and a smaller relative error."""

    @property
    def range(self) -> float:
        """Length of the curve."""
        return self.curve.length

    def field(self, positions: np.ndarray) -> np.ndarray:
        """Return the drift at any positions, interpolated between those of the states."""
        places, drift = self._table
        return np.interp(positions % self.range if self.curve.closed else positions, places, drift)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions in rising order and the drift there; the ends of a closed curve are repeated beyond each other."""
        order = np.argsort(self.positions, kind="stable")
        s, g = self.positions[order], self.drift[order]
        if not self.curve.closed:
            return s, g
        return np.concatenate([s[-1:] - self.range, s, s[:1] + self.range]), np.concatenate([g[-1:], g, g[:1]])

    def place(self, states: np.ndarray) -> np.ndarray:
        """Return the positions of states."""
        return self.curve.project(states)[0]

    def errors(self, later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Return the distance along the curve between positions, as a share of the range."""
        return np.abs(self.curve.difference(later, earlier)) / self.range

    def tangents(self, states: np.ndarray) -> np.ndarray:
        """Return orthonormal tangent vectors (states, 1, size)."""
        return self.curve.project(states)[1][:, None]

    def sign_changes(self, clear: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions at which the drift changes sign, and the states before and after each (changes, 2).

        By default signs count only where the motion stands out from its scatter between neighbours.
        """
        order = np.argsort(self.positions, kind="stable")
        g = self.moved[order]
        if self.still or len(g) < 3:
            return np.zeros(0), np.zeros((0, 2), int)
        scatter = 3 * float(np.median(np.abs(g[1:-1] - 0.5 * (g[:-2] + g[2:])))) if clear else STILL * self.range
        signed = order[np.abs(g) > scatter]
        pairs = np.column_stack([signed, np.roll(signed, -1)])[: len(signed) - (not self.curve.closed)]
        pairs = pairs[self.moved[pairs[:, 0]] * self.moved[pairs[:, 1]] < 0]
        (s, later), (g, after) = self.positions[pairs].T, self.moved[pairs].T
        way = (later - s) % self.range if self.curve.closed else later - s
        places = s + way * g / (g - after)
        return (places % self.range if self.curve.closed else places), pairs

    @property
    def still(self) -> bool:
        """Whether nothing drifts, up to rounding."""
        return _largest(self.drift) <= STILL * self.range


@dataclass(frozen=True)
class SurfaceDrift:
    """The drift on a surface, at the settled states (states, size); positions are states, and distances are chords."""

    positions: np.ndarray
    drift: np.ndarray
    range: float
    """Diameter of the surface."""
    dimension: int

    def field(self, positions: np.ndarray) -> np.ndarray:
        """Return the drift at any states, interpolated among the nearest ones by inverse distance."""
        apart, nearest = self._tree.query(positions, k=min(NEIGHBOURS, len(self.positions)))
        weights = 1 / np.maximum(apart, 1e-9 * self.range) ** 2
        weights /= weights.sum(1, keepdims=True)
        return (weights[:, :, None] * self.drift[nearest]).sum(1)

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.positions)

    def place(self, states: np.ndarray) -> np.ndarray:
        """Return the states themselves."""
        return states

    def errors(self, later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Return the distances between states, as shares of the range."""
        return np.linalg.norm(later - earlier, axis=1) / self.range

    def tangents(self, states: np.ndarray) -> np.ndarray:
        """Return orthonormal tangent vectors (states, dimension, size): local principal components."""
        nearest = self._tree.query(states, k=min(2 * NEIGHBOURS, len(self.positions)))[1]
        around = self.positions[nearest]
        return np.linalg.svd(around - around.mean(1, keepdims=True), full_matrices=False)[2][:, : self.dimension]

    def slowest(self) -> list[int]:
        """Return the states that drift less than their neighbours, where a search for fixed points may start."""
        if self.still:
            return []
        nearest = self._tree.query(self.positions, k=min(NEIGHBOURS, len(self.positions)))[1]
        speed = np.linalg.norm(self.drift, axis=1)
        return np.flatnonzero(speed <= speed[nearest].min(1)).tolist()

    @property
    def still(self) -> bool:
        """Whether nothing drifts, up to rounding."""
        return _largest(self.drift) <= STILL * self.range


Drift = CurveDrift | SurfaceDrift


def drift_on_curve(view: View, states: Float[Tensor, "states size"], curve: Curve, steps: int) -> CurveDrift:
    """Return the part of each state's next step that is tangent to the curve, and its way along it in these steps."""
    position, tangent, _ = curve.project(as_array(view(states)))
    later = curve.project(as_array(view(advance(view.system, states, steps))))[0]
    return CurveDrift(curve, position, (_motion(view, states) * tangent).sum(1), curve.difference(later, position))


def drift_on_surface(view: View, states: Float[Tensor, "states size"], dimension: int) -> SurfaceDrift:
    """Return the part of each state's next step that is tangent to the surface of the states."""
    positions, step = as_array(view(states)), _motion(view, states)
    diameter = float(pairwise_distances(positions).max())
    tangents = SurfaceDrift(positions, step, diameter, dimension).tangents(positions)
    return SurfaceDrift(
        positions, np.einsum("ndk,nd->nk", tangents, (tangents @ step[:, :, None])[:, :, 0]), diameter, dimension
    )


def predict_errors(
    drift: Drift, start: np.ndarray, delays: Sequence[int], tolerance: float
) -> tuple[list[float], float]:
    """Integrate the drift from these positions; return the mean error after each delay, and when it is `tolerance`.

    Errors are shares of the range. The second value is infinite if the error stays below the tolerance.
    """
    position, time, lifetime = start.copy(), 0, inf
    errors: list[float] = []
    remaining = sorted(delays)
    for _ in range(MOST_INTEGRATION_STEPS):
        velocity = drift.field(position)
        fastest = _largest(velocity)
        if fastest <= STILL * drift.range:
            break
        stride = max(1, int(FINEST * drift.range / fastest))
        if remaining:
            stride = min(stride, remaining[0] - time)
        step = velocity if stride == 1 else drift.field(position + 0.5 * stride * velocity)  # mid-point rule
        position = position + stride * step
        before, time = time, time + stride
        error = float(drift.errors(position, start).mean())
        if error >= tolerance and lifetime == inf:
            lifetime = time if time - before == 1 else before + stride / 2
        while remaining and time >= remaining[0]:
            errors.append(error)
            remaining.pop(0)
        if not remaining and lifetime < inf:
            break
    rest = float(drift.errors(position, start).mean())
    return [*errors, *([rest] * len(remaining))], lifetime


def measure_errors(
    view: View, states: Float[Tensor, "states size"], drift: Drift, delays: Sequence[int]
) -> list[float]:
    """Return the mean distance along the manifold that the network moves from each state, after each delay."""
    start, errors, time = drift.place(as_array(view(states))), [], 0
    for delay in sorted(delays):
        states, time = advance(view.system, states, delay - time), delay
        errors.append(float(drift.errors(drift.place(as_array(view(states))), start).mean()))
    return errors


def left_tangents(
    view: View,
    states: Float[Tensor, "states size"],
    tangents_at: Callable[[np.ndarray], np.ndarray],
    settling: int,
) -> Float[Tensor, "states dims size"]:
    """Return the derivative of each state's place on the manifold, after these steps, with respect to the state.

    On a continuous attractor these are the left eigenvectors of the eigenvalue 1 whose product with the tangent is 1.
    `tangents_at` returns orthonormal tangents (states, dims, size) at settled states.
    """
    inputs = states.detach().clone().requires_grad_()
    with torch.enable_grad():
        settled = inputs
        for _ in range(settling):
            settled = view.system(settled)
        settled = view(settled)
        tangents = torch.from_numpy(np.ascontiguousarray(tangents_at(as_array(settled)))).to(settled)
        gradients = [
            torch.autograd.grad((settled * tangents[:, direction]).sum(), inputs, retain_graph=True)[0]
            for direction in range(tangents.shape[1])
        ]
    return torch.stack(gradients, 1)


def _largest(velocity: np.ndarray) -> float:
    return float(np.abs(velocity).max() if velocity.ndim == 1 else np.linalg.norm(velocity, axis=1).max())


def _motion(view: View, states: Tensor) -> np.ndarray:
    with torch.no_grad():
        return as_array(view.motion(states))
