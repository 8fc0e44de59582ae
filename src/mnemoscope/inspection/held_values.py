"""How a network holds the value of a condition through an epoch: on a slow manifold, or at stable fixed points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.plurals import pluralise
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.slow_manifold import inspect_slow_manifold
from mnemoscope.lenses import Dynamics, FixedPoints, Recording, SlowManifold
from mnemoscope.tasks.cognitive import TrialTask

SETTLING = 10
"""Length of the relaxation after the epoch, in lengths of the epoch, or in time constants if these are longer."""
MOST_STEPS = 10_000
"""Steps of the relaxation at most."""
NEAR = 0.02
"""Root-mean-square distance from a stable point, relative to the spread of the states, at which a state rests there."""
MOST_TRIALS = 0.8
"""Share of the trials that rest where most trials of their value do, from which stable points hold the value."""


@dataclass(frozen=True)
class HeldIn:
    """How a value is held in one context."""

    name: str
    """Name of the context, such as "context motion"; "" if there is one alone."""
    points: FixedPoints
    memory: SlowManifold | None
    """The slow manifold on which the visited states settle, or what they do instead; None if it was not sought."""
    rests: dict[str, tuple[int, ...]]
    """Number of the stable point at which each trial rests in the end, by the value of the held condition; -1 for none
    of them."""
    relaxed: int
    """Steps after the epoch in which trials may reach a stable point."""
    duration: int
    """Longest duration of the epoch in steps."""
    explained: float
    """Share of the variance of the states at the end of the epoch that lies between values of the held condition."""

    @property
    def places(self) -> set[int]:
        """Stable points at which trials rest."""
        return {place for rests in self.rests.values() for place in rests} - {-1}

    @property
    def unsettled(self) -> float:
        """Share of the trials that rest at no stable point."""
        rests = [place for rests in self.rests.values() for place in rests]
        return rests.count(-1) / len(rests)

    @property
    def agreement(self) -> float:
        """Share of the trials that rest where most trials of their value do."""
        most = sum(Counter(rests).most_common(1)[0][1] for rests in self.rests.values())
        return most / sum(map(len, self.rests.values()))

    @property
    def separate(self) -> int:
        """Number of different points at which most trials of a value rest."""
        return len({Counter(rests).most_common(1)[0][0] for rests in self.rests.values()})


def held_in(
    name: str, dynamics: Dynamics, recording: Recording, task: TrialTask, fp: FixedPoints, options: InspectionOptions
) -> HeldIn:
    """Return how the value that the task names is held in the context `name`."""
    assert task.analysis is not None
    part = recording
    if task.analysis.context is not None:
        part = recording.part(recording.table.groups(task.analysis.context)[name])
    epoch = part.in_epoch(task.analysis.epoch)
    lengths = epoch.table.epoch(task.analysis.epoch).lengths
    longest = int(lengths.max())
    memory = _memory(dynamics, part, fp, options, max(longest, 2))
    ends = epoch.activity[lengths - 1, torch.arange(epoch.trials)]
    groups = part.table.groups(task.analysis.held) if task.analysis.held else {"all": torch.arange(part.trials)}
    slowest = max([float(fp.time_constants[place].max()) for place in _stable(fp)], default=0.0)
    relaxed = int(min(SETTLING * max(longest, slowest), MOST_STEPS))
    rests = _rests(dynamics, ends, fp, relaxed)
    by_value = {value: tuple(rests[members].tolist()) for value, members in groups.items()}
    context = name if task.analysis.context else ""
    return HeldIn(context, fp, memory, by_value, relaxed, longest, _explained(ends, groups))


def _memory(
    dynamics: Dynamics, part: Recording, fp: FixedPoints, options: InspectionOptions, steps: int
) -> SlowManifold | None:
    """Return the slow manifold on the time scale of the epoch, or else on those that the lens tries by default."""
    found = None
    for scale in (steps, None):
        found = inspect_slow_manifold(dynamics, part.activity, fp, options, steps=scale)
        if isinstance(found, str):
            return None  # too slow to look for, which the section on it says
        if found:
            return found
    return found


def _stable(fp: FixedPoints) -> list[int]:
    return [number for number, kind in enumerate(fp.kind) if kind == "stable"]


@torch.no_grad()
def _rests(
    dynamics: Dynamics, states: Float[Tensor, "trials size"], fp: FixedPoints, steps: int
) -> Int[Tensor, " trials"]:
    """Return the number of the stable point at which each state rests after so many steps; -1 for none."""
    stable = torch.tensor(_stable(fp), dtype=torch.long)
    at = states.to(dynamics.origin)
    for _ in range(steps):
        at = dynamics(at)
    if not len(stable):
        return torch.full((len(states),), -1)
    distance, nearest = torch.cdist(at, fp.states[stable].to(at)).min(1)
    spread = (states - states.mean(0)).norm(dim=1).square().mean().sqrt()
    return torch.where(distance.cpu() <= NEAR * spread, stable[nearest.cpu()], -1)


def _explained(states: Float[Tensor, "trials size"], groups: Mapping[str, Tensor]) -> float:
    """Return the share of variance between groups."""
    centred = states - states.mean(0)
    between = sum(len(members) * centred[members].mean(0).square().sum() for members in groups.values())
    return float(between / centred.square().sum().clamp_min(1e-300))


def held_sentence(task: TrialTask, held: HeldIn) -> str:
    """Return by which attractor or manifold a value is held in a context, as far as the lenses show it."""
    assert task.analysis is not None
    value, epoch = task.analysis.held, task.analysis.epoch
    where = f"In the {held.name}, the {value} is" if held.name else f"The {value} is"
    lasts = f"the {epoch} of {held.duration * task.step:g} ms"
    share = f"{held.explained:.0%} of the variance of the states at the end of the {epoch} lies between values of it"
    if held.memory:
        return f"{where} held on {_manifold(held, held.memory, task, lasts)}; {share}."
    values, places = len(held.rests), len(held.places)
    together = f"{held.agreement:.0%} of the trials rest where most trials of their value do"
    if held.unsettled:
        return (
            f"{where} held by a mechanism that is not decided: without further input, {held.unsettled:.0%} of the "
            f"trials reach none of the stable points within {held.relaxed * task.step:g} ms after {lasts}, and they "
            f"settle on no slow manifold; {share}. Look for a cycle with ms.find_cycles, or train with longer delays, "
            f"other seeds or weight decay."
        )
    if places == 1:
        return f"{where} {_transient(held, task, lasts)}; {share}."
    if held.agreement == 1 and held.separate == values:
        return f"{where} held by {values} stable fixed points, one for each value; {share}."
    if held.agreement == 1:
        return f"{where} held by {places} stable fixed points for {values} values, so that some share one; {share}."
    if held.agreement >= MOST_TRIALS and held.separate > 1:
        return f"{where} held by {places} stable fixed points for {values} values; {together}; {share}."
    return (
        f"{where} held by a mechanism that is not decided: the trials end at {places} stable fixed points that do not "
        f"tell its {values} values apart: {together}; {share}. Train longer, or with other seeds."
    )


def _manifold(held: HeldIn, memory: SlowManifold, task: TrialTask, lasts: str) -> str:
    """Return the slow manifold with the time for which it holds a value, and the points at which its states rest."""
    life = memory.lifetime * task.step
    length = f"longer than {lasts}" if life >= held.duration * task.step else f"about {life:.2g} ms, not all of {lasts}"
    rests = f", which lead to {pluralise(len(held.places), 'stable fixed point')} in the end" if held.places else ""
    return f"a {memory.topology} of slow states, to {memory.tolerance:.0%} of its range for {length}{rests}"


def _transient(held: HeldIn, task: TrialTask, lasts: str) -> str:
    """Return how long the slowest mode of the only stable point takes to decay, and whether it rotates."""
    (place,) = held.places
    constants = held.points.time_constants[place]
    slowest = float(constants.max()) * task.step
    angle = float(held.points.eigenvalues[place][int(constants.argmax())].angle().abs())
    rotation = f", a rotation with a period of {2 * pi / angle * task.step:.3g} ms," if angle > 1e-9 else ""
    mode = f"whose slowest mode{rotation} has a time constant of {slowest:.3g} ms"
    if slowest >= held.duration * task.step:
        return f"held by a slow transient: all trials end at one stable point, {mode}, longer than {lasts}"
    return f"not held for good: all trials end at one stable point, {mode}, while {lasts} must be bridged"
