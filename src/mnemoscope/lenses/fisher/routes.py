"""Fisher memory of a linear system, by the best route for its structure, size and noise."""

from __future__ import annotations

from itertools import islice
from math import inf, nan, prod
from typing import Literal

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.dense import solve_dense, solve_kronecker
from mnemoscope.lenses.fisher.matrix_free import solve_matrix_free
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.normal import is_normal, solve_normal
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, Map, powers
from mnemoscope.lenses.fisher.published import solve_published
from mnemoscope.lenses.fisher.result import FisherMemory
from mnemoscope.lenses.fisher.solution import Solution
from mnemoscope.lenses.fisher.square_root import LARGEST_QR

Method = Literal["exact", "published"]
Observed = Literal["all", "newest"]
Route = Literal["auto", "dense", "matrix-free"]


def vector_memory(
    step: Dense, w: Tensor, L: Tensor, shape: tuple[int, ...], lags: int, horizon: int | None
) -> FisherMemory:
    """Return the memory by the matrix of the flat state, whose first numbers, of the given shape, are observed."""
    observed = prod(shape)
    signals = torch.stack(list(islice(powers(step, w), lags)), 1)
    solution = solve_dense(step, w, L, lags, horizon, observed)
    stationary = step if horizon is None and observed == len(w) else None
    return _memory(solution, _strengths(L, signals), shape, "exact", stationary)


def matrix_memory(
    system: MatrixSystem, lags: int, horizon: int | None, method: Method, observed: Observed, terms: int, route: Route
) -> FisherMemory:
    """Return the memory of a network whose state is a matrix, with or without a queue."""
    if method not in ("exact", "published"):
        raise ValueError(f'method must be "exact" or "published", but is {method!r}.')
    rows, columns = system.shape
    with_queue = bool(system.slots) and observed == "all" and method == "exact"
    shape = (system.slots + 1, rows, columns) if with_queue else (rows, columns)
    strengths, stationary = _matrix_strengths(system, lags), None
    if method == "published":
        if horizon is not None:
            raise ValueError("The published formulas are for the stationary state; omit horizon.")
        solution = solve_published(system, lags, terms)
    elif route == "auto" and _has_normal_route(system, horizon):
        solution = solve_normal(system, lags, prod(shape))
    else:
        solution, stationary = _solve_matrices(system, lags, horizon, prod(shape), route)
    return _memory(solution, strengths, shape, method, stationary)


def strength_at_entry(strengths: Float[Tensor, " lags"]) -> Float[Tensor, " lags"]:
    """Return the strength of a signal as it enters a network with a queue, and NaN for later steps.

    Later the signal is also in the queue, where no noise enters.
    """
    return torch.cat([strengths[:1], torch.full_like(strengths[1:], nan)])


def _solve_matrices(
    system: MatrixSystem, lags: int, horizon: int | None, observed: int, route: Route
) -> tuple[Solution, Map | None]:
    """Solve by the dense or the matrix-free route; return also the step if the whole state is stationary."""
    matrix_free = not system.slots and not system.differentiable
    if route == "matrix-free" and not matrix_free:
        raise ValueError('The matrix-free route has no queue and no gradients: omit alpha, or pass route="dense".')
    if route == "matrix-free" or (route == "auto" and matrix_free and system.size > LARGEST_QR):
        return solve_matrix_free(system, lags, horizon), None
    step, solution = system.map(), None
    if horizon is None and not system.differentiable and isinstance(step, Kronecker):
        solution = solve_kronecker(step, system.source(), torch.kron(*system.covariances), lags)
    if solution is None:
        solution = solve_dense(step, system.source(), system.noise_factor(), lags, horizon, observed)
    return solution, step if observed == system.size and horizon is None else None


def _has_normal_route(system: MatrixSystem, horizon: int | None) -> bool:
    return (
        horizon is None and not system.differentiable and system.white and is_normal(system.U) and is_normal(system.V)
    )


def _memory(
    solution: Solution, strengths: Tensor, shape: tuple[int, ...], method: Method, stationary: Map | None
) -> FisherMemory:
    size = prod(shape)
    return FisherMemory(
        traces=solution.traces,
        total=solution.total,
        input_information=strengths[0],
        bound=size * strengths[0],
        amplification=strengths,
        shape=shape,
        method=method,
        route=solution.route,
        error=solution.error,
        step=stationary,
        factor=None if solution.factor is None else solution.factor[:size, :size],  # it is triangular
    )


def _strengths(L: Tensor, signals: Tensor) -> Float[Tensor, " lags"]:
    """Return `|L^-1 x|^2` of each signal x; infinite where it leaves the range of L."""
    if L.shape[0] == L.shape[1] and not L.triu(1).any() and bool((L.diagonal() != 0).all()):
        return solve_triangular(L, signals, upper=False).square().sum(0)
    coordinates = torch.linalg.pinv(L, rtol=1e-10) @ signals
    outside = torch.linalg.vector_norm(L @ coordinates - signals, dim=0)
    is_outside = outside > 1e-8 * torch.linalg.vector_norm(signals, dim=0)
    return torch.where(is_outside, inf, coordinates.square().sum(0))


def _matrix_strengths(system: MatrixSystem, lags: int) -> Float[Tensor, " lags"]:
    """Return the strengths of the signals in the newest matrix, in units of the noise of its rows and columns."""
    rows, columns = (torch.linalg.cholesky(covariance) for covariance in system.covariances)
    past: list[Tensor] = []
    strengths = []
    for _ in range(lags):
        X = system.U.mT @ past[0] @ system.V if past else system.W
        for weight, old in zip(system.weights, past[1:], strict=False):
            X = X + weight * old
        past = [X, *past][: system.slots + 1]
        whitened = solve_triangular(rows, X, upper=False)
        strengths.append(solve_triangular(columns, whitened.mT, upper=False).square().sum())
    stacked = torch.stack(strengths)
    return strength_at_entry(stacked) if system.slots else stacked
