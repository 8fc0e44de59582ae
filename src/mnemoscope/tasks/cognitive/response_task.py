"""Trials that end with an answer: stimuli, a delay, and a response that counts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.cognitive.timeline import Timeline, last_counted
from mnemoscope.tasks.cognitive.trial_task import Analysis, Conditions, TrialTask
from mnemoscope.tasks.task import Batch

GRACE = 100.0
"""Milliseconds at the beginning of the response that do not count (Yang et al. 2019)."""
TIME_CONSTANT = 100.0
"""Milliseconds: the time constant in the formula of the noise."""


@dataclass(frozen=True)
class ResponseTask(TrialTask):
    """Base class of tasks with an answer after a delay; the targets are 0 until the response.

    A network fixates until the response: the steps before it count with target 0, and so does the response after a
    grace period of 100 ms. The noise of a stimulus channel has the standard deviation `noise sqrt(2 tau / step)` in
    each step, with tau = 100 ms (Song et al. 2016; Yang et al. 2019), so that the signal-to-noise ratio of a
    stimulus does not depend on `step`.
    """

    noise: float = 0.01
    fixation: float = 200.0
    shortest_delay: float = 0.0
    longest_delay: float = 0.0
    response: float = 300.0

    span_label: ClassVar[str] = "delay in steps"
    cued: ClassVar[bool] = True
    """Whether the first input is a fixation cue, 1 until the response; otherwise nothing counts between the fixation
    and the response, since a network cannot know when to respond."""

    held: ClassVar[str] = "choice"
    """Condition whose value a network holds in the delay."""

    @property
    def analysis(self) -> Analysis | None:
        return Analysis("delay", self.held) if self.steps_of(self.longest_delay) else None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.noise < inf:
            raise ValueError(f"noise is a standard deviation, 0 or more and finite, but is {self.noise:g}.")
        for name in (name for name in self.durations() if name != "delay"):
            if self.steps_of(self.durations()[name][0]) < 1:
                raise ValueError(f"The {name} must last at least one step of {self.step:g} ms.")
        if self._grace >= self.steps_of(self.response):
            raise ValueError(
                f"The response must last longer than {GRACE:g} ms, in which it does not count, but lasts "
                f"{self.response:g} ms."
            )

    @property
    def _grace(self) -> int:
        return self.steps_of(GRACE)

    @property
    @abstractmethod
    def stimulus_names(self) -> tuple[str, ...]:
        """Names of the input channels that are noisy."""

    @property
    def input_names(self) -> tuple[str, ...]:
        return (*(("fixation",) if self.cued else ()), *self.stimulus_names)

    @property
    def output_names(self) -> tuple[str, ...]:
        return ("choice",)

    @property
    def noise_deviation(self) -> Float[Tensor, " input"]:
        deviation = torch.zeros(self.input_size)
        deviation[[self.input_names.index(name) for name in self.stimulus_names]] = (
            self.noise * (2 * TIME_CONSTANT / self.step) ** 0.5
        )
        return deviation

    @property
    def longest_span(self) -> int:
        return self.steps_of(self.longest_delay)

    def at(self, steps: int, /) -> ResponseTask:
        """Return the task with a delay of so many steps in every trial."""
        if steps < 0:
            raise ValueError(f"A delay lasts 0 or more steps, but is {steps}.")
        return replace(self, shortest_delay=steps * self.step, longest_delay=steps * self.step)

    @abstractmethod
    def show(self, conditions: Conditions, timeline: Timeline) -> Float[Tensor, "time trials channels"]:
        """Return the inputs at the channels of `input_names`, without the fixation cue."""

    def answers(self, conditions: Conditions) -> Float[Tensor, "trials output"]:
        """Return the target of the response: 1 for choice 1, -1 for choice 0, and 0 where no choice is right."""
        return (2 * self.outcomes(conditions)["choice"] - 1).nan_to_num(0.0).unsqueeze(1)

    def lay_out(self, conditions: Conditions, timeline: Timeline) -> Batch:
        response = timeline.during("response")
        before = [name for name in timeline.steps if name != "response"]
        inputs = self.show(conditions, timeline)
        if self.cued:
            inputs = torch.cat([timeline.during(*before).unsqueeze(2), inputs], 2)
        targets = response.unsqueeze(2) * self.answers(conditions)
        counted = timeline.during(*(before if self.cued else ["fixation"]))
        return Batch(inputs.float(), targets.float(), counted | (timeline.since("response") >= self._grace) & response)

    def last_outputs(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> Float[Tensor, "batch output"]:
        """Return the outputs at the last counted step of each trial."""
        return outputs[last_counted(batch.mask), torch.arange(batch.mask.shape[1], device=outputs.device)]

    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`: the fraction of trials with the right sign at the end of the response.

        Trials in which no choice is right do not count.
        """
        given, right = (self.last_outputs(values, batch)[:, 0].sign() for values in (outputs, batch.targets))
        return {"accuracy": (given == right)[right != 0].float().mean().item()}

    @property
    def variance(self) -> float:
        """Mean square of the target during the response, whose mean is 0."""
        return 1.0

    def baseline(self) -> float:
        """Return the variance of the answer times the fraction of counted steps that belong to the response.

        The fixation cue, or else the time, reveals the response. No stimulus is shown in it, so that its
        target can be anything: the best guess is its mean, 0. Before it the target is 0. The value holds for a large
        batch, as the number of counted steps varies.
        """
        means = {
            name: (self.steps_of(shortest) + self.steps_of(longest)) / 2
            for name, (shortest, longest) in self.durations().items()
        }
        response = means.pop("response") - self._grace
        return self.variance * response / (response + (sum(means.values()) if self.cued else means["fixation"]))

    def chance(self) -> float:
        """Return 1/2: both choices are equally frequent, and nothing shows them at the end of the response."""
        return 0.5
