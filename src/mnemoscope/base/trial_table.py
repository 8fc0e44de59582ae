"""A table with one row for each trial: its conditions, and the steps at which its epochs begin and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int, Num
from mnemoscope.base.suggestions import did_you_mean


@dataclass(frozen=True)
class Condition:
    """A variable that differs between trials, such as the coherence of a stimulus, or the choice that is right.

    >>> side = Condition("side", torch.tensor([1, 0, 1]), ("left", "right"))
    >>> [side.label(value) for value in side.levels]
    ['left', 'right']
    """

    name: str
    values: Num[Tensor, " trials"]
    """One number for each trial; NaN where the variable has no value in that trial."""
    labels: tuple[str, ...] = ()
    """Names of the values 0, 1, ...; empty if the values are quantities."""

    def __post_init__(self) -> None:
        if self.values.dim() != 1:
            raise ValueError(
                f"Condition {self.name!r} needs one value for each trial, but has shape {tuple(self.values.shape)}."
            )
        if self.labels and not set(self.levels) <= set(range(len(self.labels))):
            raise ValueError(
                f"Condition {self.name!r} has the {len(self.labels)} labels {', '.join(self.labels)}, which stand for "
                f"the values 0 to {len(self.labels) - 1}, but its values are {self.levels}."
            )

    @property
    def levels(self) -> list[float]:
        """The different values, in rising order."""
        return self.values[~self.values.isnan()].unique().tolist()

    def label(self, value: float) -> str:
        """Return the name of a value, or the number as text, with so many digits that all values differ.

        >>> Condition("angle", torch.tensor([123.41, 123.44])).label(123.41)
        '123.41'
        """
        return self.labels[int(value)] if self.labels else f"{value:.{self._digits}g}"

    @cached_property
    def _digits(self) -> int:
        """Digits of numbers: 4, or more if some values would look the same."""
        levels = self.levels
        return next((n for n in range(4, 17) if len({f"{value:.{n}g}" for value in levels}) == len(levels)), 17)


@dataclass(frozen=True)
class Epoch:
    """A part of each trial with a name, such as the delay: steps `starts` to `stops - 1`; empty if they are equal."""

    name: str
    starts: Int[Tensor, " trials"]
    stops: Int[Tensor, " trials"]

    def __post_init__(self) -> None:
        if (
            self.starts.dim() != 1
            or self.starts.shape != self.stops.shape
            or not bool(((self.starts >= 0) & (self.starts <= self.stops)).all())
        ):
            raise ValueError(f"Epoch {self.name!r} must have 0 <= start <= stop in every trial.")

    @property
    def lengths(self) -> Int[Tensor, " trials"]:
        """Number of steps in each trial."""
        return self.stops - self.starts

    def steps(self, time: int) -> Bool[Tensor, "time trials"]:
        """Return which of `time` steps belong to the epoch, in each trial."""
        step = torch.arange(time).unsqueeze(1)
        return (step >= self.starts) & (step < self.stops)


@dataclass(frozen=True)
class TrialTable:
    """The conditions and epochs of trials, a row for each trial.

    >>> table = TrialTable.of({"coherence": [0.1, -0.1, 0.1], "context": [0, 0, 1]}, {"delay": (10, 25)})
    >>> len(table), table["coherence"].levels, table.epoch("delay").lengths.tolist()
    (3, [-0.1, 0.1], [15, 15, 15])
    >>> {name: trials.tolist() for name, trials in table.groups("context").items()}
    {'context 0': [0, 1], 'context 1': [2]}
    """

    conditions: tuple[Condition, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    step: float | None = None
    """Duration of a step in milliseconds, where time has a unit."""
    lengths: Int[Tensor, " trials"] | None = None
    """Number of steps of each trial, where it is known; what follows is padding."""

    def __post_init__(self) -> None:
        rows = {len(column.values) for column in self.conditions} | {len(epoch.starts) for epoch in self.epochs}
        if len(rows | (set() if self.lengths is None else {len(self.lengths)})) > 1:
            raise ValueError("All conditions, epochs and lengths of a table must have the same number of trials.")
        for columns in (self.conditions, self.epochs):
            names = [column.name for column in columns]
            if len(set(names)) < len(names):
                raise ValueError(f"Names must differ, but are {', '.join(names)}.")

    @classmethod
    def of(
        cls,
        conditions: Mapping[str, Any],
        epochs: Mapping[str, tuple[Any, Any]] | None = None,
        *,
        labels: Mapping[str, Sequence[str]] | None = None,
        step: float | None = None,
    ) -> TrialTable:
        """Return a table of plain numbers, sequences or arrays.

        Args:
            conditions: one value for each trial, by the name of the condition.
            epochs: first step, and step after the last, by the name of the epoch: numbers, or one for each trial.
            labels: names of the values 0, 1, ... of a condition, by its name.
            step: duration of a step in milliseconds.

        """
        labels, epochs = labels or {}, epochs or {}
        columns = tuple(
            Condition(name, _as_column(name, values), tuple(labels.get(name, ())))
            for name, values in conditions.items()
        )
        edges = {name: [torch.as_tensor(edge) for edge in pair] for name, pair in epochs.items()}
        numbers = [len(column.values) for column in columns]
        numbers += [len(edge) for pair in edges.values() for edge in pair if edge.dim()]
        trials = (numbers or [1])[0]
        return cls(
            columns,
            tuple(
                Epoch(name, *(edge if edge.dim() else edge.expand(trials) for edge in pair))
                for name, pair in edges.items()
            ),
            step,
        )

    def __len__(self) -> int:
        columns = [each.values for each in self.conditions] + [each.starts for each in self.epochs]
        columns += [] if self.lengths is None else [self.lengths]
        return len(columns[0]) if columns else 0

    def __getitem__(self, name: str) -> Condition:
        found = {condition.name: condition for condition in self.conditions}
        if name not in found:
            raise KeyError(_unknown("condition", name, found))
        return found[name]

    def epoch(self, name: str) -> Epoch:
        """Return the epoch of this name."""
        found = {epoch.name: epoch for epoch in self.epochs}
        if name not in found:
            raise KeyError(_unknown("epoch", name, found))
        return found[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the conditions."""
        return tuple(condition.name for condition in self.conditions)

    def part(self, trials: Any) -> TrialTable:
        """Return the rows of some trials: a slice, a mask, or their numbers."""
        conditions = (Condition(each.name, each.values[trials], each.labels) for each in self.conditions)
        epochs = (Epoch(each.name, each.starts[trials], each.stops[trials]) for each in self.epochs)
        lengths = None if self.lengths is None else self.lengths[trials]
        return TrialTable(tuple(conditions), tuple(epochs), self.step, lengths)

    def groups(self, *names: str) -> dict[str, Int[Tensor, " members"]]:
        """Return the trials of every combination of values that occurs, by its text; all trials without names.

        The combinations are in the order of their values, the last name changing fastest.
        """
        if not names:
            return {"all trials": torch.arange(len(self))}
        conditions = [self[name] for name in names]
        groups = {}
        for values in product(*(condition.levels for condition in conditions)):
            pairs = list(zip(conditions, values, strict=True))
            members = torch.stack([condition.values == value for condition, value in pairs]).all(0).nonzero().flatten()
            if len(members):
                groups[", ".join(f"{condition.name} {condition.label(value)}" for condition, value in pairs)] = members
        return groups


def _as_column(name: str, values: Any) -> Tensor:
    """Return one number for each trial; Python's numbers keep their precision."""
    if not isinstance(values, Tensor) and np.asarray(values).dtype.kind in "US":
        raise ValueError(
            f"Condition {name!r} has text as values: pass the numbers 0, 1, ..., and their names as "
            f'labels={{{name!r}: ("left", "right")}}.'
        )
    column = torch.as_tensor(values)
    if column.dtype == torch.bool:
        return column.long()
    return torch.as_tensor(values, dtype=torch.float64) if column.dtype == torch.float32 else column


def _unknown(kind: str, name: str, known: Mapping[str, Any]) -> str:
    listed = f"the {kind}s are {', '.join(known)}" if known else f"there are no {kind}s"
    return f"There is no {kind} {name!r}: {listed}.{did_you_mean(name, known)}"
