"""Demixed principal components (Kobak et al. 2016), with a penalty and a significance from trials left out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Network
from mnemoscope.lenses.demixing.marginals import averaging_matrix, marginal_name, marginal_sets, marginalise
from mnemoscope.lenses.demixing.regression import explained_variance, fit_components
from mnemoscope.lenses.demixing.result import DemixedComponents
from mnemoscope.lenses.demixing.trial_moments import TrialMoments
from mnemoscope.lenses.recording import ConditionGrid, Recording, as_recording, chosen_conditions

PENALTIES = tuple(10.0 ** (power / 2) for power in range(-14, 1))
"""Penalties that are tried, as shares of the variance of the mean activity."""
SMALLEST = PENALTIES[0]


@show_slow("demixed components")
def demixed_components(
    population: Recording | Network,
    inputs: Tensor | PackedSequence | None = None,
    table: TrialTable | None = None,
    *,
    conditions: Sequence[str] | None = None,
    components: int = 3,
    penalty: float | None = None,
    splits: int = 5,
    shuffles: int = 100,
    seed: int = 0,
) -> DemixedComponents:
    """Find components of a population that depend on time alone, on one condition, or on an interaction of conditions.

    The mean activity is the sum of such parts. Each part is reconstructed from the whole activity by a regression of
    low rank, penalised by the noise of single trials and by a ridge. The ridge with the smallest error on trials left
    out is chosen. A part is significant if its components agree with trials left out better than after shuffles of
    the conditions between trials.

    Args:
        population: a recording, or a network with `inputs` and the `table` of their conditions.
        inputs: trials of a network.
        table: conditions of these trials.
        conditions: names of one to three conditions; all by default. Every combination of their values needs a trial,
            and two trials for a choice of the penalty and a significance. Numbers of trials may differ.
        components: number of components of each part.
        penalty: share of the variance of the mean activity; chosen by cross-validation by default.
        splits: how often one trial of each combination is left out at random.
        shuffles: number of shuffles; 0 for no significance.
        seed: seed of splits and shuffles.

    """
    check_whole(1, components=components, splits=splits)
    check_whole(0, shuffles=shuffles)
    recording = as_recording(population, inputs, table)
    chosen = chosen_conditions(recording, conditions if conditions is None else tuple(conditions))
    grid = ConditionGrid.of(recording, chosen).with_complete_steps(1)
    _check_values(grid)
    testable = grid.with_testable_steps()
    grid = testable or grid
    demixing = _Demixing(grid, min(components, recording.size))
    generator = seeded_generator(seed)
    left_out = [grid.held_out(generator) for _ in range(splits)] if testable else []
    errors = demixing.errors(left_out) if left_out and penalty is None else None
    ridge = penalty if penalty is not None else SMALLEST if errors is None else PENALTIES[int(errors.argmin())]
    everything = torch.zeros(len(grid.cells), dtype=torch.bool)
    means, parts, decoders, encoders = demixing.fit(everything, ridge)
    centre = means.flatten(0, 1).mean(0)
    agreement = demixing.agreement(left_out, ridge) if left_out else None
    probabilities = None
    if left_out and shuffles:
        probabilities = demixing.probabilities(agreement, ridge, splits, shuffles, generator)
    return DemixedComponents(
        marginals=tuple(marginal_name(each) for each in demixing.sets),
        cells=grid.cell_names,
        centre=centre,
        decoders=decoders,
        encoders=encoders,
        traces=torch.einsum("tcu,mku->mktc", means - centre, decoders),
        explained=explained_variance(parts, decoders, encoders),
        shares=(parts**2).sum((1, 2)) / (parts**2).sum(),
        signal_shares=demixing.signal_shares(generator) if left_out else None,
        penalty=ridge,
        errors=errors,
        agreement=agreement,
        probabilities=probabilities,
        trials=len(grid.cells),
        fewest=int(grid.counts().min()),
        steps=(len(grid.activity), len(recording.activity)),
        step=recording.table.step,
    )


def _check_values(grid: ConditionGrid) -> None:
    """Raise if a condition has a single value, or if there is no variance to divide."""
    for name, labels in zip(grid.names, grid.labels, strict=True):
        if len(labels) < 2:
            raise ValueError(f"Condition {name!r} has the same value in all trials: name other conditions.")
    means = grid.means().flatten(0, 1)
    if not bool((means != means[0]).any()):
        raise ValueError("The mean activity is the same at all steps and in all conditions: it has no components.")


class _Demixing:
    """Fits of all marginalisations to any choice of trials and labels of one grid."""

    def __init__(self, grid: ConditionGrid, components: int) -> None:
        self.grid, self.components = grid, components
        self.sets = marginal_sets(grid.names)
        self.averaging = torch.stack([averaging_matrix(grid.names, grid.shape, each) for each in self.sets])
        self.moments = TrialMoments(grid)

    def _parts(self, means: Float[Tensor, "time cells units"]) -> Float[Tensor, "sets samples units"]:
        return marginalise(means, self.averaging).flatten(1, 2)

    def fit(
        self,
        left_out: Bool[Tensor, " trials"],
        penalty: float,
        cells: Int[Tensor, " trials"] | None = None,
        only: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return means, their parts, decoders and encoders, of all marginalisations or of a single one."""
        means = self.moments.means(~left_out, cells)
        parts = self._parts(means)
        rows = parts.sum(0)
        noise = self.moments.noise(means, left_out, cells)
        fitted = parts if only is None else parts[only : only + 1]
        decoders, encoders = fit_components(rows, fitted, noise, penalty * float((rows**2).sum()), self.components)
        return means, parts, decoders, encoders

    def errors(self, splits: list[Bool[Tensor, " trials"]]) -> Float[Tensor, " penalties"]:
        """Return the error of each penalty: parts of the fitted means, predicted from the trials left out."""
        errors = torch.zeros(len(PENALTIES), dtype=torch.float64)
        for left_out in splits:
            for place, penalty in enumerate(PENALTIES):
                means, parts, decoders, encoders = self.fit(left_out, penalty)
                tested = self.moments.means(left_out).flatten(0, 1) - means.flatten(0, 1).mean(0)
                predicted = tested @ decoders.mT @ encoders.mT
                errors[place] += ((parts - predicted) ** 2).sum() / (parts**2).sum() / len(splits)
        return errors

    def agreement(
        self,
        splits: list[Bool[Tensor, " trials"]],
        penalty: float,
        cells: Int[Tensor, " trials"] | None = None,
        only: int | None = None,
    ) -> Float[Tensor, "sets components"]:
        """Return the covariance of each component between fitted means and trials left out, as a share of variance.

        Both are reduced to the marginalisation of the component first. Its expectation is 0 if the activity does not
        depend on it, whatever else it depends on.
        """
        total = torch.zeros((), dtype=torch.float64)
        for left_out in splits:
            _, parts, decoders, _ = self.fit(left_out, penalty, cells, only)
            tested = self._parts(self.moments.means(left_out, cells))
            pairs = (parts, tested) if only is None else (parts[only : only + 1], tested[only : only + 1])
            first, second = (each @ decoders.mT for each in pairs)  # (sets, samples, components)
            total = total + (first * second).sum(1) / (parts**2).sum() / len(splits)
        return total

    def probabilities(
        self, observed: Tensor | None, penalty: float, splits: int, shuffles: int, generator: torch.Generator
    ) -> Float[Tensor, " sets"]:
        """Return the share of shuffles in which a marginalisation agrees at least as well; NaN for time alone."""
        assert observed is not None
        found = torch.full((len(self.sets),), torch.nan, dtype=torch.float64)
        for place, conditions in enumerate(self.sets[1:], start=1):
            reached = 1  # the data count as one of the shuffles
            for _ in range(shuffles):
                cells = self.grid.shuffled(conditions, generator)
                left_out = [self.grid.held_out(generator, cells) for _ in range(splits)]
                null = self.agreement(left_out, penalty, cells, only=place).sum()
                reached += int(null >= observed[place].sum())
            found[place] = reached / (shuffles + 1)
        return found

    def signal_shares(self, generator: torch.Generator, draws: int = 20) -> Float[Tensor, " sets"] | None:
        """Return the share of each marginalisation in the variance that two halves of the trials have in common.

        An estimate below 0 counts as 0. None if the halves have nothing in common.
        """
        total = torch.zeros(len(self.sets), dtype=torch.float64)
        for _ in range(draws):
            first, second = self.grid.groups_of_trials(2, generator)
            total += (self._parts(self.moments.means(first)) * self._parts(self.moments.means(second))).sum((1, 2))
        if not float(total.sum()) > 0:
            return None
        return total.clamp_min(0) / total.clamp_min(0).sum()
