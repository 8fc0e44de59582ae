"""The base class of solvers: a solver computes damped steps towards roots of the residual, batched over starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import matrices_at_once

Linearisation = tuple[Tensor, ...]
"""Tensors (batch, ...) from which a solver computes steps of any damping."""


@dataclass(frozen=True)
class Patience:
    """When a start counts as stuck, and whether it is then followed further."""

    window: int = 12
    """Number of iterations between two checks."""
    part: float = 0.9
    """A start is stuck if q exceeds this fraction of its value at the last check."""
    thorough: bool = True
    """Whether a minimiser of q follows every stuck start to a minimum. If not, only starts that are already slow are
    settled, and others count as unfinished: where a step is expensive, a new start finds more."""


BRIEF = Patience(window=6, part=0.5, thorough=False)
"""The patience of solvers whose steps are expensive."""


@dataclass(frozen=True)
class Solver:
    """Anything that computes damped steps; a subclass defines `linearise` and `step`."""

    settle: ClassVar[Solver | None] = None
    """The solver that takes over stuck starts: it minimises q, which separates slow points from failures."""

    max_steps: int = 200
    """Upper limit of iterations."""

    @property
    def trial(self) -> Solver | None:
        """A cheaper solver that is tried first; starts that it does not take to a root begin again with this one."""
        return None

    @property
    def patience(self) -> Patience:
        """When it gives up a start."""
        return Patience()

    def chunk(self, size: int, device: torch.device) -> int:
        """Return how many starts to iterate together for states of `size` numbers, with a dense Jacobian for each.

        Later starts profit from the roots that earlier ones found.
        """
        return max(4, matrices_at_once(size, device))

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Linearisation:
        """Return what steps of any damping from `x` (batch, size) with residual `f` need."""
        raise NotImplementedError

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Linearisation, damping: Tensor) -> Tensor:
        """Return a step for each start; a damping (batch,) of 0 is the full step, a larger one shortens it."""
        raise NotImplementedError


def limit_step(
    step: Float[Tensor, "batch size"], reach: float, x: Float[Tensor, "batch size"], damping: Float[Tensor, " batch"]
) -> Float[Tensor, "batch size"]:
    """Shorten steps to `reach` / damping times the root mean square of the state, which counts as at least 1."""
    limit = reach * x.norm(dim=1).clamp_min(x.shape[1] ** 0.5) / damping.clamp_min(1e-12)
    return step * (limit / step.norm(dim=1)).clamp_max(1).unsqueeze(1)
