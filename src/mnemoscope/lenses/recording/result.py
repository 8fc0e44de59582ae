"""The result of the recording lens, which other lenses take in the place of a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.trial_table import TrialTable
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
        table: TrialTable | None = None,
        *,
        inputs: Tensor | np.ndarray | None = None,
    ) -> Recording:
        """Return a recording of an array (trials, time, units), the layout of most data, with NaN where it has none."""
        rates = torch.as_tensor(activity)
        if rates.dim() != 3:
            raise ValueError(f"Activity must be (trials, time, units), but its shape is {tuple(rates.shape)}.")
        given = None if inputs is None else torch.as_tensor(inputs).double().transpose(0, 1).contiguous()
        return cls(rates.double().transpose(0, 1).contiguous(), table or TrialTable(), given)

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
        return Recording(self.activity[:, trials], table, inputs)

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
        table = replace(self.table, epochs=(replace(epoch, starts=starts, stops=epoch.lengths),))
        return Recording(aligned(self.activity), table, inputs)

    def average(self, *conditions: str) -> Recording:
        """Return the mean activity of every combination of values of these conditions, as trials of a new recording.

        NaN does not count in a mean. Epochs are kept where they are the same in all trials of every combination.
        """
        groups = self.table.groups(*conditions) if conditions else {"": torch.arange(self.trials)}
        first = torch.stack([members[0] for members in groups.values()])
        epochs = tuple(
            epoch
            for epoch in self.table.epochs
            if all(bool((edge[members] == edge[members[0]]).all()) for edge in (epoch.starts, epoch.stops)
                   for members in groups.values())
        )  # fmt: skip
        kept = tuple(self.table[name] for name in conditions)
        table = replace(self.table, conditions=kept, epochs=epochs)
        means = torch.stack([self.activity[:, members].nanmean(1) for members in groups.values()], 1)
        inputs = None
        if self.inputs is not None:
            inputs = torch.stack([self.inputs[:, members].nanmean(1) for members in groups.values()], 1)
        return Recording(means, table.part(first) if len(table) else table, inputs)

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
        sentence = f"{units} units in {trials} trials of {'up to ' if not bool(self.present.all()) else ''}{time} steps"
        if self.table.step is not None:
            sentence += f" of {self.table.step:g} ms"
        levels = [f"{each.name} ({len(each.levels)} values)" for each in self.table.conditions]
        conditions = f" Conditions: {', '.join(levels)}." if levels else ""
        epochs = f" Epochs: {', '.join(each.name for each in self.table.epochs)}." if self.table.epochs else ""
        return f"{sentence}.{conditions}{epochs}"
