"""Trials of any gymnasium or neurogym environment, for supervised training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.base.trial_table import Condition, Epoch, TrialTable
from mnemoscope.tasks.cognitive.environment_trials import EnvironmentTrial, record_episode, record_trial
from mnemoscope.tasks.cognitive.timeline import Trials, last_counted
from mnemoscope.tasks.splits import Split, check_batch_request, generator_seed
from mnemoscope.tasks.task import Batch, GeneratedTask

BASELINE_TRIALS = 256
"""Trials from which the baseline is estimated."""


@dataclass(frozen=True)
class EnvironmentTask(GeneratedTask):
    """Trials of a gymnasium environment: observations are inputs, and the right actions are targets.

    - An environment of neurogym, or another with `new_trial`, `ob` and `gt`, offers the right action of every step; the
      dictionary of a trial gives its conditions, and its periods are the epochs.
    - Otherwise an episode is a trial. The right action of a step is `info["gt"]` if a step returns it, or else the
      action with the highest reward, found by trying all of them on copies of the environment. Steps at which all
      actions have the same reward do not count.

    Actions among a number of choices become classes, and actions that are vectors become values. Every trial begins
    with a seed, so that a batch depends on its arguments alone.

    The baseline is an estimate from 256 trials for a predictor that knows the time alone, since nothing is known about
    how observations depend on the right action.

    Args:
        environment: an environment, or the id of a registered one; "neurogym:GoNogo-v0" imports neurogym first.
        longest: most steps of an episode.
        arguments: arguments of an environment that is given by its id, as JSON: '{"dt": 20}'.

    """

    environment: str | Any
    longest: int = 1000
    arguments: str = ""

    baseline_label: ClassVar[str] = "from the time alone"
    tolerance: ClassVar[float] = 0.1
    """Largest error of a right value."""

    def __post_init__(self) -> None:
        _ = self.input_size, self.output_size  # raises for spaces that no network can take or give

    @cached_property
    def _made(self) -> Any:
        """The environment itself."""
        if not isinstance(self.environment, str):
            return self.environment
        gymnasium = import_extra("gymnasium", "rl", "The id of an environment needs")
        return gymnasium.make(self.environment, disable_env_checker=True, **self._arguments)

    @property
    def _arguments(self) -> dict[str, Any]:
        try:
            read = json.loads(self.arguments or "{}")
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise ValueError(f'arguments must be a JSON object such as {{"dt": 20}}, but is {self.arguments!r}.')
        return read

    @property
    def _offers_trials(self) -> bool:
        return hasattr(self._made.unwrapped, "new_trial")

    @property
    def input_size(self) -> int:
        space = self._made.observation_space
        if hasattr(space, "n"):
            return int(space.n)
        if getattr(space, "shape", None) is None:
            raise ValueError(f"Observations must be arrays or whole numbers, but the environment has {space}.")
        return int(np.prod(space.shape))

    @property
    def output_size(self) -> int:
        space = self._made.action_space
        if hasattr(space, "n"):
            return int(space.n)
        if not self._offers_trials or not getattr(space, "shape", None):
            raise ValueError(
                f"The right action must be one of a number of choices (gymnasium.spaces.Discrete), or a vector that "
                f"the environment offers as gt, but it has {space}."
            )
        return int(np.prod(space.shape))

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        return self._trials(batch, generator).batch

    def trials(self, size: int, seed: int, number: int, split: Split = "train") -> Trials:
        """Return the trials of batch `number` of the stream with that seed, with their table."""
        check_batch_request(size, number, split)
        return self._trials(size, torch.Generator().manual_seed(generator_seed(seed, number, split)))

    def _trials(self, size: int, generator: torch.Generator) -> Trials:
        seeds = torch.randint(2**31 - 1, (size,), generator=generator).tolist()
        record = record_trial if self._offers_trials else record_episode
        trials = [record(self._made, seed, self.longest) for seed in seeds]
        time = max(len(trial.observations) for trial in trials)
        mask = torch.zeros(time, size, dtype=torch.bool)
        inputs = torch.zeros(time, size, self.input_size)
        classes = hasattr(self._made.action_space, "n")
        targets = torch.zeros(time, size, dtype=torch.long) if classes else torch.zeros(time, size, self.output_size)
        for column, trial in enumerate(trials):
            steps = len(trial.observations)
            inputs[:steps, column] = torch.as_tensor(trial.observations, dtype=torch.float32)
            answers = torch.as_tensor(trial.answers)
            targets[:steps, column] = answers.to(targets.dtype).reshape(targets[:steps, column].shape)
            mask[:steps, column] = torch.as_tensor(trial.counted)
        return Trials(Batch(inputs, targets, mask), _table(trials, getattr(self._made.unwrapped, "dt", None)))

    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`: the fraction of trials whose action at the last counted step is right."""
        last, trial = last_counted(batch.mask), torch.arange(batch.mask.shape[1], device=outputs.device)
        given, right = outputs[last, trial], batch.targets[last, trial]
        correct = (given - right).abs().amax(1) <= self.tolerance if right.dim() == 2 else given.argmax(1) == right
        return {"accuracy": correct.float().mean().item()}

    def baseline(self) -> float:
        """Return the loss of the best guess from the time alone, estimated from 256 trials."""
        return self._baseline

    @cached_property
    def _baseline(self) -> float:
        batch = self.batch(BASELINE_TRIALS, seed=0, number=0, split="validation")
        if batch.targets.is_floating_point():
            counted = batch.mask.unsqueeze(2)
            guess = (batch.targets * counted).sum(1, keepdim=True) / counted.sum(1, keepdim=True).clamp(min=1)
            return self.loss(guess.expand_as(batch.targets), batch).item()
        chosen = torch.nn.functional.one_hot(batch.targets, self.output_size) * batch.mask.unsqueeze(2)
        chances = chosen.sum(1, keepdim=True) / batch.mask.sum(1).clamp(min=1).view(-1, 1, 1)
        return self.loss(chances.clamp_min(1e-30).log().expand(*batch.mask.shape, -1), batch).item()

    def recalled(self, batch: Batch) -> Bool[Tensor, "time batch"]:
        """Return the last counted step of each trial."""
        return batch.mask & (
            torch.arange(len(batch.mask), device=batch.mask.device).unsqueeze(1) == last_counted(batch.mask)
        )


def _table(trials: list[EnvironmentTrial], step: float | None) -> TrialTable:
    """Return conditions and epochs; a trial without one of them has NaN, or an empty epoch."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.conditions))
    conditions = []
    for name in names:
        values = [trial.conditions.get(name) for trial in trials]
        words = sorted({value for value in values if isinstance(value, str)})
        numbers = [words.index(value) if isinstance(value, str) else value for value in values]
        if words and any(isinstance(value, float) for value in values):
            continue  # numbers and words together are no condition
        column = torch.tensor([torch.nan if value is None else float(value) for value in numbers], dtype=torch.float64)
        conditions.append(Condition(name, column, tuple(words)))
    epochs = []
    for name in dict.fromkeys(name for trial in trials for name in trial.epochs):
        edges = torch.tensor([trial.epochs.get(name, (0, 0)) for trial in trials])
        epochs.append(Epoch(name, *edges.unbind(1)))
    ends = torch.tensor([len(trial.observations) for trial in trials])
    epochs = [*epochs, Epoch("whole trial", torch.zeros_like(ends), ends)]
    return TrialTable(tuple(conditions), tuple(epochs), step, ends)
