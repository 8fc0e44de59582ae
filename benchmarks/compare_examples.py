"""The data on which `compare.py` runs both libraries, and our comparison of them; a test repeats it."""

from __future__ import annotations

from typing import Any

import numpy as np

import mnemoscope as ms
from mnemoscope.lenses.comparison.planted import planted_activity


def linear_system(rng: np.random.Generator, trials: int = 8, steps: int = 100, units: int = 5) -> np.ndarray:
    """Return noisy activity (trials, time, units) of a stable linear system, as in the tutorial of dsa-metric."""
    values, vectors = np.linalg.eig(rng.standard_normal((units, units)))
    values = values / np.abs(values) * rng.uniform(0.8, 0.95, size=units)
    matrix = np.real(vectors @ np.diag(values) @ np.linalg.inv(vectors))
    activity = np.zeros((trials, steps, units))
    for trial in range(trials):
        state = 0.1 * rng.standard_normal(units)
        for step in range(steps):
            activity[trial, step] = state
            state = matrix @ state + 0.01 * rng.standard_normal(units)
    return activity


def driven_system(rng: np.random.Generator, trials: int = 10, steps: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return activity (trials, time, 5) of a linear system and its two random inputs."""
    matrix = 0.5 * rng.standard_normal((5, 5))
    matrix *= 0.9 / np.abs(np.linalg.eigvals(matrix)).max()
    weights, inputs = 0.3 * rng.standard_normal((5, 2)), rng.standard_normal((trials, steps, 2))
    activity = np.zeros((trials, steps, 5))
    for step in range(steps - 1):
        noise = 0.01 * rng.standard_normal((trials, 5))
        activity[:, step + 1] = activity[:, step] @ matrix.T + inputs[:, step] @ weights.T + noise
    return activity, inputs


def examples() -> dict[str, tuple[list[np.ndarray], dict[str, Any], tuple[str, ...]]]:
    """Return systems (trials, time, units), the settings of DSA and the scores, by name."""
    rng = np.random.default_rng(5)
    noise = [rng.random((10, 100, 2)) for _ in range(4)]
    linear = [linear_system(rng) for _ in range(4)]
    planted = [
        planted_activity(kind, 6, seed, trials=40).transpose(0, 1).numpy()
        for kind in ("ring", "cycle")
        for seed in range(2)
    ]
    return {
        "noise": (noise, {"delays": 1, "rank": 2, "ridge": 1e-8}, ("angular", "euclidean", "wasserstein")),
        "linear": (linear, {"delays": 3, "rank": 10, "ridge": 0.01}, ("angular", "wasserstein")),
        "linear, rank 15": (linear[:3], {"delays": 5, "rank": 15, "ridge": 0.001}, ("euclidean", "wasserstein")),
        "linear, rank 5": (linear, {"delays": 3, "rank": 5, "ridge": 1e-8}, ("angular", "wasserstein")),
        "planted": (planted, {"delays": 5, "rank": 4, "ridge": 1e-8}, ("angular", "wasserstein")),
    }


def ours(systems: list[np.ndarray], settings: dict[str, Any], score: Any) -> ms.Comparison:
    """Return our comparison."""
    activity = [np.ascontiguousarray(system.swapaxes(0, 1)) for system in systems]
    return ms.compare(activity, score=score, draws=0, **settings)


def pairs(distances: Any) -> list[float]:
    """Return the distances of all pairs."""
    square = np.asarray(distances)
    return [round(float(value), 6) for value in square[np.triu_indices(len(square), 1)]]
