"""From a system and, where it is given, a trajectory to an energy report."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite, nan
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.analysis.energy.bounds import lower_bound
from mnemoscope.analysis.energy.counterexample import FAR, periodic_orbit
from mnemoscope.analysis.energy.flow import coupling, flow_guarantee, flow_rates, flow_terms
from mnemoscope.analysis.energy.lyapunov import TOLERANCE, Lyapunov, lyapunov_functions
from mnemoscope.analysis.energy.recurrence import Recurrence, elman_recurrence
from mnemoscope.analysis.energy.report import EnergyReport
from mnemoscope.analysis.energy.schedule import Schedule
from mnemoscope.analysis.energy.symmetry import Symmetry, symmetry
from mnemoscope.analysis.energy.weights import Weights
from mnemoscope.cells import Cell, EpisodicMap, EpisodicMemory, EpisodicState, Model, Stack, adapt
from mnemoscope.shapes import Float

SEARCHED = 512
"""Random starts of the search for a counter-example."""
SPREAD = 1.5
"""Standard deviation of random fields."""


def energy_report(
    system: Cell | nn.Module,
    trajectory: Float[Tensor, "time *batch size"] | EpisodicState | None = None,
    *,
    input: Float[Tensor, " features"] | None = None,
    delayed: Float[Tensor, "*batch features"] | None = None,
    hold: int = 1,
    times: Float[Tensor, " time"] | None = None,
    steps: int = 60,
    starts: int = 16,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> EnergyReport:
    """What energy a network has, whether and why it falls, and where it does not (000, Eq 3; 001; errata 2).

    Args:
        system: an `EpisodicMemory` (in continuous time), an `EpisodicMap`, an Elman cell or a torch.nn.RNN of one layer
            (tanh, relu, logistic, linear). Other networks have no known energy.
        trajectory: states (time, batch, size) or (time, size) of the system's own form; of an `EpisodicMemory` an
            `EpisodicState` of such tensors. By default it is simulated from random states.
        input: the constant input; zeros by default.
        delayed: of an `EpisodicMap`: V_d frozen at these values, (features,) or (batch, features).
        hold: of an `EpisodicMap`: steps for which V_d stays before it takes the rates again (from the first state on);
            1 is the map itself.
        times: of an `EpisodicMemory`: when the states were, or are wanted; by default ten of its time constants.
        steps: of a simulated trajectory.
        starts: number of simulated trajectories.
        seed: of their random starts, and of the search for a counter-example.
        tolerance: how large an antisymmetric part may be, relative to its matrix, to count as rounding.

    >>> from mnemoscope.cells import EpisodicMemory
    >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])  # Phi^T rotates by 90 degrees
    >>> memory = EpisodicMemory(torch.eye(2), turn).discrete()
    >>> energy_report(memory, torch.tensor([[0.8, 0.1], [0.56, 0.76]])).guaranteed
    False
    >>> energy_report(memory, delayed=torch.tensor([1.0, 0.0])).kind
    'frozen'

    """
    for name, count in (("steps", steps), ("starts", starts), ("hold", hold)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name} must be a whole number, at least 1, but is {count!r}.")
    if isinstance(system, Model):
        raise TypeError("A Model reads its cell out; look at the cell itself: energy_report(model.cell).")
    cell = adapt(system)
    plan = (steps, starts, torch.Generator().manual_seed(seed), tolerance)
    if not isinstance(cell, EpisodicMap) and (delayed is not None or hold != 1):
        raise ValueError(f"V_d can be frozen or held of an EpisodicMap, not of a {type(cell).__name__}.")
    if not isinstance(cell, EpisodicMemory) and times is not None:
        raise ValueError(f"A {type(cell).__name__} moves in steps; times belong to an EpisodicMemory.")
    if isinstance(cell, EpisodicMemory):
        return _of_flow(cell, trajectory, input, times, *plan)
    if isinstance(trajectory, tuple):
        raise ValueError("A trajectory of this system is one tensor (time, batch, size), but a tuple was given.")
    if isinstance(cell, EpisodicMap):
        return _of_map(cell, trajectory, input, delayed, hold, *plan)
    if isinstance(cell, Stack):
        raise TypeError("No energy is known for layers on top of each other; look at one layer at a constant input.")
    frozen = cell.frozen()
    recurrence = elman_recurrence(frozen, input)
    return _of_recurrence(recurrence, f"{type(cell).__name__} ({recurrence.sigma.name}, {recurrence.size} units)",
                          None if trajectory is None else _states(trajectory, recurrence.size), *plan)  # fmt: skip


def _of_recurrence(
    recurrence: Recurrence,
    name: str,
    trajectory: Tensor | None,
    steps: int,
    starts: int,
    generator: torch.Generator,
    tolerance: float,
) -> EnergyReport:
    best, *others = lyapunov_functions(recurrence, tolerance)
    if trajectory is None:
        rates = _run(recurrence.step, _random(recurrence.sigma, (starts, recurrence.size), generator), steps)
    else:
        rates = trajectory.to(torch.float64)
    if best.kind == "two-step" and len(rates) < 3:
        raise ValueError(
            f"The energy is one of two states in a row and needs three for a change, but got {len(rates)}."
        )
    energy, change = best.energy(rates), best.change(rates)
    first = len(rates) - len(energy.total)
    report = EnergyReport(
        name, best.kind != "none", best.kind, best.why, torch.arange(first, len(rates)).double(),
        tuple(energy.terms), energy.stacked, tuple(change.terms), change.stacked, best.size(rates), False,
        trajectory is not None, _precision(trajectory), _deviation(recurrence.step, rates, trajectory),
        best.asymmetry, others=tuple(f"({one.kind}) {one.why}" for one in others),
    )  # fmt: skip
    report = replace(report, **_bound_of(best))
    if report.guaranteed:
        return report
    tried = _run(recurrence.step, _random(recurrence.sigma, (SEARCHED, recurrence.size), generator), 40)
    found = _largest((rates, best.energy(rates).total), (tried, best.energy(tried).total))
    orbit = periodic_orbit(recurrence.step, tried[-1, :64])
    return replace(report, **found, orbit=None if orbit is None else orbit.rates)


def _bound_of(best: Lyapunov) -> dict[str, Any]:
    """Of an energy of one state with weights of 1: g.W g is at most g.Xi Xi^T g, the positive part of W being Xi Xi^T."""
    if best.kind == "contraction":
        return {"bound": 0.0, "bound_why": "it is a distance"}
    if best.kind != "one-step" or bool((best.weights != 1).any()):
        return {}
    recurrence = best.recurrence
    values, modes = torch.linalg.eigh((recurrence.W + recurrence.W.mT) / 2)
    Xi = modes * values.clamp_min(0).sqrt()
    weights = Weights.of(Xi, torch.zeros_like(Xi), recurrence.sigma, current=recurrence.b)
    found = lower_bound(weights, torch.zeros_like(recurrence.b))
    # an unbounded part does not show that the whole is unbounded where W has negative eigenvalues too
    known = found.exists or bool(values[0] >= 0)
    return {"bound": float(found.value), "bound_why": found.why} if known else {}


def _of_map(
    cell: EpisodicMap,
    trajectory: Tensor | None,
    input: Tensor | None,
    delayed: Tensor | None,
    hold: int,
    steps: int,
    starts: int,
    generator: torch.Generator,
    tolerance: float,
) -> EnergyReport:
    memory = cell.memory
    weights = Weights.of_memory(memory, input)
    name = f"the episodic map ({weights.sigma_f.name}, {weights.features} features, {weights.Xi.shape[1]} memories)"
    rates = None
    if trajectory is not None:
        states = _states(trajectory, weights.features)
        rates = states.double() if cell.conjugate else weights.sigma_f(states.double()).to(states.dtype)
    follows = delayed is None and hold == 1
    if follows and weights.linear:
        u = torch.zeros(weights.features, dtype=torch.float64) if weights.current is None else weights.current
        recurrence = Recurrence.of(weights.recurrent(), u, weights.sigma_f)
        if lyapunov_functions(recurrence, tolerance)[0].kind != "none":
            return _of_recurrence(recurrence, name, rates, steps, starts, generator, tolerance)
    schedule = Schedule(weights, _frozen_at(delayed, weights), hold)
    acts = bool((weights.alpha_c * weights.Xi @ weights.Phi).any())
    seen = symmetry(coupling(weights))
    kind, why = _map_guarantee(weights, seen, delayed is not None or not acts, hold, tolerance)
    if rates is None:
        start = _random(weights.sigma_f, (starts, weights.features), generator)
        run = schedule.run(start, steps)
    else:
        run = rates.double()
    held_at = schedule.delayed(run)
    energy = schedule.energy(run, held_at, kind == "schedule")
    change = schedule.change(run, held_at, kind == "schedule")
    bound = lower_bound(weights, held_at[0]) if kind == "frozen" else None
    report = EnergyReport(
        name, kind != "none", kind, why, torch.arange(len(run)).double(), tuple(energy.terms), energy.stacked,
        tuple(change.terms), change.stacked, energy.size[1:] + energy.size[:-1], False, trajectory is not None,
        _precision(rates), 0.0 if rates is None else schedule.deviation(run, held_at),
        seen.asymmetry if weights.linear and acts and delayed is None else nan,
        nan if bound is None else float(bound.value.min()), "" if bound is None else bound.why,
    )  # fmt: skip
    if report.guaranteed:
        return report
    tried = schedule.run(_random(weights.sigma_f, (SEARCHED, weights.features), generator), 40)
    found = _largest((run, energy.total), (tried, schedule.energy(tried, schedule.delayed(tried), False).total))
    orbit = periodic_orbit(schedule.follow, tried[-1, :64]) if follows else None
    return replace(report, **found, orbit=None if orbit is None else orbit.rates)


def _map_guarantee(weights: Weights, seen: Symmetry, stays: bool, hold: int, tolerance: float) -> tuple[str, str]:
    """Which function falls with V_d on a schedule, and why."""
    if stays:
        return "frozen", "V_d is frozen or does not act, and L_f and L_h are convex: a step takes two divergences away"
    norm = float(torch.linalg.matrix_norm(coupling(weights), 2))
    if weights.linear and seen.asymmetry <= tolerance and seen.lowest >= -tolerance * norm:
        return "schedule", "Xi Phi Xi^T is symmetric and positive semi-definite: V_d may move whenever it likes"
    if not weights.linear:
        because = "sigma_h is not linear"
    elif seen.asymmetry > tolerance:
        because = f"Xi Phi Xi^T is not symmetric (antisymmetric part {seen.asymmetry:.2g} of its norm)"
    else:
        because = f"Xi Phi Xi^T is symmetric, but not positive (lowest eigenvalue {seen.lowest:.3g})"
    held = "" if hold == 1 else f"; it falls on the {hold - 1} of {hold} steps after which V_d stays"
    return "none", f"V_d moves, which can raise the energy, as {because}{held}"


def _of_flow(
    cell: EpisodicMemory,
    trajectory: Any,
    input: Tensor | None,
    times: Tensor | None,
    steps: int,
    starts: int,
    generator: torch.Generator,
    tolerance: float,
) -> EnergyReport:
    memory = cell.frozen(torch.float64)
    assert isinstance(memory, EpisodicMemory)
    weights = Weights.of_memory(memory, input)
    kind, why, asymmetry = flow_guarantee(memory, weights, tolerance)
    u = weights.Xi.new_zeros(weights.features) if weights.current is None else weights.current

    def random(count: int) -> EpisodicState:
        f, d = (SPREAD * torch.randn(count, weights.features, generator=generator).double() for _ in range(2))
        h = SPREAD * torch.randn(count, weights.Xi.shape[1], generator=generator).double()
        return memory.settled(EpisodicState(f, h, weights.sigma_f(d)))

    if trajectory is None:
        longest = max(filter(isfinite, (memory.T_f, memory.T_h, memory.T_d)))
        times = torch.linspace(0, 10 * longest, steps + 1).double() if times is None else times.double()
        states = memory.integrate(random(starts), times, input=u)
    else:
        states = memory.settled(_flow_states(trajectory, memory))
        times = torch.arange(len(states.V_f)).double() if times is None else times.double()
        if times.shape != states.V_f.shape[:1]:
            raise ValueError(f"There are {len(states.V_f)} states, but times are of shape {tuple(times.shape)}.")
    energy = flow_terms(weights, kind, states)
    rates = flow_rates(memory, weights, kind, states, memory(u, states))
    bound = lower_bound(weights, states.V_d[0]) if kind == "frozen" else None
    report = EnergyReport(
        f"the episodic memory ({weights.sigma_f.name}, {weights.features} features, {weights.Xi.shape[1]} memories)",
        kind != "none", kind, why, times, tuple(energy.terms), energy.stacked, tuple(rates.terms), rates.stacked,
        rates.size, True, trajectory is not None, torch.finfo(torch.float64).eps, asymmetry=asymmetry,
        bound=nan if bound is None else float(bound.value.min()), bound_why="" if bound is None else bound.why,
    )  # fmt: skip
    if report.guaranteed:
        return report
    tried = random(SEARCHED)
    upward = flow_rates(memory, weights, kind, tried, memory(u, tried)).total
    worst = int(upward.argmax())
    if upward[worst] <= 0:
        return report
    return replace(report, rise=torch.cat([part[worst] for part in tried])[None], rise_energy=upward[worst][None])


def _largest(*runs: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Rates and energies before and after the largest rise in these runs; nothing where none of them rises."""
    found: dict[str, Tensor] = {}
    most = 0.0
    for rates, energy in runs:
        change = energy.diff(dim=0)
        change = torch.where(torch.isfinite(change), change, -inf)
        size = energy[1:].abs() + energy[:-1].abs()
        change = torch.where(change > 1e-9 * size, change, -inf)
        if change.numel() and float(change.max()) > most:
            most, at = float(change.max()), int(change.argmax())
            step, member = divmod(at, change.shape[1])
            found = {
                "rise": rates[step : step + 2, member].clone(),
                "rise_energy": energy[step : step + 2, member].clone(),
            }
    return found


def _run(step: Any, start: Tensor, steps: int) -> Tensor:
    """Rates (time, batch, size), cut off where any of them leaves for infinity."""
    run = [start]
    for _ in range(steps):
        following = step(run[-1])
        if not bool((following.abs() < FAR).all()) and len(run) > 2:
            break
        run.append(following)
    return torch.stack(run)


def _random(sigma: Any, shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    return sigma(SPREAD * torch.randn(*shape, generator=generator).double())


def _states(trajectory: Tensor, size: int) -> Tensor:
    if not isinstance(trajectory, Tensor) or trajectory.dim() not in (2, 3) or trajectory.shape[-1] != size:
        shape = tuple(trajectory.shape) if isinstance(trajectory, Tensor) else type(trajectory).__name__
        raise ValueError(f"A trajectory must be (time, batch, {size}) or (time, {size}), but is {shape}.")
    if len(trajectory) < 2:
        raise ValueError("A trajectory needs at least two states, one after the other.")
    if not trajectory.is_floating_point() or not torch.isfinite(trajectory).all():
        raise ValueError("A trajectory must be of real and finite numbers.")
    states = trajectory.detach().cpu()
    return states[:, None] if states.dim() == 2 else states


def _flow_states(trajectory: Any, memory: EpisodicMemory) -> EpisodicState:
    if not isinstance(trajectory, tuple) or len(trajectory) != 3:
        raise ValueError("A trajectory of an EpisodicMemory is an EpisodicState of tensors (time, batch, units).")
    sizes = memory.features, memory.memories, memory.features
    states = EpisodicState(*(_states(part, size).double() for part, size in zip(trajectory, sizes, strict=True)))
    if len({part.shape[:2] for part in states}) != 1:
        raise ValueError("V_f, V_h and V_d of a trajectory must have the same times and the same batch.")
    return states


def _frozen_at(delayed: Tensor | None, weights: Weights) -> Tensor | None:
    if delayed is None:
        return None
    if delayed.shape[-1:] != (weights.features,) or delayed.dim() > 2 or not torch.isfinite(delayed).all():
        raise ValueError(
            f"delayed must be finite, ({weights.features},) or (batch, {weights.features}), but its shape is "
            f"{tuple(delayed.shape)}."
        )
    return delayed.detach().double()


def _precision(states: Tensor | None) -> float:
    return torch.finfo(torch.float64 if states is None else states.dtype).eps


def _deviation(step: Any, rates: Tensor, given: Tensor | None) -> float:
    if given is None:
        return 0.0
    off = (step(rates[:-1]) - rates[1:]).abs().amax()
    deviation = float(off / rates.abs().amax().clamp_min(1e-300))
    return deviation if isfinite(deviation) else inf
