"""Principal components of the mean activity in each condition, and the dimension of what the trials share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Network
from mnemoscope.lenses.principal_axes.result import PrincipalComponents
from mnemoscope.lenses.principal_axes.signal import (
    PARTS,
    centred,
    jackknife_interval,
    participation_ratio,
    signal_dimension,
    signal_shares,
)
from mnemoscope.lenses.recording import ConditionGrid, Recording, as_recording

GROUPS = 12
"""Groups of trials of the jackknife, where every condition has as many trials."""
PARTITIONS = 12
"""Ways to divide these groups into four parts."""


@show_slow("principal components")
def principal_components(
    population: Recording | Network,
    inputs: Tensor | PackedSequence | None = None,
    table: TrialTable | None = None,
    *,
    conditions: Sequence[str] | None = None,
    components: int = 10,
    seed: int = 0,
) -> PrincipalComponents:
    """Find the directions in which the mean activity varies most over time and conditions.

    The number of dimensions is the participation ratio of the variances. Averages over few trials contain noise, which
    has many dimensions; with four trials of every condition, the dimension of the signal is estimated without it.
    Where trials differ in length, only the steps that every combination of conditions has are used.

    Args:
        population: a recording, or a network with `inputs` and the `table` of their conditions.
        inputs: trials of a network.
        table: conditions of these trials.
        conditions: names of the conditions whose combinations are averaged; all by default.
        components: number of components that are kept.
        seed: seed of the division of trials into parts.

    >>> import mnemoscope as ms
    >>> latent, weights = torch.randn(12, 20, 2).double(), torch.randn(2, 30).double()
    >>> recording = ms.Recording.from_trials(latent @ weights, ms.TrialTable.of({"stimulus": range(12)}))
    >>> pca = ms.principal_components(recording)
    >>> pca.share[:2].sum().item() > 0.999
    True

    """
    check_whole(1, components=components)
    recording = as_recording(population, inputs, table)
    chosen = recording.table.names if conditions is None else tuple(conditions)
    grid = ConditionGrid.of(recording, chosen).with_complete_steps(1)
    means = grid.means()
    rows = centred(means)
    if not bool((rows != 0).any()):
        raise ValueError("The mean activity is the same at all steps and in all conditions: it has no components.")
    _, lengths, axes = torch.linalg.svd(rows, full_matrices=False)
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    axes = (axes * largest.sign())[:components]  # the same signs in every run
    variances = lengths**2
    centre = means.flatten(0, 1).mean(0)
    fewest = int(grid.counts().min())
    result = PrincipalComponents(
        centre=centre,
        axes=axes,
        variance=variances / len(rows),
        traces=(means - centre) @ axes.T,
        cells=grid.cell_names,
        trials=len(grid.cells),
        fewest=fewest,
        participation=float(participation_ratio(variances)),
        step=recording.table.step,
        steps=(len(grid.activity), len(recording.activity)),
    )
    return result if fewest < PARTS else _with_signal(result, grid, seed)


def _with_signal(result: PrincipalComponents, grid: ConditionGrid, seed: int) -> PrincipalComponents:
    """Add estimates of the signal without the noise of single trials."""
    generator = seeded_generator(seed)
    number = min(GROUPS, result.fewest)
    groups = list(grid.groups_of_trials(number, generator))
    counts = torch.stack([grid.counts(group) for group in groups]).double()
    if not bool((counts > 0).all()):  # a unit that some trials lack
        return result
    sums = torch.stack([grid.means(group) for group in groups]) * counts
    places = torch.arange(number) % PARTS
    partitions = torch.stack([places[torch.randperm(number, generator=generator)] for _ in range(PARTITIONS)])
    variance, shares = signal_shares(sums, counts, partitions, len(result.axes))
    dimension = signal_dimension(sums, counts, partitions)
    if not (variance > 0 and dimension > 0):  # no variance that trials share
        return replace(result, signal_share=0.0)
    interval = None
    if number >= 2 * PARTS:  # each part keeps a group when one is left out
        without = [partitions.clone().index_fill_(1, torch.tensor([left]), -1) for left in range(number)]
        estimates = [signal_dimension(sums, counts, draws) for draws in without]
        interval = jackknife_interval(dimension, torch.tensor(estimates, dtype=torch.float64))
    total = float(result.variance.sum()) * (len(result.traces) * len(result.cells))
    return replace(
        result,
        signal_share=variance / total,
        signal_by_component=shares,
        signal_dimension=dimension,
        interval=interval,
    )
