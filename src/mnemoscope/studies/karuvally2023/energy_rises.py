"""Counts of steps on which an energy of the episodic memory rises, and a search for states below its bound."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EpisodicMemory, EpisodicState
from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.bregman import beyond_rounding, step_descent
from mnemoscope.lenses.energy.lyapunov import lyapunov_functions
from mnemoscope.lenses.energy.recurrence import Recurrence
from mnemoscope.lenses.energy.schedule import Schedule
from mnemoscope.lenses.energy.terms import VARIANTS, flow_energy_rate, map_energy
from mnemoscope.lenses.energy.weights import Weights

SETTLING = 10
"""Steps with a following V_d before later rises are counted."""
SEARCH_STEPS = 60
"""Steps of the search for an energy below its bound."""


def random_memory(generator: torch.Generator, sigma_f: str, sigma_h: str = "linear", alphas: bool = False) -> Weights:
    """Return a memory with 2 to 16 features, 1 to 12 memories and random strength.

    With `alphas`, alpha_s and alpha_c are random too.
    """
    features, memories = (
        int(torch.randint(low, high + 1, (), generator=generator)) for low, high in ((2, 16), (1, 12))
    )
    gain, alpha_s, alpha_c = (torch.rand(3, generator=generator, dtype=torch.float64) * 1.7 + 0.3).tolist()
    Xi = gain * torch.randn(features, memories, generator=generator, dtype=torch.float64) / features**0.5
    Phi = torch.randn(memories, memories, generator=generator, dtype=torch.float64) / memories**0.5
    return Weights.from_matrices(Xi, Phi, sigma_f, sigma_h, *((alpha_s, alpha_c) if alphas else ()))


def random_steps(generator: torch.Generator, weights: Weights, steps: int) -> tuple[Tensor, Tensor]:
    """Return V_f and V_d: the rates of V_f on every second step, as in Eq 27, else those of another state."""
    x, other = (2 * torch.randn(steps, weights.features, generator=generator, dtype=torch.float64) for _ in range(2))
    y = weights.sigma_f(other)
    y[::2] = weights.sigma_f(x[::2])
    return x, y


def count_rises(
    weights: Weights, x: Float[Tensor, "steps features"], y: Float[Tensor, "steps features"]
) -> dict[str, int]:
    """Count the steps that raise each energy; Eq 28 and 29 use V_d = sigma_f(x), as Eq 27 requires."""
    counts = {}
    for variant in VARIANTS:
        held = weights.sigma_f(x) if variant == "printed 28" else y
        old, new = map_energy(weights, x, held, variant), map_energy(weights, weights.step(x, held), held, variant)
        counts[variant] = int(beyond_rounding(new.total - old.total, old.size + new.size).sum())
    counts["following"] = int(step_descent(weights, x, weights.sigma_f(x), following=True).rises.sum())
    return counts


def descend(weights: Weights, x: Float[Tensor, "starts features"], y: Float[Tensor, "starts features"]) -> Tensor:
    """Return V_f at the end of a search for the lowest energy by Adam.

    Every second search starts from x, the others from where the steps of the memory lead from x.
    """
    stepped = x
    for _ in range(SEARCH_STEPS):
        stepped = weights.step(stepped, y)
    start = torch.where((torch.arange(len(x)) % 2 == 0)[:, None], x, stepped)
    found = start.clone().requires_grad_()
    search = torch.optim.Adam([found], lr=0.1)
    for _ in range(SEARCH_STEPS):
        search.zero_grad()
        map_energy(weights, found, y).total.sum().backward()
        search.step()
    return found.detach()


def count_below(weights: Weights, x: Float[Tensor, "states features"], y: Tensor) -> tuple[int, float]:
    """Count the states below the bound by more than rounding; also return the least relative height above it."""
    energy, bound = map_energy(weights, x, y), lower_bound(weights, y).value
    under = beyond_rounding(bound - energy.total, energy.size + bound.abs())
    return int(under.sum()), float(((energy.total - bound) / bound.abs().clamp_min(1e-300)).min())


def count_later_rises(weights: Weights, x: Float[Tensor, "steps features"]) -> int:
    """Count the steps that raise Eq 25 after `SETTLING` steps with a following V_d."""
    for _ in range(SETTLING):
        x = weights.step(x, weights.sigma_f(x))
    return int(step_descent(weights, x, weights.sigma_f(x), following=True).rises.sum())


def count_flow_rises(weights: Weights, x: Float[Tensor, "states features"], y: Tensor, T_d: float) -> int:
    """Count the states of the three populations at which the energy of the flow rises.

    V_f is the result of a step from x with V_d = y; the memory population is at equilibrium with both.
    """
    memory = EpisodicMemory(weights.Xi, weights.Phi, weights.sigma_f, weights.sigma_h, T_d=T_d)
    f = weights.step(x, y)
    state = EpisodicState(f, weights.memory_drive(weights.sigma_f(f), y), y)
    with torch.no_grad():
        rate = flow_energy_rate(weights, state, memory(torch.zeros_like(f), state), 1.0, 1.0)
    return int(beyond_rounding(rate.total, rate.size).sum())


def count_elman_rises(generator: torch.Generator, sigma: str, states: int) -> tuple[int, int]:
    """Return the number of rises and of steps in Elman networks for which a Lyapunov function exists.

    These have a symmetric W, a positive semidefinite W, or a positive semidefinite S and a schedule.
    """
    size = int(torch.randint(2, 13, (), generator=generator))
    W, Xi = (torch.randn(size, size, generator=generator, dtype=torch.float64) / size for _ in range(2))
    start = 2 * torch.randn(states, size, generator=generator, dtype=torch.float64)
    b = torch.randn(size, generator=generator, dtype=torch.float64)
    rises = []
    for kind, matrix in (("two-step", W + W.mT), ("one-step", W @ W.mT)):
        recurrence = Recurrence.from_matrix(matrix, b, sigma)
        rates = [recurrence.sigma(start)]
        for _ in range(4):
            rates.append(recurrence.step(rates[-1]))
        along = torch.stack(rates)
        lyapunov = next(function for function in lyapunov_functions(recurrence) if function.kind == kind)
        rises.append(beyond_rounding(lyapunov.energy(along).total.diff(dim=0), lyapunov.size(along)))
    schedule = Schedule(Weights.from_matrices(Xi, W @ W.mT, sigma), hold=2, kind="schedule")
    along = schedule.run(schedule.weights.sigma_f(start), 4)
    rises.append(beyond_rounding(schedule.energy(along).total.diff(dim=0), schedule.size(along)))
    return sum(int(rising.sum()) for rising in rises), sum(rising.numel() for rising in rises)
