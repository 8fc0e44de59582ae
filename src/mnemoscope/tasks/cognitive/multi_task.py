"""Twenty tasks in one network: responses, decisions and comparisons on two rings of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, pi
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.cognitive.response_task import GRACE, TIME_CONSTANT
from mnemoscope.tasks.cognitive.timeline import Timeline, last_counted
from mnemoscope.tasks.cognitive.trial_task import Conditions, TrialTask, check_numbered
from mnemoscope.tasks.cognitive.yang_conditions import (
    CATEGORY_ANGLES,
    STRENGTHS,
    draw_conditions,
    grid_conditions,
    has,
    response_angle,
)
from mnemoscope.tasks.cognitive.yang_rules import EPOCHS, RESPONSE, RULES, find_rules
from mnemoscope.tasks.task import Batch

RING = 32
"""Units of a ring of inputs or outputs."""
BUMP, WIDTH, REST = 0.8, 22.5, 0.05
"""Height of the activity around an angle, its width in degrees, and the value of an output at rest."""
FIXATION_WEIGHT, RESPONSE_WEIGHT = 2.0, 5.0
"""Weights of the fixation output, and of the response, in the loss."""


@dataclass(frozen=True)
class MultiTask(TrialTask):
    """The twenty tasks of Yang et al. 2019, one, several, or all interleaved.

    Inputs are a fixation cue, two rings of 32 units that show stimuli of two modalities, and an input for each rule.
    Outputs are fixation and a ring of 32 units, which shows the response. A batch mixes trials of all chosen `rules`,
    a list of names with commas such as "Dly Go, DMS", or "all"; the original has one task in each batch. The response
    lasts 500 ms in all tasks; in the authors' code, that of DMC and DNMC lasts 200, 400 or 600 ms.

    The loss is the squared error with the original weights: 5 for the response, 2 for the fixation output, none in the
    first 100 ms of a trial and of the response. A trial is right if, at its end, the fixation output is below 0.5 and
    the angle of the ring is within 36 degrees of the response; or if it is above 0.5 where fixation is right.

    Angles are in degrees, uniform over the circle, or among `locations` of them if it is not 0.

    >>> task = MultiTask(rules="Dly Go, DMS")
    >>> trials = task.trials(6, seed=0, number=0)
    >>> trials.batch.inputs.shape[2], trials.batch.targets.shape[2]
    (85, 33)
    >>> rule = trials.table["rule"]
    >>> [rule.label(level) for level in rule.levels]
    ['Dly Go', 'DMS']
    """

    step: float = 20.0
    rules: str = "all"
    noise: float = 0.01
    locations: int = 0
    delay: float = 0.0
    """Delay of all tasks that have one, in milliseconds; 0 for the original delays, of 200 to 1600 ms."""

    labels: ClassVar[Mapping[str, tuple[str, ...]]] = {"rule": tuple(rule.name for rule in RULES)}
    span_label: ClassVar[str] = "delay in steps"
    tolerance: ClassVar[float] = 36.0
    """Largest error in degrees of a right response."""
    grid_locations: ClassVar[int] = 8
    """Angles that `grid` shows if they are drawn from the whole circle."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(0, locations=self.locations)
        find_rules(self.rules)  # raises for a wrong name
        if self.locations == 1:
            raise ValueError(
                "Two stimuli need two locations: set locations to 2 or more, or to 0 for the whole circle."
            )
        if not (0 <= self.noise < inf and 0 <= self.delay < inf):
            raise ValueError(f"noise and delay are 0 or more and finite, but are {self.noise:g} and {self.delay:g}.")
        if self.step > GRACE:
            raise ValueError(f"A step lasts at most {GRACE:g} ms, but step is {self.step:g}.")

    @property
    def input_names(self) -> tuple[str, ...]:
        rings = [f"modality {m}, {360 * unit / RING:g} degrees" for m in (1, 2) for unit in range(RING)]
        return ("fixation", *rings, *(rule.name for rule in RULES))

    @property
    def output_names(self) -> tuple[str, ...]:
        return ("fixation", *(f"{360 * unit / RING:g} degrees" for unit in range(RING)))

    @property
    def noise_deviation(self) -> Float[Tensor, " input"]:
        return torch.full((self.input_size,), self.noise * (2 * TIME_CONSTANT / self.step) ** 0.5)

    @property
    def longest_span(self) -> int:
        delays = [self.delay or max(RULES[rule].durations[2]) for rule in find_rules(self.rules) if RULES[rule].delayed]
        return self.steps_of(max(delays, default=0))

    def at(self, steps: int, /) -> MultiTask:
        """Return the tasks with a delay of so many steps, in those that have one."""
        if not self.longest_span or steps < 1:
            raise ValueError(f"A delay lasts a step or more, in tasks that have one, but is {steps} in {self.rules!r}.")
        return replace(self, delay=steps * self.step)

    def durations(self) -> dict[str, tuple[float, float]]:
        return {"response": (RESPONSE, RESPONSE)}

    def levels(self) -> dict[str, Sequence[float]]:
        count = self.locations or self.grid_locations
        angles = [360 * number / count for number in range(count)]
        return {"rule": find_rules(self.rules), "angle": angles, "choice": [0.0, 1.0]}

    def combine(self, combinations: Mapping[str, Float[Tensor, " combinations"]]) -> Conditions:
        check_numbered(len(RULES), rule=combinations["rule"])
        check_numbered(2, choice=combinations["choice"])
        return grid_conditions(combinations)

    def draw(self, trials: int, generator: torch.Generator) -> Conditions:
        return draw_conditions(find_rules(self.rules), self.locations, trials, generator)

    def outcomes(self, conditions: Conditions) -> Conditions:
        decides = has(conditions["rule"], lambda rule: rule.kind == "decision")
        evidence = {
            f"evidence {m}": torch.where(decides, conditions[STRENGTHS[1, m]] - conditions[STRENGTHS[2, m]], torch.nan)
            for m in (1, 2)
        }
        return {**evidence, "response": response_angle(conditions)}

    def epoch_steps(
        self, conditions: Conditions, generator: torch.Generator | None
    ) -> dict[str, Int[Tensor, " trials"]]:
        trials = len(conditions["rule"])
        steps = {name: torch.zeros(trials, dtype=torch.long) for name in EPOCHS[:-1]}
        for rule in find_rules(self.rules) if generator is not None else conditions["rule"].long().unique().tolist():
            for name, length in zip(EPOCHS, self._lengths(rule), strict=False):
                if generator is None:
                    drawn = torch.full((trials,), round(sum(length) / len(length)))
                else:
                    drawn = torch.tensor(length)[torch.randint(len(length), (trials,), generator=generator)]
                steps[name] = torch.where(conditions["rule"] == rule, drawn, steps[name])
        return {**steps, "response": torch.full((trials,), self.steps_of(RESPONSE))}

    def _lengths(self, rule: int) -> list[list[int]]:
        """Return the possible numbers of steps of each epoch before the response, all with equal chance."""
        durations: list[Sequence[float]] = [*RULES[rule].durations]
        if self.delay and RULES[rule].delayed:
            durations[2] = (self.delay,)
        return [
            list(range(self.steps_of(length.start), self.steps_of(length.stop) + 1))
            if isinstance(length, range)
            else [self.steps_of(value) for value in length]
            for length in durations
        ]

    @property
    def _grace(self) -> int:
        return self.steps_of(GRACE)

    def lay_out(self, conditions: Conditions, timeline: Timeline) -> Batch:
        rule, response = conditions["rule"], timeline.during("response")
        trial = timeline.during(*EPOCHS)
        apart = has(rule, lambda each: each.delayed)
        visible = {s: response & has(rule, lambda each, s=s: each.visible == s) for s in (1, 2)}
        shown = {
            1: timeline.during("stimulus 1") | visible[1],
            2: torch.where(apart, timeline.during("stimulus 2"), timeline.during("stimulus 1")) | visible[2],
        }
        bumps = {s: bump(conditions[f"angle {s}"]) * shown[s].unsqueeze(2) for s in (1, 2)}
        rings = [
            torch.stack([bumps[s] * conditions[STRENGTHS[s, m]].unsqueeze(1) for s in (1, 2)]).sum(0) for m in (1, 2)
        ]
        cue = trial & ~(response & has(rule, lambda each: each.cued))
        rules = one_hot(rule.long(), len(RULES)) * trial.unsqueeze(2)
        inputs = torch.cat([cue.unsqueeze(2), *rings, rules], 2)
        answer = response_angle(conditions)
        moves = response & ~answer.isnan()
        fixation = torch.where(moves, REST, BUMP + REST)
        ring = REST + bump(answer) * moves.unsqueeze(2)
        targets = torch.cat([fixation.unsqueeze(2), ring], 2) * trial.unsqueeze(2)
        settled = torch.where(response, timeline.since("response"), timeline.since("fixation")) >= self._grace
        return Batch(inputs.float(), targets.float(), trial & settled)

    def recalled(self, batch: Batch) -> Bool[Tensor, "time batch"]:
        """Return the counted steps of the response: those after the second gap in what counts."""
        before = torch.cat([torch.zeros_like(batch.mask[:1]), batch.mask[:-1]])
        if bool(batch.mask[0].any()):
            raise ValueError("The loss of these tasks needs whole trials, from their first step: leave out truncate.")
        return batch.mask & ((batch.mask & ~before).cumsum(0) == 2)

    def weights(self, batch: Batch) -> Float[Tensor, "time batch output"]:
        """Return the weights of squared errors."""
        outputs = torch.ones(self.output_size, device=batch.mask.device)
        outputs[0] = FIXATION_WEIGHT
        return torch.where(self.recalled(batch), RESPONSE_WEIGHT, 1.0).unsqueeze(2) * outputs

    def errors(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> Float[Tensor, "time batch"]:
        """Return the weighted mean squared error of every step."""
        self._check_outputs(outputs, batch)
        return (self.weights(batch) * (outputs - batch.targets).square()).mean(2)

    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of right trials, and `lowest accuracy`, that of the task with the lowest."""
        last, trial = last_counted(batch.mask), torch.arange(batch.mask.shape[1], device=outputs.device)
        given, right = outputs[last, trial], batch.targets[last, trial]
        fixates, should = given[:, 0] > 0.5, right[:, 0] > 0.5
        error = (decoded_angle(given[:, 1:]) - decoded_angle(right[:, 1:])).abs()
        near = torch.minimum(error, 360 - error) < self.tolerance
        correct = torch.where(should, fixates, near & ~fixates).float()
        rule = batch.inputs[last, trial, -len(RULES) :].argmax(1)
        by_rule = [correct[rule == number].mean().item() for number in rule.unique()]
        return {"accuracy": correct.mean().item(), "lowest accuracy": min(by_rule)}

    def baseline(self) -> float:
        """Return the loss of the best guess from time and current input, for inputs without noise.

        The cue, a visible stimulus and the rule reveal the response, except where stimuli are matched: there, a visible
        stimulus is the first, or the second of a match or of a non-match; the chances follow from all timings. In the
        response, a visible stimulus reveals its angle; otherwise the best guess is the mean over all angles. The noise
        blurs what is visible, which raises the loss a little.
        """
        rules = find_rules(self.rules)
        total = sum(
            self._matching_loss(rule) if RULES[rule].visible == 2 else self._hidden_loss(rule) for rule in rules
        )
        return total / sum(self._counted_steps(rule) for rule in rules)

    def _counted_steps(self, rule: int) -> float:
        """Return the expected number of counted steps of a trial."""
        before = sum(sum(length) / len(length) for length in self._lengths(rule))
        return before + self.steps_of(RESPONSE) - 2 * self._grace

    def _hidden_loss(self, rule: int) -> float:
        """Return the expected sum of errors of a trial that does not compare stimuli: 0 if the angle is visible."""
        if RULES[rule].visible:
            return 0.0
        count = self.locations or 36 * RING
        targets = bump(360 * torch.arange(count, dtype=torch.float64) / count)
        variance = targets.var(0, correction=0).sum().item()
        return RESPONSE_WEIGHT * variance / self.output_size * (self.steps_of(RESPONSE) - self._grace)

    def _matching_loss(self, rule: int) -> float:
        """Return the expected sum of errors of a trial that compares two stimuli."""
        timings = torch.cartesian_prod(*(torch.tensor(length) for length in self._lengths(rule)))  # (timings, 3)
        steps = dict(zip(EPOCHS, timings.unbind(1), strict=False))
        timeline = Timeline({**steps, "response": torch.full((len(timings),), self.steps_of(RESPONSE))})
        first = timeline.during("stimulus 1") & (timeline.since("fixation") >= self._grace)
        second = timeline.during("response") & (timeline.since("response") >= self._grace)
        goes = RESPONSE_WEIGHT / 2 * second.double().mean(1)  # half of the trials call for a response
        stays = first.double().mean(1) + goes
        if RULES[rule].kind == "category":
            angles = torch.tensor(CATEGORY_ANGLES, dtype=torch.float64)
        else:
            count = self.locations or 36 * RING
            angles = 360 * torch.arange(count, dtype=torch.float64) / count
        apart = FIXATION_WEIGHT * BUMP**2 + bump(angles).square().sum(1).mean().item()
        return float((goes * stays / (goes + stays).clamp_min(1e-12)).sum()) * apart / self.output_size


def bump(angles: Float[Tensor, " trials"]) -> Float[Tensor, "trials units"]:
    """Return the activity of a ring around angles in degrees; 0 where the angle is NaN."""
    preferred = 360 * torch.arange(RING, dtype=torch.float64) / RING
    distance = (angles.unsqueeze(1) - preferred).abs() % 360
    distance = torch.minimum(distance, 360 - distance)
    return (BUMP * (-((distance / WIDTH) ** 2) / 2).exp()).nan_to_num(0.0)


def decoded_angle(ring: Float[Tensor, "trials units"]) -> Float[Tensor, " trials"]:
    """Return the angle in degrees of the population vector of a ring."""
    preferred = 2 * pi * torch.arange(RING, device=ring.device) / RING
    return torch.atan2((ring * preferred.sin()).sum(1), (ring * preferred.cos()).sum(1)) * 180 / pi % 360
