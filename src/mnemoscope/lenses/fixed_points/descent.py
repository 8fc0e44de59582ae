"""The iteration that serves all solvers: propose a damped step for every active start, keep it if q falls, and let
starts leave the batch as soon as they are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.catalogue import Catalogue, magnitude
from mnemoscope.lenses.fixed_points.result import Status
from mnemoscope.lenses.fixed_points.solvers import Parts, Solver


@dataclass(frozen=True)
class Tolerances:
    """Where q = 1/2 |residual|^2 separates fixed from slow points (of a flow: F(x) / rate is the residual). A number of
    the residual counts relative to its state's where that exceeds 1, as rounding does.
    """

    fixed: float = 1e-25
    slow: float = 1e-6

    def __post_init__(self) -> None:
        if not 0 < self.fixed <= self.slow:
            raise ValueError(f"Tolerances need 0 < fixed <= slow, but fixed is {self.fixed} and slow is {self.slow}.")

    @classmethod
    def for_dtype(cls, dtype: torch.dtype) -> Tolerances:
        """The defaults; in lower precision than float64, `fixed` is what its rounding allows."""
        return cls(fixed=max(cls.fixed, 1e4 * torch.finfo(dtype).eps ** 2))


@dataclass(frozen=True)
class Outcome:
    """Where the starts of one call ended; `root` indexes the catalogue for FIXED starts and is -1 otherwise."""

    states: Float[Tensor, "starts size"]
    q: Float[Tensor, " starts"]
    status: Int[Tensor, " starts"]
    root: Int[Tensor, " starts"]
    steps: Int[Tensor, " starts"]

    @classmethod
    def joined(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """Several outcomes as one, in order."""
        return cls(*(torch.cat([getattr(one, field.name) for one in outcomes]) for field in fields(cls)))

    def go_on(self, rows: Int[Tensor, " some"], later: Outcome) -> None:
        """Replace what became of some starts by what became of them later; steps add up."""
        later.steps.add_(self.steps[rows])
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(later, field.name)


def descend(
    solver: Solver,
    dynamics: Dynamics,
    starts: Float[Tensor, "starts size"],
    catalogue: Catalogue,
    tolerances: Tolerances,
    on_done: Callable[[int], object] = lambda number: None,
) -> Outcome:
    """Iterate from all starts, a chunk at a time; roots enter the catalogue, and later chunks profit from it."""
    outcomes = []
    for part in starts.split(solver.chunk(dynamics.size, dynamics.device)):
        outcomes.append(_descend(solver, dynamics, part, catalogue, tolerances))
        on_done(part.shape[0])
    outcome = Outcome.joined(outcomes)
    _reconsider(outcome, solver, dynamics, starts, catalogue, tolerances)
    if not solver.patience.thorough:
        outcome.status[outcome.status == Status.STALLED] = int(Status.UNFINISHED)
    stuck = torch.isin(outcome.status, torch.tensor(STUCK, device=starts.device)).nonzero()[:, 0]
    if solver.settle is not None and stuck.numel():
        outcome.go_on(stuck, descend(solver.settle, dynamics, outcome.states[stuck], catalogue, tolerances))
    return outcome


STUCK = (Status.SLOW, Status.STALLED, Status.OUTSIDE)
"""Ends at which a minimiser of q is given a try."""
NEARLY = 1e-10
"""At this q a start is handed to the catalogue, which can finish it with one more factorisation."""
FAR = 1e8
"""A state this many times larger than the starts has left to infinity."""


def _descend(
    solver: Solver,
    dynamics: Dynamics,
    starts: Tensor,
    catalogue: Catalogue,
    tolerances: Tolerances,
    cautious: bool = False,
) -> Outcome:
    """Iterate from one chunk of starts. Those that seem bound for a known root stop at once, or, if `cautious`, as soon
    as that is confirmed.
    """
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
    who = torch.arange(n, device=x.device)  # the starts still active; everything below is aligned with it
    q = outcome.q.clone()
    damping = torch.ones_like(q)
    window = q.clone()
    parts = None
    fresh = torch.ones_like(who, dtype=torch.bool)  # has moved since it was last linearised

    for count in range(solver.max_steps + 1):
        status, root = _judge(catalogue, tolerances, x, f, q, limit, cautious)
        if count and count % solver.patience.window == 0:
            stalled = (status == Status.UNFINISHED) & (q > solver.patience.part * window)
            status[stalled] = _resting(dynamics, tolerances, x[stalled], f[stalled])
            window = q.clone()
        done = status != Status.UNFINISHED
        outcome.states[who], outcome.q[who], outcome.steps[who] = x, q, count
        if done.any():
            outcome.status[who], outcome.root[who] = status, root
            if done.all():
                break
            going = ~done
            who, x, f, q, damping, window, fresh = (t[going] for t in (who, x, f, q, damping, window, fresh))
            parts = None if parts is None else tuple(t[going] for t in parts)
        if count == solver.max_steps:
            break
        parts = _linearise(solver, dynamics, x, f, parts, fresh)
        x_new = dynamics.clamp(x + solver.step(dynamics, x, f, parts, damping))
        f_new = dynamics.residual(x_new)
        q_new = 0.5 * f_new.square().sum(1)
        fresh = q_new < q  # False for NaN
        damping = torch.where(fresh, damping * (q_new / q).clamp(0.01, 0.5), (damping * 4).clamp_min(1e-3))
        x = torch.where(fresh[:, None], x_new, x)
        f = torch.where(fresh[:, None], f_new, f)
        q = torch.where(fresh, q_new, q)
    return outcome


def _reconsider(
    outcome: Outcome,
    solver: Solver,
    dynamics: Dynamics,
    starts: Tensor,
    catalogue: Catalogue,
    tolerances: Tolerances,
) -> None:
    """Confirm where starts were thought to go, all together; iterate again, with caution, from those that did not."""
    fixed = (outcome.status == Status.FIXED).nonzero()[:, 0]
    elsewhere = fixed[~catalogue.confirm(outcome.states[fixed], outcome.root[fixed])]
    if elsewhere.numel():
        parts = starts[elsewhere].split(solver.chunk(dynamics.size, dynamics.device))
        again = [_descend(solver, dynamics, part, catalogue, tolerances, cautious=True) for part in parts]
        outcome.go_on(elsewhere, Outcome.joined(again))


def _resting(dynamics: Dynamics, tolerances: Tolerances, x: Tensor, f: Tensor) -> Int[Tensor, " batch"]:
    """What a start is that no longer gets anywhere."""
    status = torch.full((len(x),), int(Status.STALLED), device=x.device)
    if dynamics.bounds is not None and len(x):
        low, high = dynamics.bounds
        downhill = -dynamics.residual_products(x)[1](f)
        pushed = ((x <= low) & (downhill < 0)) | ((x >= high) & (downhill > 0))
        # a saturated unit touches the edge too: outside is where the way down leads
        outwards = (downhill * pushed).norm(dim=1) > 0.5 * downhill.norm(dim=1)
        status[outwards] = int(Status.OUTSIDE)
    slow = 0.5 * (f / x.abs().clamp_min(1)).square().sum(1) <= tolerances.slow
    status[slow] = int(Status.SLOW)
    return status


def _judge(
    catalogue: Catalogue,
    tolerances: Tolerances,
    x: Tensor,
    f: Tensor,
    q: Tensor,
    limit: float,
    cautious: bool,
) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """Status and root of each active start: done ones are told from those that go on (UNFINISHED)."""
    status = torch.full_like(q, int(Status.UNFINISHED), dtype=torch.int64)
    root = catalogue.recognise(x, f)
    if cautious:
        root = catalogue.confirmed(x, root)
    status[root >= 0] = int(Status.FIXED)
    gone = ~torch.isfinite(q) | (x.abs().amax(1) > limit)
    status[gone] = int(Status.DIVERGED)
    near = q <= max(NEARLY, tolerances.fixed) * magnitude(x).square() / x.shape[1]
    rows = ((status == Status.UNFINISHED) & near).nonzero()[:, 0]
    if rows.numel():
        root[rows] = catalogue.offer(x[rows], tolerances.fixed)
        status[rows] = torch.where(root[rows] >= 0, int(Status.FIXED), status[rows])
    return status, root


def _linearise(
    solver: Solver, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Parts | None, fresh: Bool[Tensor, " batch"]
) -> Parts:
    """Linearise where the state has moved; a rejected step needs only another damping."""
    if parts is None or fresh.all():
        return solver.linearise(dynamics, x, f)
    rows = fresh.nonzero()[:, 0]
    if rows.numel():
        for old, new in zip(parts, solver.linearise(dynamics, x[rows], f[rows]), strict=True):
            old[rows] = new
    return parts
