"""The memories on both sides of a saddle, reached along its unstable direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import eigs

from mnemoscope.cells import EchoState
from mnemoscope.lenses import Dynamics, FixedPoints

NEAR = 0.5
"""Largest distance of each component of an output from a corner at which it counts as being there."""
STEP = 1e-2
"""Initial distance from a saddle, relative to the norm of its state."""
MOST_STEPS = 4000
"""Most steps of a trajectory from a saddle."""


@dataclass(frozen=True)
class SaddleConnection:
    """The corners that the two trajectories from a saddle reach."""

    corners: tuple[tuple[int, ...], ...]
    """Signs of the outputs at the ends, sorted; a single entry if both trajectories reach the same corner."""
    arrived: bool
    """Whether both trajectories came to rest at a corner."""

    @property
    def bits(self) -> int:
        """Number of bits in which the two ends differ."""
        if len(self.corners) == 1:
            return 0
        return sum(a != b for a, b in zip(*self.corners, strict=True))

    @property
    def description(self) -> str:
        """Text for the distance between the two ends."""
        if not self.arrived:
            return "at least one end that is no corner, or not at rest in the time given"
        apart = {0: "one corner and itself", 1: "two corners one bit apart"}
        return apart.get(self.bits, f"two corners {self.bits} bits apart")


@torch.no_grad()
def saddle_connections(dynamics: Dynamics, fp: FixedPoints, cell: EchoState) -> list[SaddleConnection]:
    """Return the corners that the trajectories from every saddle with one unstable direction reach."""
    ups = fp.unstable.tolist()
    saddles = [point for point, kind in enumerate(fp.kind) if kind == "saddle" and ups[point] == 1]
    if not saddles:
        return []
    directions = torch.stack([_unstable_direction(fp.jacobians[point]) for point in saddles])
    states = fp.states[saddles]
    step = STEP * states.norm(dim=1, keepdim=True).clamp_min(1) * directions
    ends = torch.cat([states + step, states - step]).to(dynamics.origin)
    for _ in range(MOST_STEPS // 100):
        for _ in range(100):
            ends = dynamics(ends)
        if dynamics.residual(ends).norm(dim=1).max() < 1e-8:
            break
    resting = dynamics.residual(ends).norm(dim=1) < 1e-5 * ends.norm(dim=1).clamp_min(1)
    z = cell.read(cell.output(ends.to(cell.recurrent)))
    resting &= ((z - z.sign()).abs() < NEAR).all(1)
    signs = z.sign().int().tolist()
    n = len(saddles)
    return [
        SaddleConnection(tuple(sorted({tuple(signs[k]), tuple(signs[n + k])})), bool(resting[k] & resting[n + k]))
        for k in range(n)
    ]


def _unstable_direction(J: torch.Tensor) -> torch.Tensor:
    """Return the unstable direction of a saddle that has one: the eigenvector of the largest, real eigenvalue."""
    if J.shape[0] < 20:
        values, vectors = np.linalg.eig(J.numpy())
        vector = vectors[:, np.abs(values).argmax()]
    else:
        found: Any = eigs(J.numpy(), k=1, which="LM", v0=np.ones(J.shape[0]))
        vector = found[1][:, 0]
    vector = torch.from_numpy(np.real(vector).copy())
    return vector / vector.norm()
