"""Trajectories for an energy report, given or simulated, and the largest rise in them."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.lagrangians import Lagrangian
from mnemoscope.lenses.energy.counterexample import FAR
from mnemoscope.lenses.energy.descent import ROUNDING
from mnemoscope.lenses.energy.terms import Energy

SEARCHED = 512
"""Random starts of the search for a counter-example."""
SPREAD = 1.5
"""Standard deviation of random fields."""


def run_from(step: Callable[[Tensor], Tensor], start: Tensor, steps: int) -> Tensor:
    """Rates (time, batch, size), cut off where any of them leaves for infinity."""
    run = [start]
    for _ in range(steps):
        following = step(run[-1])
        if not bool((following.abs() < FAR).all()) and len(run) > 2:
            break
        run.append(following)
    return torch.stack(run)


def random_rates(sigma: Lagrangian, shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Rates of random fields."""
    return sigma(SPREAD * torch.randn(*shape, generator=generator).double())


def checked_states(trajectory: Tensor, size: int) -> Float[Tensor, "time batch size"]:
    """A given trajectory, (time, batch, size) or (time, size), with a batch; raises where it is something else."""
    if not isinstance(trajectory, Tensor) or trajectory.dim() not in (2, 3) or trajectory.shape[-1] != size:
        shape = tuple(trajectory.shape) if isinstance(trajectory, Tensor) else type(trajectory).__name__
        raise ValueError(f"A trajectory must be (time, batch, {size}) or (time, {size}), but is {shape}.")
    if len(trajectory) < 2:
        raise ValueError("A trajectory needs at least two states, one after the other.")
    if not trajectory.is_floating_point() or not torch.isfinite(trajectory).all():
        raise ValueError("A trajectory must be of real and finite numbers.")
    states = trajectory.detach().cpu()
    return states[:, None] if states.dim() == 2 else states


def precision_of(states: Tensor | None) -> float:
    """Unit of the last place of given states; of simulated ones that of float64."""
    return torch.finfo(torch.float64 if states is None else states.dtype).eps


def deviation_of(step: Callable[[Tensor], Tensor], rates: Tensor, given: Tensor | None) -> float:
    """How far given rates stray from one step of the system to the next, relative to their size."""
    if given is None:
        return 0.0
    off = (step(rates[:-1]) - rates[1:]).abs().amax()
    deviation = float(off / rates.abs().amax().clamp_min(1e-300))
    return deviation if isfinite(deviation) else inf


def largest_rise(*runs: tuple[Tensor, Energy, Tensor | None, float]) -> dict[str, Tensor]:
    """Rates, energies, and V_d if it is given, before and after the largest rise in these runs; nothing where none of
    them rises by more than rounding of states of its precision. An energy of two states has one time less than the
    rates, and its rise is one of three states.
    """
    found: dict[str, Tensor] = {}
    most = 0.0
    for rates, terms, delayed, precision in runs:
        energy, size = terms.total, terms.size
        change = energy.diff(dim=0)
        change = torch.where(torch.isfinite(change), change, -inf)
        change = torch.where(change > ROUNDING * precision * (size[1:] + size[:-1]), change, -inf)
        if change.numel() and float(change.max()) > most:
            most, at = float(change.max()), int(change.argmax())
            step, member = divmod(at, change.shape[1])
            own = slice(step, step + 2 + len(rates) - len(energy))
            found = {"rise": rates[own, member].clone(), "rise_energy": energy[step : step + 2, member].clone()}
            if delayed is not None:
                found["rise_delayed"] = delayed[own, member].clone()
    return found
