"""Run a sequence in parallel over time: Newton's method on all states at once.

The states of a sequence solve `h_t - f_t(h_{t-1}) = 0` for all t. Newton's method linearises all steps at the present
guess, with Jacobians J_t, and solves for the corrections d_t of all states,

    d_t = J_t d_{t-1} + r_t,   r_t = f_t(h_{t-1}) - h_t,   d_0 = 0,

by one associative scan (DEER: Lim et al. 2024). With the diagonals of J_t instead (quasi-DEER), an iteration takes
O(N) instead of O(N^3) per step, and there are more of them. Damping replaces J_t by (1 - k) J_t (the scaled form of
ELK: Gonzalez et al. 2024), which keeps products of expanding Jacobians bounded; k = 1 would be Picard iteration.

Each iteration makes at least one more state exact, whatever the Jacobians: the first state whose predecessor is
exact. So there are at most as many iterations as steps. States before the first one with too large a residual are kept,
and the rest is iterated on. The number of iterations is small if the network forgets its initial state, that is if its
largest Lyapunov exponent is negative (Gonzalez et al. 2025).

The gradient of a solution is that of the equations that it solves. With g_t the gradient of the loss by h_t,

    lambda_t = g_t + J_{t+1}^T lambda_{t+1}

is one scan backwards in time, and the gradients of weights, inputs and initial state are those of `sum_t lambda_t
f_t(h_{t-1})` with all h_{t-1} constant but the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Num
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.flat_steps import FlatSteps
from mnemoscope.cells.state import State
from mnemoscope.kernels.block_recurrence import apply_blocks, block_scan, block_scan_backward


@dataclass(frozen=True)
class Newton:
    """Options of `scan(..., backend="newton")`.

    >>> import mnemoscope as ms
    >>> xs = torch.randn(1000, 1, 3, generator=torch.manual_seed(0), dtype=torch.float64)
    >>> cell = ms.cells.DiagonalGRU(3, 16).double()
    >>> outputs, state, route = ms.scan(cell, xs, backend=Newton(tolerance=1e-9), explain=True)
    >>> bool((outputs - ms.scan(cell, xs, backend="loop")[0]).abs().max() < 1e-8)
    True
    """

    tolerance: float | None = None
    """Largest residual `|h_t - f_t(h_{t-1})|` of a solution, relative to max(1, |h_t|), over the numbers of a state. By
    default the rounding unit of the dtype to the power 3/4: 2e-12 in float64, 6e-6 in float32."""
    iterations: int = 100
    """Largest number of iterations in a window, after which the sequence is run step by step, with a warning."""
    jacobian: Literal["full", "diagonal"] = "full"
    """The whole Jacobian, or its diagonal alone (quasi-DEER); the backward pass always takes the whole."""
    damping: float = 0.0
    """k in [0, 1): the linearised steps are scaled by 1 - k."""
    window: int | None = None
    """Steps that are solved together; each window begins with the last state of the one before it. By default all of
    them, or as many as keep the Jacobians below 2^27 numbers: T steps of B sequences of states of N numbers have T B
    N^2, or T B N if they are diagonal, and an iteration takes 3.5 times as many in all."""

    def __post_init__(self) -> None:
        check_whole(1, iterations=self.iterations)
        if self.window is not None:
            check_whole(1, window=self.window)
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must be between 0 and 1, but is {self.tolerance}.")
        if self.jacobian not in ("full", "diagonal"):
            raise ValueError(f"jacobian must be 'full' or 'diagonal', but is {self.jacobian!r}.")
        if not 0 <= self.damping < 1:
            raise ValueError(f"damping must be at least 0 and below 1, but is {self.damping}.")

    def tolerance_in(self, dtype: torch.dtype) -> float:
        """Return the tolerance for states of a dtype."""
        return torch.finfo(dtype).eps ** 0.75 if self.tolerance is None else self.tolerance


class Outcome(NamedTuple):
    """Result of the iteration."""

    solved: int
    """Number of steps from the first on whose residuals are within the tolerance."""
    iterations: int
    """Number of iterations, the largest of all windows."""
    residual: float
    """Largest relative residual of the steps that were evaluated last."""


def run_newton(
    cell: Cell,
    xs: Num[Tensor, "time batch ..."],
    state: State,
    mask: Bool[Tensor, "time batch"] | None,
    options: Newton,
) -> tuple[tuple[Tensor, State] | None, Outcome]:
    """Return outputs and the last state, or None if the iteration did not converge, and its result."""
    steps = FlatSteps(cell, xs, state, mask)
    start = steps.layout.flatten(state)
    with torch.no_grad():
        states, outcome = solve(steps, start.detach(), options)
    if outcome.solved < len(xs):
        return None, outcome
    before = torch.cat([start.unsqueeze(0), states[:-1]])
    after = steps(before)
    if after.requires_grad:
        after = _Solution.apply(after, before.detach(), steps)
        assert isinstance(after, Tensor)
    return steps.outputs(after), outcome


def solve(
    steps: FlatSteps, start: Float[Tensor, "batch size"], options: Newton, time: int | None = None
) -> tuple[Float[Tensor, "time batch size"], Outcome]:
    """Return the states after all steps, or the first `time`, window by window, and the result of the iteration."""
    time = steps.shape[0] if time is None else time
    length = options.window or steps.window(options.jacobian == "diagonal")
    windows, counts, residuals = [], [0], [0.0]
    for first in range(0, time if start.numel() else 0, length):
        states, outcome = _solve_window(steps, start, first, min(first + length, time), options)
        windows.append(states)
        counts.append(outcome.iterations)
        residuals.append(outcome.residual)
        if outcome.solved < len(states):
            return torch.cat(windows), Outcome(first + outcome.solved, max(counts), outcome.residual)
        start = states[-1]
    states = torch.cat(windows) if windows else start.expand(time, *start.shape)
    return states, Outcome(time, max(counts), max(residuals))


def _solve_window(
    steps: FlatSteps, start: Tensor, first: int, last: int, options: Newton
) -> tuple[Float[Tensor, "time batch size"], Outcome]:
    """Iterate from a guess that the state does not change."""
    tolerance, diagonal = options.tolerance_in(start.dtype), options.jacobian == "diagonal"
    states, solved, iteration = start.repeat(last - first, 1, 1), 0, 0
    while True:
        before = torch.cat([(states[solved - 1] if solved else start).unsqueeze(0), states[solved:-1]])
        after = steps(before, first + solved)
        residual = after - states[solved:]
        sizes = (residual.abs() / after.abs().clamp_min(1)).amax((1, 2))
        missed = ~(sizes <= tolerance)  # NaN counts as missed
        kept, worst = int(torch.where(missed.any(), missed.int().argmax(), len(missed))), float(sizes.max())
        solved += kept
        if solved == len(states) or iteration == options.iterations:
            return states, Outcome(solved, iteration, worst)
        before, after, residual = before[kept:], after[kept:], residual[kept:]
        J = steps.jacobian(before, first + solved, diagonal).nan_to_num(0, 0, 0)
        if options.damping:
            J.mul_(1 - options.damping)
        scanned = block_scan(J, steps.grouped(residual.nan_to_num(0, 0, 0), diagonal))
        corrected = states[solved:] + steps.flat(scanned)
        # products of expanding Jacobians may overflow: such states take a Picard step, or begin again
        corrected = torch.where(torch.isfinite(corrected), corrected, after)
        states[solved:] = torch.where(torch.isfinite(corrected), corrected, start)
        iteration += 1


class _Solution(torch.autograd.Function):
    """The identity on `after = f(before)`, with the gradient of the solution of `h_t = f_t(h_{t-1})`."""

    @staticmethod
    def forward(ctx: Any, after: Tensor, before: Tensor, steps: FlatSteps) -> Tensor:
        ctx.save_for_backward(before)
        ctx.steps = steps
        return after.view_as(after)

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("The backend 'newton' has no second derivative; pass backend='loop' to scan.")
        (before,), steps, g = ctx.saved_tensors, ctx.steps, gs[0]
        later, scanned = torch.zeros_like(g[0]), []
        for first in reversed(range(0, len(g), steps.window())):
            last = min(first + steps.window(), len(g))
            J = steps.jacobian(before[first:last], first)
            into = torch.cat([g[first : last - 1], g[last - 1 : last] + later])
            G = block_scan_backward(J, steps.grouped(into))
            later = steps.flat(apply_blocks(J[0].mT, G[0]))
            scanned.append(steps.flat(G))
        return torch.cat(scanned[::-1]), None, None
