"""Operators of state and input, identified from activity and inputs together, and their comparison (Huang et al. 2025).

Subspace identification: future outputs depend on future inputs and, by a map of low rank, on past inputs and
outputs; its singular vectors are the states x. A regression then gives `x' = A x + B u`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

SMALLEST = 1e-10
"""Directions of the past and of the future inputs below this share of the largest variance are left out."""

SMALLEST_STATE = 1e-7
"""States with a singular value below this share of the largest count as rounding."""


@dataclass(frozen=True)
class InputOperators:
    """The operators of `x' = A x + B u`."""

    state: Float[Tensor, "rank rank"]
    """A."""
    input: Float[Tensor, "rank features"]
    """B."""
    singular_values: Float[Tensor, " future"]
    """Singular values of the explained future outputs; their decay shows the order of the system."""

    @cached_property
    def controllability(self) -> Float[Tensor, "rank columns"]:
        """`[B, A B, A^T B, A^2 B, (A^T)^2 B, ...]` with powers below the rank.

        An orthogonal change C of the state multiplies it by C from the left, so that a single Procrustes alignment
        compares both operators.
        """
        blocks, forward, backward = [self.input], self.input, self.input
        for _ in range(1, len(self.state)):
            forward, backward = self.state @ forward, self.state.T @ backward
            blocks += [forward, backward]
        return torch.cat(blocks, 1)


@dataclass(frozen=True)
class Difference:
    """Angle and Euclidean distance of each pair of operators, after their alignment."""

    angle: Float[Tensor, " pairs"]
    gap: Float[Tensor, " pairs"]


def fit_input_operators(
    activity: Float[Tensor, "time trials units"],
    inputs: Float[Tensor, "time trials features"],
    delays: int,
    rank: int,
    ridge: float,
) -> InputOperators:
    """Return the operators of activity under known inputs, with `delays` steps of past and of future.

    The system may have more state than is observed. Zeros fill the operators if fewer than `rank` states are found.
    """
    past_outputs, future_outputs, usable = _windows(activity, delays)
    past_inputs, future_inputs, known = _windows(inputs, delays)
    usable = usable & known
    if int(usable.sum()) < 2:
        raise ValueError(
            f"Trials of {2 * delays + 2} steps or more are needed for {delays} delays, but the longest has "
            f"{int((~activity.isnan().any(2)).sum(0).max())}. Pass fewer delays."
        )
    past = torch.cat([past_inputs, past_outputs], 2)[usable].double()
    future, driven = future_outputs[usable].double(), future_inputs[usable].double()
    # Oblique projection: the part of the future that the past explains for given future inputs.
    regressors = torch.cat([driven, past], 1)
    products = regressors.T @ regressors
    coefficients = _least_squares(products, regressors.T @ future)[driven.shape[1] :]
    thin = _square_root(products[driven.shape[1] :, driven.shape[1] :])
    _, values, right = torch.linalg.svd(thin @ coefficients, full_matrices=False)
    found = min(rank, int((values > SMALLEST_STATE * values[0]).sum()))
    states = torch.full((*usable.shape, found), torch.nan, dtype=torch.float64)
    states[usable] = past @ (coefficients @ right[:found].T / values[:found].sqrt())
    now, after = states[:-1], states[1:]
    followed = usable[:-1] & usable[1:]
    regressors = torch.cat([now[followed], inputs[delays : delays + len(now)][followed].double()], 1)
    square = regressors.T @ regressors + ridge * torch.eye(regressors.shape[1], dtype=torch.float64)
    both = torch.linalg.solve(square, regressors.T @ after[followed]).T
    A, B = both.new_zeros(rank, rank), both.new_zeros(rank, inputs.shape[2])
    A[:found, :found], B[:found] = both[:, :found], both[:, found:]
    return InputOperators(A, B, values)


def compare_input_operators(first: Sequence[InputOperators], second: Sequence[InputOperators]) -> dict[str, Difference]:
    """Return the differences of both operators together ("joint"), and of each under the same alignment."""
    K, L = (torch.stack([each.controllability for each in side]) for side in (first, second))
    if K.shape != L.shape:
        raise ValueError("InputDSA compares systems with the same number of input features.")
    U, _, V = torch.linalg.svd(K @ L.mT)
    C = U @ V  # minimises |K - C L|
    A, B = (torch.stack([each.state for each in first]), torch.stack([each.input for each in first]))
    A2, B2 = (torch.stack([each.state for each in second]), torch.stack([each.input for each in second]))
    return {
        "joint": _difference(K, C @ L),
        "state": _difference(A, C @ A2 @ C.mT),
        "input": _difference(B, C @ B2),
    }


def _difference(first: Tensor, second: Tensor) -> Difference:
    norms = (first.flatten(1).norm(dim=1) * second.flatten(1).norm(dim=1)).clamp_min(1e-300)
    cosine = ((first * second).sum((1, 2)) / norms).clamp(-1, 1)
    return Difference(torch.arccos(cosine), (first - second).flatten(1).norm(dim=1))


def _windows(values: Tensor, delays: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return past and future windows (time, trials, delays * features), and where both lie within a trial.

    The last window of a trial is left out, as in the published implementation.
    """
    number = len(values) - 2 * delays
    if number < 2:
        raise ValueError(
            f"Trials of {2 * delays + 2} steps or more are needed for {delays} delays, but there are {len(values)} "
            f"steps. Pass fewer delays."
        )
    past, future = (
        torch.cat([values[start + lag : start + lag + number] for lag in range(delays)], 2) for start in (0, delays)
    )
    within = ~values[2 * delays :].isnan().any(2)
    return past, future, within


def _least_squares(products: Tensor, targets: Tensor) -> Tensor:
    """Return the solution of smallest norm of `products @ solution = targets`; directions near 0 are left out."""
    squares, axes = torch.linalg.eigh(products)
    kept = squares > SMALLEST * squares[-1]
    inverse = torch.where(kept, 1 / squares.clamp_min(1e-300), 0.0)
    return axes @ (inverse[:, None] * (axes.T @ targets))


def _square_root(products: Tensor) -> Tensor:
    """Return a matrix R with `R^T R` equal to the given products."""
    squares, axes = torch.linalg.eigh(products)
    return squares.clamp_min(0).sqrt()[:, None] * axes.T
