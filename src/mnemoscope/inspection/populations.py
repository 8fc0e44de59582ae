"""The page sections on the units of a network in the trials of a task: components of their activity, task variance.

Activity is recorded in trials of every combination of conditions, with the noise of training and epochs of fixed
lengths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, prod

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.condition_lines import NAMED
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.inspection.units import UnitFindings, inspect_units
from mnemoscope.lenses import (
    DemixedComponents,
    PrincipalComponents,
    Recording,
    TaskVariance,
    demixed_components,
    principal_components,
    record_activity,
    task_variance,
)
from mnemoscope.lenses.demixing.figure import SHOWN, draw_demixed
from mnemoscope.lenses.principal_axes.figure import draw_components
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.unit_clusters.figure import draw_task_variance
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.tasks.cognitive import MultiTask, TrialTask

REPEATS = 8
"""Fewest trials of each combination of conditions, from which the dimension of the signal has an interval."""
MOST_COMBINATIONS = 24
"""Combinations of conditions up to which all are compared; otherwise those of the context and of the held value."""
SHUFFLES = 20
"""Shuffles of the significance of demixed components."""
SPLITS = 3
"""How often trials are left out for that."""
MOST_CLUSTERS = 30
"""Largest number of clusters of units that is tried, as in Yang et al. 2019."""


@dataclass(frozen=True)
class PopulationFindings:
    """Components of the activity of the units in trials, and their task variance."""

    components: PrincipalComponents | None = None
    demixed: DemixedComponents | None = None
    variance: TaskVariance | None = None
    """How much each unit varies in each task, if the run has several tasks."""
    units: UnitFindings = field(default_factory=UnitFindings)
    """Selectivity, rotations and tensor components, if the run has one task."""
    note: str = ""
    """Why nothing was measured."""

    @property
    def results(self) -> dict[str, Result | None]:
        """The results by name."""
        return {
            "principal_components": self.components,
            "demixed_components": self.demixed,
            "task_variance": self.variance,
            **self.units.results,
        }

    def lenses(self) -> list[str]:
        """Return the names of the lenses that were applied."""
        return [name.replace("_", "-") for name, result in self.results.items() if result is not None]

    def sections(self) -> list[Section]:
        """Return the sections of the page."""
        if self.note:
            return [Section("Components of the activity", self.note, "")]
        found = [_components_section(self.components)] if self.components is not None else []
        found += [_demixed_section(self.demixed)] if self.demixed is not None else []
        found += [_variance_section(self.variance)] if self.variance is not None else []
        return found + self.units.sections()


def inspect_populations(run: LoadedRun) -> PopulationFindings | None:
    """Return the components and the task variance of the units of a run on a trial-based task; None for other tasks."""
    task = run.task
    if not isinstance(task, TrialTask):
        return None
    conditions = compared_conditions(task)
    grid = task.grid()
    combinations = len(grid.table)
    compared = len(grid.table.groups(*conditions)) if conditions else 1
    repeats = ceil(REPEATS * compared / combinations)
    if not is_quick(run.model.cell, len(grid.batch.inputs), repeats * combinations, run.options):
        return PopulationFindings(note=f"Not measured, since it takes long. {HOW_TO_MEASURE}")
    trials = task.noisy_grid(repeats, run.options.seed)
    recording = record_activity(run.model, trials.batch.inputs, trials.table, units="output", lengths=trials.lengths)
    if not bool((recording.activity.nan_to_num() != 0).any()):
        return PopulationFindings(note="All units are silent in all trials.")
    components = principal_components(recording, conditions=conditions, seed=run.options.seed)
    if isinstance(task, MultiTask):
        return PopulationFindings(components, variance=_variance(run, task))
    epoch = None if task.analysis is None else task.analysis.epoch
    units = inspect_units(recording, conditions, epoch, run.options.seed)
    return PopulationFindings(components, _demixed(recording, conditions, run.options.seed), units=units)


def compared_conditions(task: TrialTask) -> tuple[str, ...]:
    """Return the conditions whose combinations a page compares.

    They are those that the task crosses; if these are more than two, or have too many combinations, the context and
    the held value.

    >>> from mnemoscope.tasks.cognitive import ContextDecision, ParametricMemory
    >>> compared_conditions(ParametricMemory()), compared_conditions(ContextDecision())
    (('first', 'choice'), ('context', 'choice'))
    """
    levels, names = task.levels(), task.grid().table.names
    crossed = tuple(name for name in levels if name in names and len(levels[name]) > 1)
    few = len(crossed) <= 2 and prod(len(levels[name]) for name in crossed) <= MOST_COMBINATIONS
    if few or task.analysis is None:
        return crossed
    named = (task.analysis.context, task.analysis.held or task.analysis.timed)
    return tuple(name for name in named if name is not None)


def _demixed(recording: Recording, conditions: tuple[str, ...], seed: int) -> DemixedComponents | None:
    """Return the demixed components; None without conditions to compare."""
    if not conditions:
        return None
    return demixed_components(
        recording, conditions=conditions, components=SHOWN, splits=SPLITS, shuffles=SHUFFLES, seed=seed
    )


def _variance(run: LoadedRun, task: MultiTask) -> TaskVariance | None:
    """Return the task variance on noiseless trials; None with a single task."""
    trials = task.grid()
    recording = record_activity(run.model, trials.batch.inputs, trials.table, units="output", lengths=trials.lengths)
    if len(recording.table["rule"].levels) < 2:
        return None
    return task_variance(recording, by="rule", most_clusters=MOST_CLUSTERS, noiseless=True, seed=run.options.seed)


def _components_section(found: PrincipalComponents) -> Section:
    figure = draw_components(found, COLOUR, figure=new_figure(11, 3.6), font_size=PAGE_FONT_SIZE)
    alt = "Mean activity of each condition along the first two principal components, and the share of each component."
    lead = (
        f"{found.summary()} Activity is what the readout sees, in trials of every combination of conditions with the "
        f"noise of training."
    )
    if len(found.cells) > NAMED:
        lead += f" Colours go from {found.cells[0]} (dark) to {found.cells[-1]} (light)."
    return Section("Components of the activity", lead, figure_markup(figure, "components", alt=alt))


def _demixed_section(found: DemixedComponents) -> Section:
    width = 2.6 * (len(found.marginals) + 1)
    figure = draw_demixed(found, COLOUR, figure=new_figure(width, 5.0), font_size=PAGE_FONT_SIZE)
    alt = "Components for time, for each condition and for their interaction, and the variance that each one mixes."
    return Section("Demixed components", found.summary(), figure_markup(figure, "demixed", alt=alt))


def _variance_section(found: TaskVariance) -> Section:
    figure = draw_task_variance(
        found, COLOUR, figure=new_figure(11, 1.6 + 0.26 * len(found.tasks)), font_size=PAGE_FONT_SIZE
    )
    alt = "Share of the largest variance of each unit in each task, with units ordered by cluster."
    lead = (
        f"{found.summary()} The variance is that between noiseless trials of a task, averaged over time "
        f"(Yang et al. 2019)."
    )
    return Section("Task variance of units", lead, figure_markup(figure, "task-variance", alt=alt))
