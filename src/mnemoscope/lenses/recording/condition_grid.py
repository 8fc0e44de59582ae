"""Trials arranged by their conditions: means of every combination of values, and splits that keep all combinations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.recording.result import Recording


@dataclass(frozen=True)
class ConditionGrid:
    """The trials of a recording by the values of some conditions; a combination of values is a cell of the grid.

    Trials without a value of one of the conditions are left out.
    """

    activity: Float[Tensor, "time trials units"]
    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    """Names of the values of each condition."""
    cells: Int[Tensor, " trials"]
    """Number of each trial's cell; the last condition changes fastest."""

    @classmethod
    def of(cls, recording: Recording, conditions: Sequence[str]) -> ConditionGrid:
        """Arrange the trials of a recording; without conditions all trials are in one cell."""
        columns = [recording.table[name] for name in conditions]
        values = [column.values for column in columns]
        kept = torch.ones(recording.trials, dtype=torch.bool)
        for column in values:
            kept &= ~column.isnan()
        cells = torch.zeros(recording.trials, dtype=torch.int64)
        for column, numbers in zip(columns, values, strict=True):
            levels = torch.tensor(column.levels, dtype=torch.float64)
            cells = cells * len(levels) + torch.searchsorted(levels, numbers.double().nan_to_num())
        labels = tuple(tuple(column.label(value) for value in column.levels) for column in columns)
        return cls(recording.activity[:, kept], tuple(conditions), labels, cells[kept])

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each condition."""
        return tuple(len(labels) for labels in self.labels)

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(torch.tensor(self.shape).prod()) if self.shape else 1

    @property
    def cell_names(self) -> tuple[str, ...]:
        """Text of each cell, such as "side left, reward 1"."""
        names = [""]
        for condition, labels in zip(self.names, self.labels, strict=True):
            names = [f"{name}, {condition} {label}".removeprefix(", ") for name in names for label in labels]
        return tuple(name or "all trials" for name in names)

    @cached_property
    def known(self) -> Bool[Tensor, "time trials units"]:
        """Whether each number was recorded."""
        return ~self.activity.isnan()

    @cached_property
    def whole(self) -> Bool[Tensor, " trials"]:
        """Whether the units of each trial were recorded at all steps of the grid."""
        return (self.known == self.known.any(0)).all(2).all(0) & self.known.any(2).any(0)

    @cached_property
    def sessions(self) -> Int[Tensor, " trials"]:
        """A number for each set of units that were recorded together, at all steps of the grid or at some of them."""
        patterns = torch.cat([self.known.any(0), self.whole.unsqueeze(1)], 1)
        return torch.unique(patterns, dim=0, return_inverse=True)[1]

    @property
    def simultaneous(self) -> bool:
        """Whether all units were recorded in all trials."""
        return bool(self.known.any(0).all())

    def counts(
        self, trials: Bool[Tensor, " trials"] | None = None, cells: Int[Tensor, " trials"] | None = None
    ) -> Int[Tensor, "time cells units"]:
        """Return how many trials have a number at each step, in each cell, for each unit."""
        return self._sums(self.known.double(), trials, cells).long()

    def means(
        self, trials: Bool[Tensor, " trials"] | None = None, cells: Int[Tensor, " trials"] | None = None
    ) -> Float[Tensor, "time cells units"]:
        """Return the mean activity of each cell over some of the trials; NaN where none of them has a number.

        `cells` are others than those of the grid, such as shuffled ones.
        """
        total = self._sums(self.activity.nan_to_num(), trials, cells)
        return total / self._sums(self.known.double(), trials, cells)

    def _sums(self, values: Tensor, trials: Tensor | None, cells: Tensor | None = None) -> Tensor:
        cells = self.cells if cells is None else cells
        members = torch.nn.functional.one_hot(cells, self.size).double()  # (trials, cells)
        if trials is not None:
            members = members * trials.double().unsqueeze(1)
        return torch.einsum("ktu,tc->kcu", values, members)

    def with_complete_steps(self, trials: int) -> ConditionGrid:
        """Return the steps at which every unit has at least so many trials in every cell; raise if there are none."""
        fewest = self.counts().amin((1, 2))
        kept = fewest >= trials
        if not bool(kept.any()):
            best = self.counts()[int(fewest.argmax())]
            cell, unit = divmod(int(best.argmin()), best.shape[1])
            raise ValueError(
                f"Every combination of conditions needs {trials} trials of every unit, but at every step one has "
                f"fewer: unit {unit} has {int(best[cell, unit])} with {self.cell_names[cell]}. Name fewer conditions, "
                f"leave units out with recording.select(...), or align trials with recording.in_epoch(...)."
            )
        return ConditionGrid(self.activity[kept], self.names, self.labels, self.cells)

    @property
    def can_hold_out(self) -> bool:
        """Whether `held_out` leaves every unit a trial to fit and one to test, at all steps of every cell."""
        groups = torch.unique(torch.stack([self.cells, self.sessions], 1), dim=0, return_inverse=True)[1]
        first = torch.zeros_like(self.whole)
        first[[int((groups == group).nonzero()[0]) for group in groups.unique()]] = True
        tested, fitted = self.counts(self.whole & first), self.counts(self.whole & ~first)
        return bool((tested > 0).all()) and bool((fitted > 0).all())

    def with_testable_steps(self) -> ConditionGrid | None:
        """Return the steps at which trials can be held out, without the rarest steps; None if no step is left."""
        steps, present = self.counts().amin((1, 2)), self.known.any(2).sum(1)
        for fewest in present[steps >= 2].unique():
            kept = (steps >= 2) & (present >= fewest)
            grid = ConditionGrid(self.activity[kept], self.names, self.labels, self.cells)
            if grid.can_hold_out:
                return grid
        return None

    def shuffled(self, conditions: Sequence[str], generator: torch.Generator) -> Int[Tensor, " trials"]:
        """Return cells in which the values of these conditions are exchanged between trials that agree in all else.

        Trials are exchanged within a session, so that each unit keeps its number of trials in every cell.
        """
        strides = [int(torch.tensor(self.shape[place + 1 :]).prod()) for place in range(len(self.shape))]
        moved = torch.zeros_like(self.cells)
        for name, stride, size in zip(self.names, strides, self.shape, strict=True):
            if name in conditions:
                moved += self.cells // stride % size * stride
        kept = self.cells - moved  # what stays with a trial
        cells = self.cells.clone()
        strata = torch.unique(torch.stack([kept, self.sessions], 1), dim=0, return_inverse=True)[1]
        for stratum in strata.unique():
            members = (strata == stratum).nonzero().flatten()
            order = members[torch.randperm(len(members), generator=generator)]
            cells[members] = kept[members] + moved[order]
        return cells

    def held_out(
        self, generator: torch.Generator, cells: Int[Tensor, " trials"] | None = None
    ) -> Bool[Tensor, " trials"]:
        """Return one trial of every cell and session at random, to test what the other trials have fitted.

        Trials that end before the last step are never held out.
        """
        cells = self.cells if cells is None else cells
        place = torch.randperm(len(cells), generator=generator)
        groups = torch.unique(torch.stack([cells, self.sessions], 1), dim=0, return_inverse=True)[1]
        last = torch.zeros(int(groups.max()) + 1, dtype=torch.int64).scatter_reduce(0, groups, place, "amax")
        return (place == last[groups]) & self.whole

    def groups_of_trials(self, number: int, generator: torch.Generator) -> Iterator[Bool[Tensor, " trials"]]:
        """Yield disjoint parts of the trials, each with trials of every cell and session."""
        place = torch.zeros_like(self.cells)
        for cell in self.cells.unique():
            for session in self.sessions.unique():
                members = ((self.cells == cell) & (self.sessions == session)).nonzero().flatten()
                order = members[torch.randperm(len(members), generator=generator)]
                place[order] = torch.arange(len(members)) % number
        for part in range(number):
            yield place == part
