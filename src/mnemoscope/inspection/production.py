"""How a network produces intervals: by the speed along one path, along neighbouring paths, or on different ones."""

from __future__ import annotations

from math import log, nan

import torch

from mnemoscope.inspection.page import LoadedRun
from mnemoscope.lenses import Recording, Traversal, measure_speed, record_activity
from mnemoscope.tasks.cognitive import TrialTask

REPEATS = 20
"""Trials of each interval."""
NEIGHBOURING = 0.2
"""Distance between paths, as a share of the spread of the states, from which they are not the same."""
MOVING = 0.5
"""Length of a path, relative to the reference, from which a state that does not follow it moves elsewhere."""
PRODUCED = 0.5
"""Share of right intervals below which a network does not produce them, whatever its paths are."""
SCALED, UNSCALED = 0.7, 0.3
"""Power of the speed in 1 / interval from which time is scaled, and below which it is not."""

DIFFERENT = "so that intervals are produced on different paths, and not by the speed along one"


@torch.no_grad()
def speed_on_task(run: LoadedRun, task: TrialTask) -> tuple[Traversal | None, float, float]:
    """Return speeds in the first context, distances of paths relative to the spread, and the accuracy in all trials."""
    assert task.analysis is not None
    if task.analysis.timed is None:
        return None, nan, nan
    levels = len(task.grid().table[task.analysis.timed].levels)
    trials = task.trials(REPEATS * levels, run.config.seed, 0, "test")
    recording = record_activity(run.model, trials.batch.inputs, trials.table)
    if task.analysis.context is not None:  # another context may have another path
        recording = recording.part(next(iter(recording.table.groups(task.analysis.context).values())))
    accuracy = task.scores(run.model(trials.batch.inputs)[0], trials.batch)["accuracy"]
    return *speed_in(recording.in_epoch(task.analysis.epoch), task.analysis.timed), accuracy


def speed_in(epoch: Recording, timed: str) -> tuple[Traversal, float]:
    """Return the speeds by the condition `timed`, and the distance between paths as a share of the spread of states."""
    speed = measure_speed(epoch, timed)
    states = epoch.activity.flatten(0, 1)
    spread = (states - states.nanmean(0)).square().sum(1).nanmean().sqrt()
    others = [number for number in range(len(speed.names)) if number != speed.reference]
    return speed, float(speed.distance[:, others].nanmean() / spread)


def speed_sentence(speed: Traversal, apart: float, accuracy: float) -> str:
    """Return how the speed along the common path depends on the interval: as its power -1 if time is only scaled."""
    if accuracy < PRODUCED:
        return (
            f"How intervals are produced is not asked, since only {accuracy:.0%} are right: train the network further."
        )
    known = speed.ratio.isfinite() & (speed.ratio > 0)
    known[speed.reference] = False
    path = f"the path of {speed.condition} {speed.names[speed.reference]}"
    lengths = speed.speed.nansum(0)
    moving = bool((lengths >= MOVING * lengths[speed.reference]).all())
    if not bool(known.any()) and moving and apart >= NEIGHBOURING:
        return (
            f"In the epoch of production no other trajectory follows {path}, from which they are {apart:.0%} of the "
            f"spread of the states apart on average, {DIFFERENT}."
        )
    if not bool(known.any()):
        return f"How intervals are produced is not decided: no other trajectory advances along {path}."
    base = float(speed.levels[speed.reference])
    x = torch.tensor([log(base / level) for level in speed.levels[known].tolist()])
    y = speed.ratio[known].log()
    power = float((x * y).sum() / x.square().sum())
    return (
        f"In the epoch of production the state moves along {path}, or beside it at {apart:.0%} of the spread of its "
        f"states on average, at a speed proportional to {speed.condition}^{-power:.2f} (-1 if time is only scaled), "
        f"{_verdict(power, apart)}."
    )


def _verdict(power: float, apart: float) -> str:
    same = apart < NEIGHBOURING
    if power > SCALED:
        return f"so that intervals are produced by the speed along {'one path' if same else 'neighbouring paths'}"
    if power > UNSCALED:
        return "so that speed explains only a part" + ("" if same else ", and different paths the rest")
    if same:
        return "so that neither speed nor path tells the intervals apart: how they are produced is not decided"
    return DIFFERENT
