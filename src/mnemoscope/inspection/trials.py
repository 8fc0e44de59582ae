"""The mechanism of a network on a trial-based task, and the page section on it.

The task names the condition that is held, the epoch in which it is held, and the condition that sets the context
(`TrialTask.analysis`). The lenses are applied to the network at the mean input of that epoch, once for each context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, nan

import torch
from torch import Tensor

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.held_values import HeldIn, held_in, held_sentence
from mnemoscope.inspection.on_task import NetworkOnTask
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.inspection.production import speed_on_task, speed_sentence
from mnemoscope.lenses import (
    ByCondition,
    Diffusion,
    Dynamics,
    FixedPoints,
    Recording,
    SelectionVectors,
    SlowManifold,
    Traversal,
    measure_diffusion,
    record_activity,
    selection_vectors,
)
from mnemoscope.lenses.conditions.figure import draw_by_condition
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.traversal.figure import draw_traversal
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.tasks.cognitive import TrialTask

MOST_CONTEXTS = 4
"""Contexts up to which each is analysed."""
NOISE = 0.01
"""Noise of each number of the state in a step, for the diffusion."""
CLEAR = 3.0
"""Ratio of the gains of two inputs from which one counts as selected."""


@dataclass(frozen=True)
class TrialFindings:
    """The mechanism by which a network solves a trial-based task."""

    task: TrialTask
    recording: Recording
    """Activity in one noiseless trial of every combination of conditions."""
    points: ByCondition
    """Fixed points in each context."""
    held: tuple[HeldIn, ...] = ()
    """How the value is held in each context."""
    selection: ByCondition | None = None
    """Part of each input that the slowest mode keeps, by context."""
    diffusion: Diffusion | None = None
    speed: Traversal | None = None
    apart: float = nan
    """Mean distance between the paths of different durations, as a share of the spread of the states."""
    produced: float = nan
    """Share of the intervals that the network produces rightly."""

    @property
    def results(self) -> dict[str, Result | None]:
        """The results by name."""
        memories = {each.name or "delay": each.memory for each in self.held if each.memory is not None}
        kept = ByCondition(tuple(memories), tuple(memories.values())) if len(memories) > 1 else None
        named: dict[str, Result | None] = {"activity": self.recording, "selection": self.selection, "speed": self.speed}
        return {**named, "diffusion": self.diffusion, "slow_manifolds": kept}

    def summary(self) -> str:
        """Return the mechanism in sentences."""
        diffusion = [] if self.diffusion is None else [self.diffusion.summary()]
        return " ".join([self.mechanism(), *diffusion])

    def mechanism(self) -> str:
        """Return how values are held, inputs selected and intervals produced, for the head of a page."""
        return " ".join(_sentences(self))

    def lenses(self) -> list[str]:
        """Return the names of the lenses that were applied."""
        used = {"selection-vectors": self.selection, "diffusion": self.diffusion, "speed": self.speed}
        return ["activity", *(name for name, result in used.items() if result is not None)]


def contexts_of(run: NetworkOnTask) -> dict[str, Dynamics]:
    """Return the network at the mean input of the epoch in which the task holds a value, for each context.

    Empty for other tasks, and for those with more contexts than are analysed.
    """
    task = run.task
    if not isinstance(task, TrialTask) or task.analysis is None or run.options.input is not None:
        return {}
    recording = _recording(run, task)
    context = () if task.analysis.context is None else (task.analysis.context,)
    inputs = recording.mean_inputs(*context, epoch=task.analysis.epoch)
    if len(inputs) > MOST_CONTEXTS:
        return {}
    named = inputs if context else {task.analysis.epoch: next(iter(inputs.values()))}
    return {name: Dynamics(run.model.cell, run.model.encode(x.float()[None])[0].detach()) for name, x in named.items()}


def inspect_trials(
    run: LoadedRun, contexts: Mapping[str, Dynamics], points: Mapping[str, FixedPoints]
) -> TrialFindings:
    """Return the mechanism of a run on a trial-based task, with the fixed points of each context."""
    task = run.task
    assert isinstance(task, TrialTask)
    assert task.analysis is not None
    recording = _recording(run, task)
    held: tuple[HeldIn, ...] = ()
    if task.analysis.held is not None:
        held = tuple(held_in(name, contexts[name], recording, task, fp, run.options) for name, fp in points.items())
    return TrialFindings(
        task,
        recording,
        ByCondition(tuple(points), tuple(points.values())),
        held,
        _selection(contexts, points, task),
        _diffusion(next(iter(contexts.values())), held[0], run.options.seed) if held else None,
        *speed_on_task(run, task),
    )


@torch.no_grad()
def _recording(run: NetworkOnTask, task: TrialTask) -> Recording:
    trials = task.grid()
    return record_activity(run.model, trials.batch.inputs, trials.table)


def _selection(
    contexts: Mapping[str, Dynamics], points: Mapping[str, FixedPoints], task: TrialTask
) -> ByCondition | None:
    """Return the selection vectors of each context, if inputs compete for the memory and no encoder mixes them."""
    assert task.analysis is not None
    mixed = next(iter(contexts.values())).input.shape[1] != task.input_size
    if len(points) < 2 or len(task.analysis.evidence) < 2 or mixed or not all(map(len, points.values())):
        return None
    found = {name: selection_vectors(contexts[name], fp, features=task.input_names) for name, fp in points.items()}
    return ByCondition(tuple(found), tuple(found.values()))


def _diffusion(dynamics: Dynamics, held: HeldIn, seed: int) -> Diffusion | None:
    if not held.memory or held.memory.topology not in ("line", "ring"):
        return None
    return measure_diffusion(dynamics, held.memory, noise=NOISE, seed=seed)


# --- sentences --------------------------------------------------------------------------------------------------------


def _sentences(found: TrialFindings) -> Iterator[str]:
    for held in found.held:
        yield held_sentence(found.task, held)
    if found.selection is not None:
        yield from _selection_sentences(found.task, found.selection)
    if found.speed is not None:
        yield speed_sentence(found.speed, found.apart, found.produced)


def _selection_sentences(task: TrialTask, selection: ByCondition) -> Iterator[str]:
    """Say by how much more each context integrates the input that it names, and whether a left eigenvector does it."""
    assert task.analysis is not None
    kept, reach = [], []
    for name, vectors in selection.items():
        ratios = _relevant_over_others(task, name, vectors)
        if ratios is None:
            yield f"In the {name}, no fixed point has a reliable slow mode: which input is integrated is not known."
            return
        gain, direct, relevant = ratios
        kept.append(gain)
        reach.append(direct)
        yield (
            f"In the {name}, the slow mode keeps {gain:.2g} times as much of {relevant} as of the other input, while "
            f"at once they move the state along it in the ratio {direct:.2g}."
        )
    if min(kept) < CLEAR:
        yield "This linear analysis shows no clear selection."
    elif max(reach) < CLEAR:
        yield "So the context turns the left eigenvector, the selection vector, and not the inputs (Mante et al. 2013)."
    else:
        yield "So the context changes how far the inputs move the state along the slow mode, not its selection alone."


def _relevant_over_others(task: TrialTask, name: str, vectors: SelectionVectors) -> tuple[float, float, str] | None:
    """Return how much more of the context's own input is kept, and arrives at once; medians over reliable points."""
    assert task.analysis is not None
    evidence = task.analysis.evidence
    relevant = next((each for each in evidence if name.endswith(f" {each}")), None)
    good = vectors.reliable
    if relevant is None or not bool(good.any()):
        return None
    own = task.input_names.index(relevant)
    others = [task.input_names.index(each) for each in evidence if each != relevant]

    def ratio(sizes: Tensor) -> float:
        typical = sizes[good].abs().median(0).values
        return float(typical[own] / typical[others].max().clamp_min(1e-12))

    return ratio(vectors.gains), ratio(vectors.direct), relevant


def _lifetime(memory: SlowManifold, task: TrialTask) -> str:
    """Return how long a value is held, as text."""
    return "ever" if memory.lifetime == inf else f"{memory.lifetime * task.step:.3g} ms"


def trials_section(found: TrialFindings) -> Section:
    """Return the section with the mechanism in each context, and the trajectories of each value that is held."""
    analysis = found.task.analysis
    assert analysis is not None
    rows = [
        (
            held.name or analysis.epoch,
            f"{len(held.points)} ({held.points.kind.count('stable')} stable)",
            held.memory.topology if held.memory else "none",
            _lifetime(held.memory, found.task) if held.memory else "–",
            f"{held.explained:.0%}",
        )
        for held in found.held
    ]
    names = ("Context", "Fixed points", "Slow manifold", "Holds a value for", f"Variance between {analysis.held}s")
    table = table_markup("Memory in each context", names, rows) if rows else ""
    coloured = tuple(name for name in (analysis.context, analysis.held or analysis.timed) if name is not None)
    means = found.recording.average(*coloured)
    figure = draw_by_condition(
        found.points, means, COLOUR, colour=coloured, figure=new_figure(7.2, 5.8), font_size=PAGE_FONT_SIZE
    )
    markup = figure_markup(
        figure, "trials", alt="Mean trajectories by condition, with the fixed points of each context."
    )
    if found.speed is not None:
        drawn = draw_traversal(found.speed, COLOUR, figure=new_figure(11.5, 3.6), font_size=PAGE_FONT_SIZE)
        markup += figure_markup(drawn, "speed", alt="Times along the path, distances from it, and speeds.")
    return Section("Mechanism on the task", found.summary(), table + markup)
