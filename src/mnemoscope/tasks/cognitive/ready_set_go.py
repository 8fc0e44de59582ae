"""Ready, set, go: measure an interval, and produce it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.cognitive.memoryless import memoryless_loss
from mnemoscope.tasks.cognitive.timeline import Timeline
from mnemoscope.tasks.cognitive.trial_task import Analysis, Conditions, TrialTask, choose, read_numbers
from mnemoscope.tasks.task import Batch


@dataclass(frozen=True)
class ReadySetGo(TrialTask):
    """Measure the interval between two pulses, ready and set, and produce it (Jazayeri & Shadlen 2010).

    The interval that is due after set is `gain` times the one before it (Remington et al. 2018). The input `context` is
    the gain minus 1. The target is 0 until set, and then rises linearly so that it reaches 1 when the interval has
    passed, and further for another quarter of it. An interval is produced when the output first reaches 1 after set,
    and is right within 10%. Ramp, context and tolerance are choices of this library.

    The pulses begin at the first step of their epochs. Ready comes after a random wait, so that the time since the
    beginning of a trial does not reveal the interval.

    >>> task = ReadySetGo()
    >>> table = task.grid().table
    >>> len(table), table["interval"].levels, [epoch.name for epoch in table.epochs]
    (12, [500.0, 600.0, 700.0, 800.0, 900.0, 1000.0], ['fixation', 'measurement', 'production', 'after'])
    """

    shortest_interval: float = 500.0
    longest_interval: float = 1000.0
    intervals: int = 6
    gains: str = "1 1.5"
    pulse: float = 40.0
    shortest_fixation: float = 200.0
    longest_fixation: float = 600.0

    span_label: ClassVar[str] = "interval in steps"
    tolerance: ClassVar[float] = 0.1
    """Largest error of a right interval, as a fraction of it."""
    overshoot: ClassVar[float] = 0.25
    """Time for which the target rises after 1, as a fraction of the interval."""

    @property
    def analysis(self) -> Analysis:
        return Analysis("production", context="gain", timed="due")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(1, intervals=self.intervals)
        read_numbers("gains", self.gains)  # raises for wrong gains
        if not self.step <= self.pulse < self.shortest_interval <= self.longest_interval < inf:
            raise ValueError(
                f"A pulse lasts a step or more and less than the shortest interval, but the pulse is {self.pulse:g} ms "
                f"and the intervals are from {self.shortest_interval:g} to {self.longest_interval:g} ms."
            )

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("pulse", "context")

    @property
    def output_names(self) -> tuple[str, ...]:
        return ("ramp",)

    @property
    def longest_span(self) -> int:
        return self.steps_of(self.longest_interval)

    def at(self, steps: int, /) -> ReadySetGo:
        """Return the task with intervals of so many steps in every trial."""
        interval = steps * self.step
        return replace(self, shortest_interval=interval, longest_interval=interval, intervals=1)

    def durations(self) -> dict[str, tuple[float, float]]:
        return {"fixation": (self.shortest_fixation, self.longest_fixation)}

    def levels(self) -> dict[str, Sequence[float]]:
        intervals = torch.linspace(self.shortest_interval, self.longest_interval, self.intervals, dtype=torch.float64)
        return {"interval": intervals.tolist(), "gain": read_numbers("gains", self.gains)}

    def draw(self, trials: int, generator: torch.Generator) -> Conditions:
        return {name: choose(values, trials, generator) for name, values in self.levels().items()}

    def outcomes(self, conditions: Conditions) -> Conditions:
        return {"due": conditions["interval"] * conditions["gain"]}

    def epoch_steps(
        self, conditions: Conditions, generator: torch.Generator | None
    ) -> dict[str, Int[Tensor, " trials"]]:
        steps = super().epoch_steps(conditions, generator)
        due = self._due(conditions)
        after = (self.overshoot * due).ceil().long()
        return {**steps, "measurement": self._interval(conditions), "production": due.ceil().long(), "after": after}

    def _interval(self, conditions: Conditions) -> Int[Tensor, " trials"]:
        """Return the steps from ready to set."""
        return (conditions["interval"] / self.step).round().long()

    def _due(self, conditions: Conditions) -> Float[Tensor, " trials"]:
        """Return the steps that are to be produced."""
        return self._interval(conditions) * conditions["gain"]

    def lay_out(self, conditions: Conditions, timeline: Timeline) -> Batch:
        pulse = self.steps_of(self.pulse)
        ready, go = timeline.since("measurement"), timeline.since("production")
        pulses = ((ready >= 0) & (ready < pulse)) | ((go >= 0) & (go < pulse))
        trial = timeline.during(*timeline.steps)
        inputs = torch.stack([pulses.double(), trial * (conditions["gain"] - 1)], 2)
        ramp = trial * go.clamp(min=0) / self._due(conditions)
        return Batch(inputs.float(), ramp.unsqueeze(2).float(), trial)

    def scores(self, outputs: Float[Tensor, "time batch 1"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of right intervals, and `interval error`, their mean relative error.

        An interval that is not produced before the end of the trial has an error of 1.
        """
        before = (batch.targets[..., 0] == 0) & batch.mask
        begin = before.sum(0) - 1  # the target of the first step after set is 0
        produced, due = (
            crossing(values[..., 0].masked_fill(before | ~batch.mask, -inf)) - begin
            for values in (outputs, batch.targets)
        )
        error = ((produced - due).abs() / due).nan_to_num(posinf=1.0)
        return {
            "accuracy": (error <= self.tolerance).float().mean().item(),
            "interval error": error.mean().item(),
        }

    def baseline(self) -> float:
        """Return the loss of the best guess from time, pulse and context, over all intervals, gains and fixations."""
        shortest, longest = (self.steps_of(each) for each in (self.shortest_fixation, self.longest_fixation))
        waits = torch.arange(shortest, longest + 1)
        levels = (torch.tensor(values, dtype=torch.float64) for values in self.levels().values())
        interval, gain, wait = torch.cartesian_prod(*levels, waits.double()).unbind(1)
        conditions = {"interval": interval, "gain": gain}
        steps = {**self.epoch_steps(conditions, None), "fixation": wait.long()}
        return memoryless_loss(self.lay_out(conditions, Timeline(steps)))


def crossing(values: Float[Tensor, "time batch"]) -> Float[Tensor, " batch"]:
    """Return the time at which each sequence first reaches 1, interpolated between steps; infinite if it does not."""
    reached = values >= 1 - 1e-6
    after = reached.long().argmax(0)
    trial = torch.arange(values.shape[1], device=values.device)
    high, low = values[after, trial], values[(after - 1).clamp(min=0), trial]
    back = ((high - 1) / (high - low)).nan_to_num(0.0).clamp(0, 1)  # 0 if the step before does not count
    return torch.where(reached.any(0), after - back, inf)
