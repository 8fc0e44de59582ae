"""Where to start the search for fixed points: each strategy is a frozen object that draws flat states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.cells import run_with_cache
from mnemoscope.shapes import Float


@runtime_checkable
class StartStrategy(Protocol):
    """Anything that draws starts for a system."""

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        """Flat states, in the system's dtype."""
        ...


@dataclass(frozen=True)
class FromTrajectories:
    """States that the network really visits: `number` of them, drawn at random from its run over `inputs`.

    Args:
        inputs: (time, batch, features), for example a batch of the task.
        number: how many starts.
        noise: standard deviation of Gaussian noise added to each.

    """

    inputs: Tensor
    number: int = 1024
    noise: float = 0.0

    def __post_init__(self) -> None:
        _check_number(self.number)

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        if dynamics.continuous:
            raise ValueError("A flow has no trajectory over a sequence of inputs; pass its states, or use Box.")
        inputs = self.inputs.to(dynamics.input)
        with torch.no_grad():
            states = run_with_cache(dynamics.cell, inputs)[1].flat().flatten(0, 1)
        return _pick(states, self.number, self.noise, generator)


@dataclass(frozen=True)
class Box:
    """Uniform in a box: the system's invariant box, or the given (low, high)."""

    number: int = 1024
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _check_number(self.number)
        if (self.low is None) != (self.high is None):
            raise ValueError("Box takes low and high together, or neither.")

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        if self.low is not None and self.high is not None:
            low, high = (torch.full_like(dynamics.origin[0], edge) for edge in (self.low, self.high))
        elif dynamics.bounds is not None:
            low, high = dynamics.bounds
        else:
            raise ValueError("No invariant box of this system is known; pass Box(number, low, high).")
        unit = torch.rand(self.number, dynamics.size, generator=generator, dtype=dynamics.dtype)
        return low + (high - low) * unit.to(dynamics.device)


@dataclass(frozen=True)
class Adaptive:
    """A few states, then combinations of the points found, in waves, until the set is complete and nothing new appears.

    A fixed point between two others is best looked for between them: saddles lie between attractors, saddles of higher
    index between saddles. Each wave starts from mid-points of pairs of found points (of equal index first), and from
    random mixtures of several when the pairs are used up.

    Args:
        initial: states to begin with, (starts, size), or a strategy that draws them. States that the network visits
            at its task are best; without any, it is left to itself from random states.
        number: how many starts a wave has.
        patience: how many waves in a row must bring nothing new before the search ends; four times as many while the
            index sum shows that points are missing. Degenerate points do not count as new: a line of fixed points
            would never be exhausted.
        waves: upper limit.

    """

    initial: Tensor | StartStrategy | None = None
    number: int = 64
    patience: int = 1
    waves: int = 40

    def __post_init__(self) -> None:
        _check_number(self.number)
        if self.patience < 1 or self.waves < 1:
            raise ValueError(f"patience and waves must be positive, but are {self.patience} and {self.waves}.")

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        """The first wave."""
        if self.initial is None:
            return _relaxations(dynamics, self.number, generator)
        if isinstance(self.initial, Tensor):
            return self.initial
        return self.initial.draw(dynamics, generator)

    def combine(
        self,
        roots: Float[Tensor, "roots size"],
        index: Sequence[int],
        tried: set[tuple[int, int]],
        generator: Generator,
    ) -> Float[Tensor, "starts size"]:
        """The next wave from the roots found; `tried` remembers the pairs that were used."""
        pairs = [
            (first, second) for second in range(len(roots)) for first in range(second) if (first, second) not in tried
        ]
        # attractors first (index +1 twice), then saddles, then mixed pairs; stable, so older roots come first
        pairs.sort(key=lambda pair: -(index[pair[0]] + index[pair[1]]) if index[pair[0]] == index[pair[1]] else 3)
        pairs = pairs[: self.number]
        tried.update(pairs)
        starts = [0.5 * (roots[[a for a, _ in pairs]] + roots[[b for _, b in pairs]])] if pairs else []
        rest = self.number - len(pairs)
        if rest:
            weights = torch.rand(rest, len(roots), generator=generator, dtype=roots.dtype).to(roots.device)
            keep = torch.rand(rest, len(roots), generator=generator).argsort(1) < 4
            weights = weights * keep.to(roots)
            mixtures = (weights / weights.sum(1, keepdim=True)) @ roots
            spread = roots.std(0, correction=0) if len(roots) > 1 else torch.ones_like(roots[0])
            noise = torch.randn(mixtures.shape, generator=generator, dtype=roots.dtype).to(roots.device)
            starts.append(mixtures + 0.2 * spread * noise)
        return torch.cat(starts)


def _relaxations(dynamics: Dynamics, number: int, generator: Generator) -> Tensor:
    """States of the system left to itself from random beginnings: `number` on the way, and four times as many at rest.

    To follow the map costs little beside a solver's step, and those at rest at an attractor are recognised at once, so
    that an attractor with a small basin is not missed.
    """
    several = 5 * number
    if dynamics.bounds is not None:
        states = Box(several).draw(dynamics, generator)
    else:
        states = torch.randn(several, dynamics.size, generator=generator, dtype=dynamics.dtype).to(dynamics.device)
    if dynamics.continuous:
        return states[:number]
    wait = torch.full((several, 1), RELAX)
    wait[:number] = torch.randint(0, RELAX // 5, (number, 1), generator=generator)
    wait, beginning = wait.to(dynamics.device), states
    with torch.no_grad():
        for step in range(RELAX):
            states = torch.where(wait > step, dynamics(states), states)
    # a map without a box may throw some of them far away: those start where they began
    lost = ~torch.isfinite(states).all(1) | (states.norm(dim=1) > 1e3 * (1 + beginning.norm(dim=1)))
    return torch.where(lost[:, None], beginning, states)


RELAX = 150
"""Steps after which a relaxing state is taken to be at rest."""


def _pick(states: Tensor, number: int, noise: float, generator: Generator) -> Tensor:
    rows = torch.randint(0, states.shape[0], (number,), generator=generator)
    if number <= states.shape[0]:
        rows = torch.randperm(states.shape[0], generator=generator)[:number]
    picked = states[rows.to(states.device)]
    if noise:
        drawn = torch.randn(picked.shape, generator=generator, dtype=picked.dtype)
        picked = picked + noise * drawn.to(picked.device)
    return picked


def _check_number(number: int) -> None:
    if number < 1:
        raise ValueError(f"The number of starts must be positive, but is {number}.")
