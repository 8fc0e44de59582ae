"""The damped iteration behind all solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude, vector_norm
from mnemoscope.lenses.fixed_points.outcomes import Status
from mnemoscope.lenses.fixed_points.solvers import Linearisation, Solver

STUCK = (Status.SLOW, Status.STALLED, Status.OUTSIDE)
"""Outcomes after which a minimiser of q takes over."""
NEARLY_CONVERGED = 1e-10
"""At this q a start is passed to the catalogue, which finishes it with one more factorisation."""
NEAR_ROUNDING = 1e3
"""A residual below this many times the effect of rounding the state may be one of a root."""
FAR = 1e8
"""A state this many times larger than the starts has diverged."""


@dataclass(frozen=True)
class Tolerances:
    """Upper limits of q = 1/2 |residual|^2 for fixed and for slow points.

    The residual is F(x) - x for a map, F(x) / rate for a flow. Where a coordinate of the state exceeds 1, the residual
    counts relative to it, as rounding does.
    """

    fixed: float = 1e-25
    """Largest q of a fixed point."""
    slow: float = 1e-6
    """Largest q of a slow point."""

    def __post_init__(self) -> None:
        if not 0 < self.fixed <= self.slow:
            raise ValueError(f"Tolerances need 0 < fixed <= slow, but fixed is {self.fixed} and slow is {self.slow}.")

    @classmethod
    def for_dtype(cls, dtype: torch.dtype) -> Tolerances:
        """Return the defaults; in lower precision than float64, `fixed` is what rounding allows."""
        return cls(fixed=max(cls.fixed, 1e4 * torch.finfo(dtype).eps ** 2))


@dataclass(frozen=True)
class Outcome:
    """Where the starts of one call ended."""

    states: Float[Tensor, "starts size"]
    q: Float[Tensor, " starts"]
    status: Int[Tensor, " starts"]
    """Values of `Status`."""
    root: Int[Tensor, " starts"]
    """Index into the catalogue for FIXED starts, -1 for others."""
    steps: Int[Tensor, " starts"]
    """Iterations taken."""

    @classmethod
    def concatenate(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """Return several outcomes as one, in order."""
        return cls(*(torch.cat([getattr(outcome, field.name) for outcome in outcomes]) for field in fields(cls)))

    def select(self, rows: Int[Tensor, " some"]) -> Outcome:
        """Return the outcome of some starts, in the order of `rows`."""
        return Outcome(*(getattr(self, field.name)[rows] for field in fields(self)))

    def update(self, rows: Int[Tensor, " some"], later: Outcome) -> None:
        """Replace the outcome of some starts by a later one; steps add up."""
        later.steps.add_(self.steps[rows])
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(later, field.name)


@dataclass(frozen=True)
class Descent:
    """The iteration of one solver: it proposes a step for every active start, and keeps the step if q falls.

    Finished starts leave the batch. Roots enter the catalogue, so that later starts recognise them.
    """

    solver: Solver
    catalogue: Catalogue
    tolerances: Tolerances

    def run(
        self, starts: Float[Tensor, "starts size"], on_done: Callable[[int], object] = lambda number: None
    ) -> Outcome:
        """Iterate from all starts in chunks, and call `on_done` with the number of starts that have finished."""
        trial = self.solver.trial
        if trial is None:
            return self._run(starts, on_done)
        outcome = replace(self, solver=trial)._try(starts)
        fixed = outcome.status == Status.FIXED
        on_done(int(fixed.sum()))
        missed = (~fixed).nonzero()[:, 0]
        if missed.numel():
            outcome.update(missed, self._run(starts[missed], on_done))
        return outcome

    def _try(self, starts: Float[Tensor, "starts size"]) -> Outcome:
        """Iterate from the slowest starts first: faster ones are recognised early at the roots that these reach."""
        order = vector_norm(self.catalogue.dynamics.residual(starts)).argsort(stable=True)
        outcomes = Outcome.concatenate([self._iterate(part) for part in self._chunks(starts[order])])
        outcome = outcomes.select(order.argsort())
        rows = (outcome.status == Status.FIXED).nonzero()[:, 0]
        lost = rows[~self.catalogue.confirm(outcome.states[rows], outcome.root[rows])]
        outcome.status[lost], outcome.root[lost] = int(Status.UNFINISHED), -1
        return outcome

    def _run(self, starts: Float[Tensor, "starts size"], on_done: Callable[[int], object]) -> Outcome:
        """Iterate with the solver itself, and pass stuck starts to the one that settles them."""
        outcomes = []
        for part in self._chunks(starts):
            outcomes.append(self._iterate(part))
            on_done(part.shape[0])
        outcome = Outcome.concatenate(outcomes)
        self._iterate_again(outcome, starts)
        if not self.solver.patience.thorough:
            outcome.status[outcome.status == Status.STALLED] = int(Status.UNFINISHED)
        stuck = torch.isin(outcome.status, torch.tensor(STUCK, device=starts.device)).nonzero()[:, 0]
        if self.solver.settle is not None and stuck.numel():
            outcome.update(stuck, replace(self, solver=self.solver.settle).run(outcome.states[stuck]))
        return outcome

    def _chunks(self, starts: Tensor) -> tuple[Tensor, ...]:
        dynamics = self.catalogue.dynamics
        return starts.split(self.solver.chunk(dynamics.size, dynamics.device))

    def _iterate(self, starts: Tensor, cautious: bool = False) -> Outcome:
        """Iterate from one chunk of starts.

        A start that seems to converge to a known root stops immediately, or, if `cautious`, once that is confirmed.
        """
        solver, dynamics = self.solver, self.catalogue.dynamics
        x = dynamics.clamp(starts)
        f = dynamics.residual(x)
        n = x.shape[0]
        outcome = Outcome(
            states=x.clone(),
            q=0.5 * f.square().sum(1),
            status=torch.full((n,), int(Status.UNFINISHED), device=x.device),
            root=torch.full((n,), -1, device=x.device),
            steps=torch.zeros(n, dtype=torch.int64, device=x.device),
        )
        limit = FAR * max(1.0, float(x.abs().max()))
        active = torch.arange(n, device=x.device)  # the rows below belong to these starts
        q = outcome.q.clone()
        damping = torch.ones_like(q)
        window = q.clone()
        parts = None
        moved = torch.ones_like(active, dtype=torch.bool)  # since the last linearisation

        for count in range(solver.max_steps + 1):
            status, root = self._assess(x, f, q, limit, cautious)
            if count and count % solver.patience.window == 0:
                stalled = ((status == Status.UNFINISHED) & (q > solver.patience.part * window)).nonzero()[:, 0]
                status[stalled], root[stalled] = self._stuck_status(x[stalled], f[stalled])
                window = q.clone()
            done = status != Status.UNFINISHED
            outcome.states[active], outcome.q[active], outcome.steps[active] = x, q, count
            if done.any():
                outcome.status[active], outcome.root[active] = status, root
                if done.all():
                    break
                aligned = (active, x, f, q, damping, window, moved)
                active, x, f, q, damping, window, moved = (tensor[~done] for tensor in aligned)
                parts = None if parts is None else tuple(tensor[~done] for tensor in parts)
            if count == solver.max_steps:
                break
            parts = self._linearise(x, f, parts, moved)
            x_new = dynamics.clamp(x + solver.step(dynamics, x, f, parts, damping))
            f_new = dynamics.residual(x_new)
            q_new = 0.5 * f_new.square().sum(1)
            moved = q_new < q  # False for NaN
            damping = torch.where(moved, damping * (q_new / q).clamp(0.01, 0.5), (damping * 4).clamp_min(1e-3))
            x = torch.where(moved[:, None], x_new, x)
            f = torch.where(moved[:, None], f_new, f)
            q = torch.where(moved, q_new, q)
        return outcome

    def _iterate_again(self, outcome: Outcome, starts: Tensor) -> None:
        """Confirm all recognised roots together, and iterate again, cautiously, from the starts that fail."""
        fixed = (outcome.status == Status.FIXED).nonzero()[:, 0]
        failed = fixed[~self.catalogue.confirm(outcome.states[fixed], outcome.root[fixed])]
        if failed.numel():
            again = [self._iterate(part, cautious=True) for part in self._chunks(starts[failed])]
            outcome.update(failed, Outcome.concatenate(again))

    def _stuck_status(self, x: Tensor, f: Tensor) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Return status and root of starts that make no more progress: SLOW, OUTSIDE, STALLED or FIXED.

        Where large terms cancel, as on a line of roots of an ill-conditioned network, rounding alone keeps q above the
        limit of nearly converged starts. The catalogue knows these terms, so it decides whether such a start is a root.
        """
        dynamics = self.catalogue.dynamics
        status = torch.full((len(x),), int(Status.STALLED), device=x.device)
        root = torch.full_like(status, -1)
        if dynamics.bounds is not None and len(x):
            low, high = dynamics.bounds
            downhill = -dynamics.residual_products(x)[1](f)
            pushed = ((x <= low) & (downhill < 0)) | ((x >= high) & (downhill > 0))
            # A saturated unit touches the edge too: a start is outside only if the descent direction leads out.
            outwards = (downhill * pushed).norm(dim=1) > 0.5 * downhill.norm(dim=1)
            status[outwards] = int(Status.OUTSIDE)
        slow = 0.5 * (f / x.abs().clamp_min(1)).square().sum(1) <= self.tolerances.slow
        status[slow] = int(Status.SLOW)
        rounded = self._may_be_rounding(x, f).nonzero()[:, 0]
        if rounded.numel():
            root[rounded] = self.catalogue.offer(x[rounded], self.tolerances.fixed)
            status[root >= 0] = int(Status.FIXED)
        return status, root

    def _may_be_rounding(self, x: Tensor, f: Tensor) -> Bool[Tensor, " batch"]:
        """Whether a change of the state by one unit in the last place changes the residual by nearly its size."""
        signs = 1 - 2 * (torch.arange(x.shape[1], device=x.device) * 0.618034 % 1).round()  # without a pattern
        change = self.catalogue.dynamics.residual(x + torch.finfo(x.dtype).eps * signs * x) - f
        return f.norm(dim=1) <= NEAR_ROUNDING * change.norm(dim=1)

    def _assess(
        self, x: Tensor, f: Tensor, q: Tensor, limit: float, cautious: bool
    ) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Return status and root of each active start; those that need more iterations are UNFINISHED."""
        status = torch.full_like(q, int(Status.UNFINISHED), dtype=torch.int64)
        root = self.catalogue.recognise(x, f)
        if cautious:
            root = self.catalogue.confirmed(x, root)
        status[root >= 0] = int(Status.FIXED)
        diverged = ~torch.isfinite(q) | (x.abs().amax(1) > limit)
        status[diverged] = int(Status.DIVERGED)
        near = q <= max(NEARLY_CONVERGED, self.tolerances.fixed) * magnitude(x).square() / x.shape[1]
        rows = ((status == Status.UNFINISHED) & near).nonzero()[:, 0]
        if rows.numel():
            root[rows] = self.catalogue.offer(x[rows], self.tolerances.fixed)
            status[rows] = torch.where(root[rows] >= 0, int(Status.FIXED), status[rows])
        return status, root

    def _linearise(
        self, x: Tensor, f: Tensor, parts: Linearisation | None, moved: Bool[Tensor, " batch"]
    ) -> Linearisation:
        """Linearise where the state has moved; after a rejected step only the damping changes."""
        if parts is None or moved.all():
            return self.solver.linearise(self.catalogue.dynamics, x, f)
        rows = moved.nonzero()[:, 0]
        if rows.numel():
            new_parts = self.solver.linearise(self.catalogue.dynamics, x[rows], f[rows])
            for old, new in zip(parts, new_parts, strict=True):
                old[rows] = new
        return parts
