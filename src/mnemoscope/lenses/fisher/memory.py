"""The Fisher memory lens: how much of each past signal the state of a network holds, exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from math import inf, isfinite, nan, prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.base.validation import check_whole
from mnemoscope.lenses.fisher.conjugate_gradients import solve_matrix_free
from mnemoscope.lenses.fisher.covariance import LARGEST_QR, gramian
from mnemoscope.lenses.fisher.linearised import matrix_cell
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem, Noise
from mnemoscope.lenses.fisher.normal import is_normal, solve_normal
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, Map, powers
from mnemoscope.lenses.fisher.published import TERMS, solve_published
from mnemoscope.lenses.fisher.solving import Solved, solve, solve_products
from mnemoscope.lenses.fisher.sources import linear_step, noise_factor
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.lenses.systems import System

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Method = Literal["exact", "published"]
Route = Literal["auto", "dense", "matrix-free"]
ROUTES = get_args(Route)


@dataclass(frozen=True)
class FisherMemory:
    """What a noisy linear network tells of its past signals (Ganguli et al. 2008; Kerg, 2.6; Renanse, 2.3).

    For `x(n) = A x(n-1) + w s(n) + z(n)`, `J_kl` is the Fisher information matrix of the state about the signals k and
    l steps ago; its inverse bounds the error of any estimate of them.

    >>> import mnemoscope as ms
    >>> line = torch.diag(torch.ones(9), -1)  # a delay line of ten units
    >>> memory = ms.fisher_memory(line, torch.eye(10)[0])
    >>> [round(value, 4) for value in memory.curve[:4].tolist()]  # 1 / (k + 1)
    [1.0, 0.5, 0.3333, 0.25]
    >>> round(memory.total.item(), 4), memory.bound.item()
    (2.929, 10.0)
    """

    traces: Inexact[Tensor, "lags seen"]
    """The signal k steps ago as it stands in the state, in units of the noise there: `J_kl` is a product of two. Only
    their products count; matrix-free they are rows of a square root of J, (lags, lags)."""
    total: Float[Tensor, ""]
    """`J_tot = sum_k J(k)`, over all k."""
    input_information: Float[Tensor, ""]
    """What one signal is worth as it enters, `w^T Q^-1 w`; infinite where it enters beside the noise."""
    amplification: Float[Tensor, " lags"]
    """`A_m`: what m steps make of a signal's strength, in units of the noise that enters at a step; NaN where there is
    none."""
    shape: tuple[int, ...]
    """Of a state."""
    method: str = "exact"
    route: str = ""
    """How it was computed."""
    error: float = nan
    """About the relative error, by rounding: what the covariance does not solve of its equation, its condition, the
    steps that are summed; matrix-free a bound. NaN: not measured ("published")."""
    step: Map | None = None
    """What a step does, where the whole state was looked at after many steps."""
    factor: Float[Tensor, "size size"] | None = None
    """S, `C = S S^T`, of the covariance of the state."""

    def __len__(self) -> int:
        """Lags."""
        return self.traces.shape[0]

    @property
    def curve(self) -> Float[Tensor, " lags"]:
        """The Fisher memory curve J(k), k = 0, 1, ...; it never rises, but where a horizon leaves out older noise."""
        return self.traces.abs().square().sum(1)

    @property
    def matrix(self) -> Float[Tensor, "lags lags"]:
        """The Fisher memory matrix J_kl; off the diagonal, how signals stand in each other's way."""
        product = self.traces @ self.traces.mH
        return product.real if product.is_complex() else product

    @property
    def size(self) -> int:
        """Numbers of the state, N, N^2 or (p + 1) N^2."""
        return prod(self.shape)

    @property
    def relative(self) -> Float[Tensor, ""]:
        """Relative capacity: the total in units of what one signal is worth. 1 for every normal network."""
        return self.total / self.input_information

    @property
    def bound(self) -> Float[Tensor, ""]:
        """What no network of this size exceeds, size times the information of one signal: `tr(Q J_spatial) = size`."""
        return self.size * self.input_information

    @property
    def amplification_bound(self) -> Float[Tensor, " lags"]:
        """`J(k) <= 1 / sum_(m <= k) 1 / A_m` (Ganguli et al. 2008; Kerg, 2.6): the noise that entered meanwhile was
        amplified too. A delay line reaches it.
        """
        return 1 / (1 / self.amplification).cumsum(0)

    @cached_property
    def spatial(self) -> Float[Tensor, "size size"]:
        """The spatial Fisher matrix, `sum_k A^kT C^-1 A^k`: the total is `w^T J_spatial w` for a signal that enters by
        any w.
        """
        if self.step is None or self.factor is None:
            raise ValueError(f"The spatial Fisher matrix is not known by this route ({self.route}).")
        if self.size > LARGEST_QR:
            raise ValueError(
                f"The spatial Fisher matrix of {self.size} numbers would take hours: at most {LARGEST_QR}."
            )
        S = self.factor
        B = solve_triangular(S, self.step.dense() @ S, upper=False)
        G = gramian(B, torch.eye(len(B), dtype=B.dtype))
        half = solve_triangular(S.mT, G, upper=True)
        spatial = solve_triangular(S.mT, half.mT, upper=True)
        return (spatial + spatial.mT) / 2

    @cached_property
    def best_direction(self) -> Float[Tensor, " ..."]:
        """The unit vector (or matrix) by which signals leave most: the leading eigenvector of `spatial`."""
        return torch.linalg.eigh(self.spatial)[1][:, -1].reshape(self.shape)

    @cached_property
    def best_total(self) -> Float[Tensor, ""]:
        """The total of a unit signal that enters by the best direction: the largest eigenvalue of `spatial`."""
        return torch.linalg.eigvalsh(self.spatial)[-1]

    def saturation_bound(self, limit: float) -> float:
        """What the total cannot exceed if every unit is to stay within `-limit ... limit` on average (Renanse, 2.5.1).

        The mean square of the state is `tr P + tr C`, of signals of unit variance and of noise, and `J_tot = tr(C^-1 P)
        <= tr P / lambda_min(C)`: so the total is at most `(N limit^2 - tr C) / lambda_min(C)`. Where the noise alone
        exceeds the limit, there is no such network, and the bound is negative.
        """
        if self.factor is None:
            raise ValueError(f"The covariance is not formed by this route ({self.route}).")
        singular = torch.linalg.svdvals(self.factor)
        noise = float(singular.square().sum())
        return (self.size * limit**2 - noise) / float(singular[-1] ** 2)

    def summary(self) -> str:
        """The result in words."""
        return " ".join(_sentences(self))

    def __repr__(self) -> str:
        return f"FisherMemory({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `FisherMemory.load` reads it back."""
        tensors = {name: getattr(self, name) for name in ("traces", "total", "input_information", "amplification")}
        parts = () if self.step is None else self.step.parts
        tensors |= {f"step{number}": part for number, part in enumerate(parts)}
        tensors |= {} if self.factor is None else {"factor": self.factor}
        flags = {"shape": self.shape, "method": self.method, "route": self.route,
                 "error": self.error if isfinite(self.error) else None}  # fmt: skip
        save_result(path, "FisherMemory", {name: tensor.detach().clone() for name, tensor in tensors.items()}, flags)

    @classmethod
    def load(cls, path: str | Path) -> FisherMemory:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "FisherMemory", "a Fisher memory")
        parts = [tensors.pop(name) for name in ("step0", "step1") if name in tensors]
        step = {0: lambda: None, 1: lambda: Dense(parts[0]), 2: lambda: Kronecker(*parts)}[len(parts)]()
        error = nan if flags["error"] is None else flags["error"]
        return cls(**{**tensors, **flags, "shape": tuple(flags["shape"]), "error": error}, step=step)

    def figure(self) -> Figure:
        """The curve beside its bound, what is held after all, and the matrix (needs the `report` extra)."""
        from mnemoscope.lenses.fisher.figure import draw_memory

        return draw_memory(self)


def fisher_memory(
    system: System | MatrixSystem,
    direction: Inexact[Tensor, " ..."] | np.ndarray | int | None = None,
    *,
    state: Float[Tensor, " ..."] | None = None,
    noise: Noise = 1.0,
    lags: int = 100,
    horizon: int | None = None,
    method: Method = "exact",
    observed: Literal["all", "newest"] = "all",
    terms: int = TERMS,
    route: Route = "auto",
) -> FisherMemory:
    """How much of each past signal a network holds.

    Args:
        system: a square matrix A or a `Connectivity`; an `Elman` cell or torch.nn.RNN, whose recurrent matrix is looked
            at without its nonlinearity; a `Dynamics` (its linearisation at `state`), one fixed point, `fp[0]`; a
            `MatrixSystem`, whose state is a matrix, with or without a queue; or a `MatrixRNN` or `QueueMemory`, looked
            at as a `Dynamics` without input. Such a cell is taken for the `MatrixSystem` that it is near its state,
            where it is one, with noise in the newest matrix; the reason why it is none stands in the error of
            "published".
        direction: where signals enter, w (size,); for cells and a `Dynamics` also the number of an input feature, which
            may be left away where there is only one, and of matrix cells a matrix. A `MatrixSystem` has its own.
            Gradients flow to the tensors that are given, not into cells.
        state: where a `Dynamics` is linearised, (size,); of a matrix cell alone 0 by default.
        noise: variance of the noise that enters every unit at every step, or its covariance (size, size), which may be
            singular as long as noise reaches every direction in the end.
        lags: length of the curve.
        horizon: noise and signals have been coming in for so many steps only; None: for ever, which needs a spectral
            radius below 1.
        method: "published" takes the formulas of Renanse et al. for a `MatrixSystem`, or a cell that is one, as they
            stand.
        observed: with a queue: all of its state, or the newest matrix alone.
        terms: of "published" with a queue: passes through it after which sums that do not converge are cut off.
        route: of a `MatrixSystem`: "dense" forms the covariance of the flat state, "matrix-free" never does, and holds
            no spatial matrix; "auto" takes the eigenbases of normal U and V, and goes matrix-free beyond 2500
            numbers, from where on there is no spatial matrix anyway.

    >>> import mnemoscope as ms
    >>> V, v = 0.9 * torch.linalg.qr(torch.randn(50, 50))[0], torch.randn(50)
    >>> memory = ms.fisher_memory(V, v / v.norm())
    >>> round(memory.total.item(), 6)  # a normal network holds one signal in all, however it spreads it over time
    1.0

    """
    check_whole(1, lags=lags, horizon=1 if horizon is None else horizon)
    check_whole(0, terms=terms)
    if route not in ROUTES:
        raise ValueError(f"route must be one of {', '.join(ROUTES)}, but is {route!r}.")
    if observed not in ("all", "newest"):
        raise ValueError(f'observed must be "all" or "newest", but is {observed!r}.')
    if isinstance(system, MatrixSystem):
        if direction is not None or state is not None or not _is_one(noise):
            raise ValueError("A MatrixSystem has its own direction W and noise eps1, eps2.")
        return _of_matrices(system, lags, horizon, method, observed, terms, route)
    near = matrix_cell(system, state)
    if near is not None:
        w = near.source(direction)
        found = near.system(w, noise)
        if isinstance(found, MatrixSystem):
            return _of_matrices(found, lags, horizon, method, observed, terms, route)
        _check_vectors(method, route, found)
        newest = near.queue is not None and observed == "newest"
        step, shape = Dense(near.dynamics.jacobian(near.state)[0].cpu()), near.shape[1:] if newest else near.shape
        memory = _of_vectors(step, w, near.noise(noise), shape, lags, horizon)
        return memory if near.queue is None else replace(memory, amplification=_first(memory.amplification))
    _check_vectors(method, route)
    if observed != "all":
        raise ValueError("A queue is part of a MatrixSystem; other systems are observed as a whole.")
    A, w = linear_step(system, direction, state)
    return _of_vectors(Dense(A), w, noise_factor(noise, len(w)), (len(w),), lags, horizon)


def _check_vectors(method: str, route: Route, why: str = "") -> None:
    """Only exactly, and by the matrix of the flat state; `why` a matrix network is looked at so."""
    if method == "published" and why:
        raise ValueError(
            f"The published formulas are of networks X -> U^T X V with independent noise, and do not apply here: "
            f'{why}. method="exact" takes it.'
        )
    if method != "exact":
        raise ValueError(
            f'Of this network there is one reading, "exact", but method is {method!r}; the published formulas are of '
            f"networks X -> U^T X V, with or without a queue."
        )
    if route == "matrix-free":
        because = f", and does not apply here: {why}" if why else "; leave route away"
        raise ValueError(f"The matrix-free route is of a MatrixSystem{because}.")


def _of_vectors(
    step: Dense, w: Tensor, L: Tensor, shape: tuple[int, ...], lags: int, horizon: int | None
) -> FisherMemory:
    """By the matrix of the flat state, of which the first numbers, of this shape, are looked at."""
    seen = prod(shape)
    signals = torch.stack(list(islice(powers(step, w), lags)), 1)
    found = solve(step, w, L, lags, horizon, seen)
    stationary = step if horizon is None and seen == len(w) else None
    return _memory(found, _in_units_of(L, signals), shape, "exact", stationary)


def _of_matrices(
    system: MatrixSystem, lags: int, horizon: int | None, method: str, observed: str, terms: int, route: Route
) -> FisherMemory:
    if method not in ("exact", "published"):
        raise ValueError(f'method must be "exact" or "published", but is {method!r}.')
    rows, columns = system.shape
    queue = bool(system.slots) and observed == "all" and method == "exact"
    shape = (system.slots + 1, rows, columns) if queue else (rows, columns)
    seen = system.size if queue else rows * columns
    strength, stationary = _strength(system, lags), None
    if method == "published":
        if horizon is not None:
            raise ValueError("The published formulas are of the stationary state; leave horizon away.")
        found = solve_published(system, lags, terms)
    elif route == "auto" and _has_normal_route(system, horizon):
        found = solve_normal(system, lags, seen)
    else:
        found, stationary = _of_any_matrices(system, lags, horizon, seen, route)
    return _memory(found, strength, shape, method, stationary)


def _of_any_matrices(
    system: MatrixSystem, lags: int, horizon: int | None, seen: int, route: Route
) -> tuple[Solved, Map | None]:
    free = not system.slots and not system.differentiable
    if route == "matrix-free" and not free:
        raise ValueError(
            'Matrix-free there is no queue, and there are no gradients: leave alpha away, or route="dense".'
        )
    if route == "matrix-free" or (route == "auto" and free and system.size > LARGEST_QR):
        return solve_matrix_free(system, lags, horizon), None
    step, found = system.map(), None
    if horizon is None and not system.differentiable and isinstance(step, Kronecker):
        found = solve_products(step, system.source(), torch.kron(*system.covariances), lags)
    if found is None:
        found = solve(step, system.source(), system.noise_factor(), lags, horizon, seen)
    return found, step if seen == system.size and horizon is None else None


def _has_normal_route(system: MatrixSystem, horizon: int | None) -> bool:
    return (
        horizon is None and not system.differentiable and system.white and is_normal(system.U) and is_normal(system.V)
    )


def _memory(
    found: Solved, strength: Tensor, shape: tuple[int, ...], method: str, stationary: Map | None
) -> FisherMemory:
    seen = prod(shape)
    factor = None if found.factor is None else found.factor[:seen, :seen]  # of what is looked at: it is triangular
    return FisherMemory(found.traces, found.total, strength[0], strength, shape, method, found.route, found.error,
                        stationary, factor)  # fmt: skip


def _in_units_of(L: Tensor, signals: Tensor) -> Float[Tensor, " lags"]:
    """`|L^-1 x|^2` of each signal; infinite where it leaves the range of L."""
    if L.shape[0] == L.shape[1] and not L.triu(1).any() and bool((L.diagonal() != 0).all()):
        return solve_triangular(L, signals, upper=False).square().sum(0)
    found = torch.linalg.pinv(L, rtol=1e-10) @ signals
    missed = torch.linalg.vector_norm(L @ found - signals, dim=0) > 1e-8 * torch.linalg.vector_norm(signals, dim=0)
    return torch.where(missed, inf, found.square().sum(0))


def _strength(system: MatrixSystem, lags: int) -> Float[Tensor, " lags"]:
    """Of the newest matrix: signals in units of the noise of its rows and columns."""
    rows, columns = (torch.linalg.cholesky(one) for one in system.covariances)
    past: list[Tensor] = []
    strengths = []
    for _ in range(lags):
        X = system.U.mT @ past[0] @ system.V if past else system.W
        for weight, old in zip(system.weights, past[1:], strict=False):
            X = X + weight * old
        past = [X, *past][: system.slots + 1]
        whitened = solve_triangular(rows, X, upper=False)
        strengths.append(solve_triangular(columns, whitened.mT, upper=False).square().sum())
    found = torch.stack(strengths)
    return _first(found) if system.slots else found


def _first(strength: Float[Tensor, " lags"]) -> Float[Tensor, " lags"]:
    """With a queue, of a signal as it enters alone: then it lies in the queue too, where no noise enters."""
    return torch.cat([strength[:1], torch.full_like(strength[1:], nan)])


def _is_one(noise: Noise) -> bool:
    return isinstance(noise, (int, float)) and noise == 1


def lasting(curve: Float[Tensor, " lags"], level: float) -> str:
    """Until when a curve stays at a level or above, in words.

    >>> lasting(torch.tensor([1.0, 0.6, 0.4, 0.7]), 0.5), lasting(torch.tensor([1.0, 0.1]), 0.5)
    ('until 1 step later', 'at once only')
    """
    last = int((curve >= level).to(torch.int64).cumprod(0).sum()) - 1
    if last <= 0:
        return "at once only" if last == 0 else "never"
    return f"until {last} step{'s' if last > 1 else ''} later{' at least' if last + 1 == len(curve) else ''}"


def _sentences(memory: FisherMemory) -> list[str]:
    size = " x ".join(map(str, memory.shape))
    said = [f"A state of {size} numbers holds {float(memory.total):.4g} of past signals"]
    worth = float(memory.input_information)
    if isfinite(worth):
        said[0] += f", {float(memory.relative):.4g} times what one is worth as it enters (at most {memory.size})"
    said[0] += "."
    curve = memory.curve.detach()
    said.append(f"Half of a signal or more is left {lasting(curve, float(curve[0]) / 2)}.")
    if memory.method == "published":
        said.append(f"Computed {memory.route}: an approximation that understates.")
    elif memory.error > 1e-8:
        said.append(f"Correct to about {memory.error:.0e}.")
    return said
