"""The base class of tasks that consist of trials: conditions, epochs, input noise, and designs without noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.base.trial_table import Condition, TrialTable
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.cognitive.figure import draw_trials
from mnemoscope.tasks.cognitive.timeline import Timeline, Trials
from mnemoscope.tasks.padding import padded_lengths
from mnemoscope.tasks.splits import Split, check_batch_request, generator_seed
from mnemoscope.tasks.task import Batch, GeneratedTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Conditions = Mapping[str, Float[Tensor, " trials"]]
"""One value for each trial, by the name of the condition."""


@dataclass(frozen=True)
class Analysis:
    """Epoch and conditions that the page of a network analyses: where the task needs a memory, and of which value."""

    epoch: str
    """Epoch in which the memory is needed; its mean input is the constant input of the analysis."""
    held: str | None = None
    """Condition whose value is held in that epoch."""
    context: str | None = None
    """Condition that sets the context; its values are analysed apart."""
    evidence: tuple[str, ...] = ()
    """Input channels that compete for the memory, with the names of the contexts in which they count."""
    timed: str | None = None
    """Condition with the duration of the epoch."""


@dataclass(frozen=True)
class TrialTask(GeneratedTask):
    """Base class of tasks whose sequences are trials, with epochs in milliseconds and conditions.

    `trials` draws the same batch as `batch`, with its table. `grid` lays out every combination of conditions once,
    without noise and with epochs of fixed lengths, for analysis.

    >>> from mnemoscope.tasks import PerceptualDecision
    >>> task = PerceptualDecision()
    >>> trials = task.trials(8, seed=0, number=0)
    >>> trials.table.names, [epoch.name for epoch in trials.table.epochs]
    (('coherence', 'choice'), ['fixation', 'stimulus', 'delay', 'response'])
    >>> task.grid(coherence=[-0.1, 0.1]).table["choice"].values.tolist()
    [0.0, 1.0]
    """

    step: float = 20.0
    """Duration of a step in milliseconds."""

    labels: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Names of the values 0, 1, ... of conditions."""

    @property
    def analysis(self) -> Analysis | None:
        """Epoch and conditions that the page of a network analyses; None if it has fixed points without input alone."""
        return None

    def __post_init__(self) -> None:
        check_positive(step=self.step)
        for name, (shortest, longest) in self.durations().items():
            if not 0 <= shortest <= longest < inf:
                raise ValueError(
                    f"The {name} lasts a finite number of milliseconds, 0 or more and at most the longest, but is from "
                    f"{shortest:g} to {longest:g} ms."
                )

    @property
    @abstractmethod
    def input_names(self) -> tuple[str, ...]:
        """Names of the input channels."""

    @property
    @abstractmethod
    def output_names(self) -> tuple[str, ...]:
        """Names of the output channels."""

    @property
    def input_size(self) -> int:
        return len(self.input_names)

    @property
    def output_size(self) -> int:
        return len(self.output_names)

    @property
    def noise_deviation(self) -> Float[Tensor, " input"]:
        """Standard deviation of the noise at each input channel in one step."""
        return torch.zeros(self.input_size)

    @abstractmethod
    def durations(self) -> dict[str, tuple[float, float]]:
        """Return the shortest and the longest duration of each epoch in milliseconds, in the order of a trial."""

    @abstractmethod
    def levels(self) -> dict[str, Sequence[float]]:
        """Return the values of each condition that `grid` combines."""

    @abstractmethod
    def draw(self, trials: int, generator: torch.Generator) -> Conditions:
        """Draw the conditions of trials, by the names of `levels`."""

    @abstractmethod
    def lay_out(self, conditions: Conditions, timeline: Timeline) -> Batch:
        """Return trials without noise."""

    def outcomes(self, conditions: Conditions) -> Conditions:
        """Return further columns of the table that follow from the conditions, such as the right choice."""
        return {}

    def epoch_steps(
        self, conditions: Conditions, generator: torch.Generator | None
    ) -> dict[str, Int[Tensor, " trials"]]:
        """Return the steps of each epoch: uniform between shortest and longest, or half-way without a generator."""
        trials = len(next(iter(conditions.values())))
        steps = {}
        for name, span in self.durations().items():
            shortest, longest = (self.steps_of(duration) for duration in span)
            if generator is None:
                steps[name] = torch.full((trials,), round((shortest + longest) / 2))
            else:
                steps[name] = torch.randint(shortest, longest + 1, (trials,), generator=generator)
        return steps

    def steps_of(self, duration: float) -> int:
        """Return the number of steps of a duration in milliseconds, rounded."""
        return round(duration / self.step)

    def trials(self, size: int, seed: int, number: int, split: Split = "train") -> Trials:
        """Return the trials of batch `number` of the stream with that seed, with their table."""
        check_batch_request(size, number, split)
        return self._draw_trials(size, torch.Generator().manual_seed(generator_seed(seed, number, split)))

    def grid(self, **levels: float | Sequence[float]) -> Trials:
        """Return one trial for every combination of conditions, without noise and with epochs of fixed lengths.

        Args:
            **levels: values of a condition, or a single one, that replace those of `levels()`.

        """
        known = self.levels()
        for name in levels:
            if name not in known:
                listed = ", ".join(known)
                raise ValueError(f"There is no condition {name!r}: choose from {listed}.{did_you_mean(name, known)}")
        conditions = self._combinations({**known, **levels})
        return self._build(conditions, Timeline(self.epoch_steps(conditions, None)))

    def noisy_grid(self, repeats: int, seed: int = 0) -> Trials:
        """Return so many trials for every combination of conditions, with noise and with epochs of fixed lengths."""
        check_whole(1, repeats=repeats)
        conditions = {name: values.repeat(repeats) for name, values in self._combinations(self.levels()).items()}
        trials = self._build(conditions, Timeline(self.epoch_steps(conditions, None)))
        return self._with_noise(trials, torch.Generator().manual_seed(seed))

    def _combinations(self, levels: Mapping[str, float | Sequence[float]]) -> Conditions:
        """Return the conditions of one trial for every combination of these values."""
        columns = [torch.as_tensor(values, dtype=torch.float64).flatten() for values in levels.values()]
        empty = [name for name, column in zip(levels, columns, strict=True) if not len(column)]
        if empty:
            raise ValueError(f"The condition {empty[0]!r} has no values: pass one or more, such as [0.1, 0.2].")
        combined = torch.cartesian_prod(*columns).reshape(-1, len(columns)).unbind(1)
        return self.combine(dict(zip(levels, combined, strict=True)))

    def combine(self, combinations: Mapping[str, Float[Tensor, " combinations"]]) -> Conditions:
        """Return the conditions of trials with these combinations of levels; the levels themselves by default."""
        return combinations

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        return self._draw_trials(batch, generator).batch

    def _draw_trials(self, size: int, generator: torch.Generator) -> Trials:
        conditions = self.draw(size, generator)
        return self._with_noise(self._build(conditions, Timeline(self.epoch_steps(conditions, generator))), generator)

    def _with_noise(self, trials: Trials, generator: torch.Generator) -> Trials:
        inputs = trials.batch.inputs
        noise = torch.randn(inputs.shape, generator=generator) * self.noise_deviation
        within = torch.arange(len(inputs)).unsqueeze(1) < trials.lengths
        return trials._replace(batch=trials.batch._replace(inputs=inputs + noise * within.unsqueeze(2)))

    def _build(self, conditions: Conditions, timeline: Timeline) -> Trials:
        columns = {**conditions, **self.outcomes(conditions)}
        table = TrialTable(
            tuple(Condition(name, values, self.labels.get(name, ())) for name, values in columns.items()),
            tuple(timeline.epochs.values()),
            self.step,
            next(reversed(timeline.epochs.values())).stops,
        )
        return Trials(self.lay_out(conditions, timeline), table)

    def recalled(self, batch: Batch) -> Bool[Tensor, "time batch"]:
        """Return the counted steps whose target is not zero: those of the response."""
        return batch.mask & (batch.targets != 0).any(2)

    def lengths_of(self, batch: Batch) -> Int[Tensor, " batch"] | None:
        """Return the number of steps of each trial, whose last one always counts; None if all are equally long."""
        return padded_lengths(batch.mask)

    def figure(self, trials: Trials | None = None, most: int = 4) -> Figure:
        """Draw inputs and targets of up to `most` trials, with shaded epochs (needs the `report` extra).

        The trials are spread over those of `grid()` by default.
        """
        return draw_trials(self.grid() if trials is None else trials, self.input_names, self.output_names, most)


def check_positive(**numbers: float) -> None:
    """Raise unless all arguments are positive and finite; the error names the argument."""
    for name, number in numbers.items():
        if not 0 < number < inf:
            raise ValueError(f"{name} must be positive, but is {number:g}.")


def check_numbered(count: int, **values: Float[Tensor, " trials"]) -> None:
    """Raise unless all values are whole numbers from 0 to `count - 1`; the error names the condition."""
    for name, column in values.items():
        if not bool(((column == column.floor()) & (column >= 0) & (column < count)).all()):
            raise ValueError(f"{name} must be whole numbers from 0 to {count - 1}, but has {column.unique().tolist()}.")


def read_numbers(name: str, text: str) -> list[float]:
    """Return the different positive numbers of an option such as "0.05 0.15 0.5", which must rise.

    >>> read_numbers("coherences", "0.05, 0.5")
    [0.05, 0.5]
    """
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise ValueError(f'{name} must be a list of numbers such as "0.1 0.2", but is {text!r}.') from None
    if not numbers or not all(0 < number < inf for number in numbers) or numbers != sorted(set(numbers)):
        raise ValueError(f"{name} must be positive numbers that rise, but are {text!r}.")
    return numbers


def choose(values: Sequence[float], trials: int, generator: torch.Generator) -> Float[Tensor, " trials"]:
    """Draw one of the values for each trial, all with the same chance."""
    return torch.tensor(values, dtype=torch.float64)[torch.randint(len(values), (trials,), generator=generator)]
