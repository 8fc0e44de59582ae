"""Which units vary in which tasks (Yang et al. 2019), and whether the units fall into clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Network
from mnemoscope.lenses.recording import Recording, as_recording
from mnemoscope.lenses.unit_clusters.reference import best_clusters, normalised, reference_scores
from mnemoscope.lenses.unit_clusters.result import TaskVariance
from mnemoscope.lenses.unit_clusters.variance import variance_between_conditions, variance_between_trials

RESTARTS = 10
"""Starts of k-means for the data; the references have fewer."""
REFERENCE_RESTARTS = 3


@show_slow("task variance")
def task_variance(
    population: Recording | Network | Mapping[str, Recording],
    inputs: Tensor | PackedSequence | None = None,
    table: TrialTable | None = None,
    *,
    by: str = "task",
    conditions: Sequence[str] = (),
    most_clusters: int = 10,
    noiseless: bool = False,
    silent: float = 1e-3,
    references: int = 100,
    seed: int = 0,
) -> TaskVariance:
    """Measure how much each unit varies in each task, and group units that vary in the same tasks.

    Args:
        population: a recording, or a network with `inputs` and `table`; the condition `by` names the task of a trial.
            Or recordings of the same units by name: tasks, or epochs such as `{"cue": recording.in_epoch("cue")}`.
        inputs: trials of a network.
        table: conditions of these trials.
        by: the condition that names the task.
        conditions: if given, the variance between the means of their combinations, without the noise of single trials.
            By default the variance between trials, which noise raises.
        noiseless: whether the trials have no noise, so that the variance between them needs no correction.
        most_clusters: largest number of clusters that is tried; the smallest is 2.
        silent: units whose variance is below this share of the largest unit's are not clustered.
        references: number of data sets without clusters to compare with; 0 for none.
        seed: seed of k-means and of the references.

    """
    check_whole(2, most_clusters=most_clusters)
    check_whole(0, references=references)
    tasks = _by_task(population, inputs, table, by)
    variances = torch.stack(
        [
            variance_between_conditions(each, conditions) if conditions else variance_between_trials(each)
            for each in tasks.values()
        ],
        1,
    )  # (units, tasks)
    total = variances.sum(1)
    active = total > silent * total.nan_to_num().max()  # False where a unit is missing in a task
    if int(active.sum()) < 4 or len(tasks) < 2:
        return TaskVariance(tuple(tasks), variances, active, corrected=bool(conditions), noiseless=noiseless)
    generator = seeded_generator(seed)
    kept = variances[active]
    numbers = range(2, min(most_clusters, len(kept) - 1) + 1)
    labels, scores = best_clusters(normalised(kept), numbers, RESTARTS, generator)
    clusters = torch.full((len(active),), -1)
    clusters[active] = _by_size(labels)
    null = reference_scores(kept, numbers, REFERENCE_RESTARTS, references, generator) if references else None
    return TaskVariance(
        tuple(tasks),
        variances,
        active,
        corrected=bool(conditions),
        clusters=clusters,
        scores=scores,
        null=null,
        noiseless=noiseless,
    )


def _by_task(
    population: Recording | Network | Mapping[str, Recording],
    inputs: Tensor | PackedSequence | None,
    table: TrialTable | None,
    by: str,
) -> dict[str, Recording]:
    if isinstance(population, Mapping):
        if inputs is not None or table is not None:
            raise ValueError("Recordings by name have their inputs and tables; pass the recordings alone.")
        sizes = {name: each.size for name, each in population.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"All tasks need the same units, but the recordings have {sizes}.")
        return dict(population)
    recording = as_recording(population, inputs, table)
    task = recording.table[by]
    return {task.label(value): recording.part(task.values == value) for value in task.levels}


def _by_size(labels: Tensor) -> Tensor:
    """Number clusters by falling size."""
    order = torch.bincount(labels).argsort(descending=True, stable=True)
    return order.argsort()[labels]
