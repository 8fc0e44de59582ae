"""The result of the recording lens, which other lenses take in the place of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.base.validation import check_whole
from mnemoscope.lenses.recording.nwb import Edges, read_nwb
from mnemoscope.lenses.recording.preparation import first_components, fold_of_trials, unit_ranges
from mnemoscope.lenses.recording.spikes import bin_spikes, smooth
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Recording(Result):
    """Activity of units in trials: the states of a network, or firing rates of neurons.

    Lenses on populations take a recording whether it comes from a network (`ms.record_activity`) or from neurons
    (`Recording.from_trials`).

    >>> rates = torch.rand(20, 50, 7)  # 20 trials of 50 steps, 7 neurons
    >>> recording = Recording.from_trials(rates, TrialTable.of({"choice": [0, 1] * 10}))
    >>> recording.average("choice").activity.shape
    torch.Size([50, 2, 7])
    """

    activity: Float[Tensor, "time trials units"]
    """NaN where nothing was recorded: after the end of a trial, or for a unit that is missing in a trial."""
    table: TrialTable = TrialTable()  # noqa: RUF009 (frozen)
    """The conditions and epochs of the trials."""
    inputs: Float[Tensor, "steps sequences features"] | None = None
    """The inputs of each step, where they are known; NaN after the end of a trial."""
    processing: str = ""
    """How the activity was computed from the data, such as "spikes in bins of 20 ms, as rates in Hz"."""

    noun: ClassVar[str] = "a recording"
    drawn_by: ClassVar[str] = "draw_recording"

    def __post_init__(self) -> None:
        time, trials, units = self.activity.shape
        if not time or not trials or not units:
            raise ValueError(f"A recording needs steps, trials and units, but its shape is {time, trials, units}.")
        if self.table.names + tuple(epoch.name for epoch in self.table.epochs) and len(self.table) != trials:
            raise ValueError(f"The table has {len(self.table)} trials, but the activity has {trials}.")
        if self.inputs is not None and self.inputs.shape[:2] != (time, trials):
            raise ValueError(
                f"The inputs have {tuple(self.inputs.shape[:2])} steps and trials, but the activity has {time, trials}."
            )

    @classmethod
    def from_trials(
        cls,
        activity: Tensor | np.ndarray,
        table: TrialTable | Mapping[str, Any] | None = None,
        *,
        inputs: Tensor | np.ndarray | None = None,
    ) -> Recording:
        """Return a recording of an array (trials, time, units), the layout of most data, with NaN where it has none.

        `table` has the conditions of the trials: a `TrialTable`, or by the name of each condition its values.
        """
        rates = torch.as_tensor(activity)
        if rates.dim() != 3:
            raise ValueError(f"Activity must be (trials, time, units), but its shape is {tuple(rates.shape)}.")
        if inputs is not None and inputs.ndim != 3:
            raise ValueError(f"Inputs must be (trials, time, features), but their shape is {tuple(inputs.shape)}.")
        given = None if inputs is None else torch.as_tensor(inputs).double().transpose(0, 1).contiguous()
        table = TrialTable.of(table) if isinstance(table, Mapping) else table or TrialTable()
        return cls(rates.double().transpose(0, 1).contiguous(), table, given)

    @classmethod
    def from_spikes(
        cls,
        spike_times: Sequence[Any],
        starts: Any,
        stops: Any,
        table: TrialTable | None = None,
        *,
        step: float,
        smoothing: float | None = None,
        observed: Sequence[Any] | None = None,
    ) -> Recording:
        """Return firing rates in Hz from the times of spikes.

        Args:
            spike_times: the times of each unit's spikes in seconds.
            starts: beginning of each trial in seconds.
            stops: end of each trial; trials may differ in length, and what follows the end is NaN.
            table: conditions and epochs of the trials.
            step: width of a bin in milliseconds.
            smoothing: standard deviation of a Gaussian kernel in milliseconds. It also looks ahead, so that activity
                appears up to about twice that long before its cause. None for the counts of each bin.
            observed: for each unit the intervals (number, 2) in seconds in which it was observed; in other trials it is
                NaN. None for always.

        >>> spikes = [[0.11, 0.12, 0.31], [0.25]]
        >>> recording = Recording.from_spikes(spikes, [0.1, 0.3], [0.2, 0.4], step=50)
        >>> recording.activity[:, 0, 0].tolist()  # two spikes in the first 50 ms
        [40.0, 0.0]

        """
        begin, end = (torch.as_tensor(np.asarray(edge, dtype=np.float64)) for edge in (starts, stops))
        counts = bin_spikes(spike_times, begin, end, step / 1000, observed)
        table = replace(table or TrialTable(), step=float(step))
        return cls._of_counts(counts, table, smoothing)

    @classmethod
    def from_nwb(
        cls,
        path: str | Path,
        *,
        step: float,
        conditions: Sequence[str] = (),
        epochs: Mapping[str, Edges] | None = None,
        start: str = "start_time",
        stop: str = "stop_time",
        smoothing: float | None = None,
        trials: Any = None,
        units: Any = None,
        series: str | None = None,
    ) -> Recording:
        """Return firing rates in Hz of the units in the trials of an NWB file, or means of a series in the file.

        It needs the `nwb` extra.

        Units that were not observed in a trial, by the file's `obs_intervals`, are NaN there. Trials whose start or
        stop is missing are left out.

        Args:
            path: the file.
            step: width of a bin in milliseconds.
            conditions: columns of the trials to keep as conditions; text gets a number for each value, with its label.
            epochs: beginning and end by name: columns of the trials with times, or seconds after the start.
            start: column of the trials at which the activity begins.
            stop: column at which it ends.
            smoothing: as in `from_spikes`.
            trials: numbers or a mask of the trials to keep; all by default.
            units: numbers or a mask of the units to keep; all by default.
            series: name of a series of samples (samples, units), such as the fluorescence of regions of interest, or
                rates; its mean in each bin is the activity. None for spike times.

        """
        activity, table = read_nwb(path, step, conditions, epochs or {}, start, stop, trials, units, series)
        if series is None:
            return cls._of_counts(activity, table, smoothing)
        means = cls(activity, table, None, f"means of {series} in bins of {step:g} ms")
        return means if smoothing is None else means.smoothed(smoothing)

    @classmethod
    def _of_counts(cls, counts: Tensor, table: TrialTable, smoothing: float | None) -> Recording:
        assert table.step is not None
        rates = cls(counts * (1000 / table.step), table, None, f"spikes in bins of {table.step:g} ms, as rates in Hz")
        return rates if smoothing is None else rates.smoothed(smoothing)

    @property
    def size(self) -> int:
        """Number of units."""
        return self.activity.shape[2]

    @property
    def trials(self) -> int:
        """Number of trials."""
        return self.activity.shape[1]

    @property
    def present(self) -> Bool[Tensor, "time trials"]:
        """Whether any unit was recorded at each step of each trial."""
        return ~self.activity.isnan().all(2)

    def part(self, trials: Any) -> Recording:
        """Return some of the trials: a slice, a mask, or their numbers."""
        inputs = None if self.inputs is None else self.inputs[:, trials]
        table = self.table.part(trials) if len(self.table) else self.table
        return replace(self, activity=self.activity[:, trials], table=table, inputs=inputs)

    def select(self, units: Any) -> Recording:
        """Return some of the units: a slice, a mask, or their numbers."""
        return replace(self, activity=self.activity[:, :, units])

    def complete(self, share: float = 0.5) -> Recording:
        """Return the units that were recorded in at least this share of the trials, in the trials that have them all.

        Lenses that need all units together, such as `ms.compare`, take it. Ends of trials do not count as missing.
        """
        missing = (self.activity.isnan() & self.present.unsqueeze(2)).any(0) | ~self.present.any(0).unsqueeze(1)
        units = (~missing).double().mean(0) >= share
        trials = ~missing[:, units].any(1)
        if not bool(units.any()) or not bool(trials.any()):
            raise ValueError(
                f"No trial has all of the {int(units.sum())} units that were recorded in {share:.0%} of the trials or "
                f"more: choose another share, or units with select(...)."
            )
        return self.part(trials).select(units)

    def smoothed(self, width: float) -> Recording:
        """Return the activity smoothed over time by a Gaussian kernel of this width (its standard deviation).

        The width is in milliseconds, or in steps where a step has no duration.
        """
        if not width > 0:
            raise ValueError(f"The width of a kernel must be positive, but is {width}.")
        unit = "steps" if self.table.step is None else "ms"
        done = f"smoothed by a Gaussian of {width:g} {unit}"
        return self._processed(smooth(self.activity, width / (self.table.step or 1)), done)

    def scaled(self, *conditions: str, soften: float = 0.0) -> Recording:
        """Divide each unit by the range of its mean activity in conditions, plus a constant.

        With `soften=5` for rates in Hz, strong units weigh about the same and weak ones less (Churchland et al. 2012).
        Units whose mean activity is constant need `soften` above 0.
        """
        ranges = unit_ranges(self.average(*conditions).activity.flatten(0, 1), soften)
        done = f"divided by the range of each unit{f' + {soften:g}' if soften else ''}"
        return self._processed(self.activity / ranges, done)

    def denoised(self, components: int) -> Recording:
        """Return the activity that its first principal components reconstruct, without noise that units do not share.

        Every unit then contains some of the others: scores of `ms.fit_network` on held-out units lose their meaning.
        """
        check_whole(1, components=components)
        return self._processed(
            first_components(self.activity, components), f"reduced to {pluralise(components, 'component')}"
        )

    def _processed(self, activity: Tensor, done: str) -> Recording:
        """Return the recording with other activity, and with a note on how it was computed."""
        return replace(self, activity=activity, processing=f"{self.processing}, {done}".removeprefix(", "))

    def folds(self, number: int, *conditions: str, seed: int = 0) -> list[tuple[Recording, Recording]]:
        """Return pairs of recordings to fit and to test, such that every trial is tested once.

        The trials of every combination of the conditions are divided as evenly as possible between the folds.
        """
        check_whole(2, number=number)
        if number > self.trials:
            raise ValueError(f"{self.trials} trials cannot be divided into {number} folds.")
        groups = self.table.groups(*conditions) if conditions else {"": torch.arange(self.trials)}
        place = fold_of_trials(self.trials, groups.values(), number, seed)
        return [(self.part(place != fold), self.part(place == fold)) for fold in range(number)]

    def in_epoch(self, name: str) -> Recording:
        """Return the steps of one epoch, aligned to its start; NaN where it is shorter than the longest."""
        epoch = self.table.epoch(name)
        longest = int(epoch.lengths.max())
        steps = epoch.starts + torch.arange(longest).unsqueeze(1)  # (time, trials)
        outside = (steps >= epoch.stops) | (steps >= len(self.activity))
        steps = steps.clamp(max=len(self.activity) - 1)

        def aligned(values: Tensor) -> Tensor:
            return values[steps, torch.arange(self.trials)].masked_fill(outside.unsqueeze(2), torch.nan)

        inputs = None if self.inputs is None else aligned(self.inputs)
        starts = torch.zeros_like(epoch.starts)
        only = replace(epoch, starts=starts, stops=epoch.lengths)
        table = replace(self.table, epochs=(only,), lengths=epoch.lengths)
        return replace(self, activity=aligned(self.activity), table=table, inputs=inputs)

    def average(self, *conditions: str) -> Recording:
        """Return the mean activity of every combination of values of these conditions, as trials of a new recording.

        NaN does not count in a mean. Epochs are kept where they are the same in all trials of every combination.
        """
        groups = self.table.groups(*conditions) if conditions else {"": torch.arange(self.trials)}
        if not groups:
            raise ValueError(f"No trial has a value of each of the conditions {', '.join(conditions)}.")
        first = torch.stack([members[0] for members in groups.values()])
        epochs = tuple(
            epoch
            for epoch in self.table.epochs
            if all(bool((edge[members] == edge[members[0]]).all()) for edge in (epoch.starts, epoch.stops)
                   for members in groups.values())
        )  # fmt: skip
        kept = tuple(self.table[name] for name in conditions)
        table = replace(self.table, conditions=kept, epochs=epochs, lengths=None)
        means = torch.stack([self.activity[:, members].nanmean(1) for members in groups.values()], 1)
        inputs = None
        if self.inputs is not None:
            inputs = torch.stack([self.inputs[:, members].nanmean(1) for members in groups.values()], 1)
        return replace(self, activity=means, table=table.part(first) if len(table) else table, inputs=inputs)

    def mean_inputs(self, *conditions: str, epoch: str | None = None) -> dict[str, Float[Tensor, " features"]]:
        """Return the mean input of every combination of values of these conditions, by its text.

        It is the constant input of `ms.by_condition`. With `epoch`, the mean is over its steps alone.
        """
        return {name: self._mean_input(members, epoch) for name, members in self.table.groups(*conditions).items()}

    def inputs_along(self, condition: str, *, epoch: str | None = None) -> dict[float, Float[Tensor, " features"]]:
        """Return the mean input at each value of a condition, such as a coherence, for `ms.interpolate_inputs`."""
        column = self.table[condition]
        trials = {level: (column.values == level).nonzero().flatten() for level in column.levels}
        return {level: self._mean_input(members, epoch) for level, members in trials.items()}

    def _mean_input(self, trials: Tensor, epoch: str | None) -> Tensor:
        if self.inputs is None:
            raise ValueError("This recording has no inputs: record them with ms.record_activity, or pass inputs=....")
        inputs = self.inputs
        if epoch is not None:
            steps = self.table.epoch(epoch).steps(len(inputs))
            inputs = inputs.masked_fill(~steps.unsqueeze(2), torch.nan)
        mean = inputs[:, trials].flatten(0, 1).nanmean(0)
        if bool(mean.isnan().any()):
            where = "" if epoch is None else f" in the epoch {epoch!r}"
            raise ValueError(f"There is no input{where} in these trials, so that it has no mean.")
        return mean

    def summary(self) -> str:
        time, trials, units = self.activity.shape
        steps = f"{'up to ' if not bool(self.present.all()) else ''}{pluralise(time, 'step')}"
        sentence = f"{pluralise(units, 'unit')} in {pluralise(trials, 'trial')} of {steps}"
        if self.table.step is not None:
            sentence += f" of {self.table.step:g} ms"
        levels = [f"{each.name} ({pluralise(len(each.levels), 'value')})" for each in self.table.conditions]
        conditions = f" Conditions: {', '.join(levels)}." if levels else ""
        epochs = f" Epochs: {', '.join(each.name for each in self.table.epochs)}." if self.table.epochs else ""
        missing = self.activity[self.present.nonzero(as_tuple=True)].isnan().double().mean()
        gaps = f" Units are missing in {float(missing):.0%} of the steps of trials." if missing > 0 else ""
        processing = f" Activity: {self.processing}." if self.processing else ""
        return f"{sentence}.{conditions}{epochs}{gaps}{processing}"
