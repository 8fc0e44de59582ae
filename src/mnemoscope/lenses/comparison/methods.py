"""The methods of comparison: each turns a recording into a feature, and pairs of features into distances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.lenses.comparison.alignment import align_operators
from mnemoscope.lenses.comparison.geometry import Samples, centred, cka_cosine, procrustes_cosine
from mnemoscope.lenses.comparison.input_operators import InputOperators, compare_input_operators, fit_input_operators
from mnemoscope.lenses.comparison.operators import Embedding, fit_operators, principal_embeddings
from mnemoscope.lenses.recording import Recording

Distances = Float[Tensor, " pairs"]


@runtime_checkable
class Method(Protocol):
    """A way to compare recordings."""

    def features(self, recordings: Sequence[Recording], numbers: Sequence[int]) -> list[Any]:
        """Return the part that is compared of each recording, which shows the system with this number."""
        ...

    def distances(self, first: Sequence[Any], second: Sequence[Any]) -> tuple[Distances, dict[str, Distances]]:
        """Return the distance of each pair of features, and further numbers about each pair by name."""
        ...

    def halves(self, recording: Recording, generator: Generator) -> tuple[Recording, Recording]:
        """Return two parts of a recording that the method should find equal, each with half of the data."""
        ...


def as_distance(cosine: Distances, score: str) -> Distances:
    """Return the angle of a cosine, or the distance between two points of norm 1 at this angle."""
    cosine = cosine.clamp(-1, 1)
    return torch.arccos(cosine) if score == "angular" else (2 - 2 * cosine).clamp_min(0).sqrt()


@dataclass(frozen=True)
class Geometry:
    """Procrustes or CKA: the states at corresponding steps are compared."""

    cosine: Callable[[Samples, Samples], float]
    score: str = "angular"

    def features(self, recordings: Sequence[Recording], numbers: Sequence[int]) -> list[Samples]:
        return [centred(recording.activity) for recording in recordings]

    def distances(self, first: Sequence[Tensor], second: Sequence[Tensor]) -> tuple[Distances, dict[str, Distances]]:
        cosines = [self.cosine(a, b) for a, b in zip(first, second, strict=True)]
        return as_distance(torch.tensor(cosines, dtype=torch.float64), self.score), {}

    def halves(self, recording: Recording, generator: Generator) -> tuple[Recording, Recording]:
        """Return two halves of the units, since steps and trials must correspond."""
        order = torch.randperm(recording.size, generator=generator)
        middle = recording.size // 2
        return Recording(recording.activity[:, :, order[:middle]]), Recording(recording.activity[:, :, order[middle:]])


@dataclass(frozen=True)
class Dynamical:
    """DSA: the linear operators of the delay-embedded activity are compared up to an orthogonal matrix."""

    delays: int
    interval: int
    ranks: tuple[int, ...]
    """Number of coordinates of each system; smaller operators are padded with zeros."""
    ridge: float
    score: str = "angular"
    starts: int = 8
    seed: int = 0

    def features(self, recordings: Sequence[Recording], numbers: Sequence[int]) -> list[np.ndarray]:
        activity = [recording.activity for recording in recordings]
        return self.read(principal_embeddings(activity, self.delays, self.interval, max(self.ranks)), numbers)

    def read(self, embeddings: Sequence[Embedding], numbers: Sequence[int]) -> list[np.ndarray]:
        """Return the operators of embeddings of these systems, or their eigenvalues if they are compared."""
        ranks = [self.ranks[number] for number in numbers]
        operators = fit_operators(embeddings, ranks, max(self.ranks), self.ridge)
        return list(np.linalg.eigvals(operators) if self.score == "wasserstein" else operators)

    def distances(
        self, first: Sequence[np.ndarray], second: Sequence[np.ndarray]
    ) -> tuple[Distances, dict[str, Distances]]:
        if self.score == "wasserstein":
            return eigenvalue_distances(np.stack(first), np.stack(second)), {}
        operators = (torch.from_numpy(np.stack(side)) for side in (first, second))
        found = align_operators(*operators, starts=self.starts, seed=self.seed)
        details = {
            "residual": found.residual,
            "agreement": found.agreement,
            "bound": as_distance(torch.maximum(found.bound, found.cosine), self.score),
        }
        return as_distance(found.cosine, self.score), details

    def halves(self, recording: Recording, generator: Generator) -> tuple[Recording, Recording]:
        return halves_of_trials(recording, generator)


@dataclass(frozen=True)
class InputDriven:
    """InputDSA: operators of state and input, identified together, are compared up to an orthogonal matrix."""

    delays: int
    rank: int
    ridge: float
    score: str = "angular"

    def features(self, recordings: Sequence[Recording], numbers: Sequence[int]) -> list[InputOperators]:
        fitted = []
        for each in recordings:
            assert each.inputs is not None
            fitted.append(fit_input_operators(each.activity, each.inputs, self.delays, self.rank, self.ridge))
        return fitted

    def distances(
        self, first: Sequence[InputOperators], second: Sequence[InputOperators]
    ) -> tuple[Distances, dict[str, Distances]]:
        found = compare_input_operators(first, second)
        parts = {name: each.angle if self.score == "angular" else each.gap for name, each in found.items()}
        return parts.pop("joint"), parts

    def halves(self, recording: Recording, generator: Generator) -> tuple[Recording, Recording]:
        return halves_of_trials(recording, generator)


def halves_of_trials(recording: Recording, generator: Generator) -> tuple[Recording, Recording]:
    """Return two random halves of the trials."""
    order, middle = torch.randperm(recording.trials, generator=generator), recording.trials // 2
    return recording.part(order[:middle]), recording.part(order[middle:])


def eigenvalue_distances(first: Inexact[np.ndarray, "pairs n"], second: Inexact[np.ndarray, "pairs n"]) -> Distances:
    """Return the mean squared distance between eigenvalues that are paired to minimise it (Wasserstein).

    >>> round(eigenvalue_distances(np.array([[0.5, 0.9]]), np.array([[0.9, 0.7]])).item(), 4)
    0.02
    """
    squares = np.abs(first[:, :, None] - second[:, None, :]) ** 2
    return torch.from_numpy(np.array([each[linear_sum_assignment(each)].mean() for each in squares]))


GEOMETRIES = {"procrustes": procrustes_cosine, "cka": cka_cosine}
