"""Working memory over a delay: compare two frequencies, match a sample, report an angle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import pi
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.cognitive.response_task import ResponseTask
from mnemoscope.tasks.cognitive.timeline import Timeline
from mnemoscope.tasks.cognitive.trial_task import Conditions, check_numbered, check_positive, choose
from mnemoscope.tasks.task import Batch


@dataclass(frozen=True)
class ParametricMemory(ResponseTask):
    """Compare two vibration frequencies, the second shown after a delay (Romo et al. 1999).

    The first frequency is one of 10, 14, ..., 34 Hz, the second is `difference` Hz above or below it. Like neurons of
    the somatosensory cortex, one input rises with the frequency and the other falls, linearly between 0 and 1. The
    target of the response is 1 if the second frequency is higher, and -1 if it is lower. The second frequency alone
    decides if it is very low or very high: without the first one, 79% of the answers can be right by default.

    >>> table = ParametricMemory().grid().table
    >>> print(table["first"].values[:2].tolist(), table["second"].values[:2].tolist(), table["choice"].levels)
    [10.0, 10.0] [2.0, 18.0] [0.0, 1.0]
    """

    fixation: float = 500.0
    shortest_delay: float = 3000.0
    longest_delay: float = 3000.0
    stimulus: float = 500.0
    difference: float = 8.0

    frequencies: ClassVar[tuple[float, ...]] = (10.0, 14.0, 18.0, 22.0, 26.0, 30.0, 34.0)
    """First frequencies in Hz."""
    labels: ClassVar[Mapping[str, tuple[str, ...]]] = {"choice": ("second lower", "second higher")}

    held: ClassVar[str] = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(difference=self.difference)
        if self.difference > self.frequencies[0]:
            raise ValueError(f"difference is at most {self.frequencies[0]:g} Hz, but is {self.difference:g} Hz.")

    @property
    def stimulus_names(self) -> tuple[str, ...]:
        return ("rising", "falling")

    def durations(self) -> dict[str, tuple[float, float]]:
        return {
            "fixation": (self.fixation, self.fixation),
            "first": (self.stimulus, self.stimulus),
            "delay": (self.shortest_delay, self.longest_delay),
            "second": (self.stimulus, self.stimulus),
            "response": (self.response, self.response),
        }

    def levels(self) -> dict[str, Sequence[float]]:
        return {"first": self.frequencies, "choice": [0.0, 1.0]}

    def draw(self, trials: int, generator: torch.Generator) -> Conditions:
        return {name: choose(values, trials, generator) for name, values in self.levels().items()}

    def outcomes(self, conditions: Conditions) -> Conditions:
        change = self.difference * (2 * conditions["choice"] - 1)
        return {"choice": conditions["choice"], "second": conditions["first"] + change}

    def show(self, conditions: Conditions, timeline: Timeline) -> Float[Tensor, "time trials channels"]:
        lowest, highest = self.frequencies[0] - self.difference, self.frequencies[-1] + self.difference
        shown = {"first": conditions["first"], "second": self.outcomes(conditions)["second"]}
        frequency = torch.stack([timeline.during(name) * values for name, values in shown.items()]).sum(0)
        rising = (frequency - lowest) / (highest - lowest)
        return torch.stack([rising, 1 - rising], 2) * timeline.during(*shown).unsqueeze(2)


@dataclass(frozen=True)
class DelayedMatch(ResponseTask):
    """Decide whether a test equals the sample shown before a delay (Miller et al. 1996).

    Sample and test are two of `objects` objects, each with an input channel; in half of the trials they match. The
    target of the response is 1 for a match and -1 otherwise.

    >>> table = DelayedMatch(objects=3).grid().table
    >>> len(table), int(table["choice"].values.sum())
    (9, 3)
    """

    fixation: float = 300.0
    shortest_delay: float = 1000.0
    longest_delay: float = 1000.0
    stimulus: float = 500.0
    objects: int = 4

    labels: ClassVar[Mapping[str, tuple[str, ...]]] = {"choice": ("non-match", "match")}

    held: ClassVar[str] = "sample"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(2, objects=self.objects)

    @property
    def stimulus_names(self) -> tuple[str, ...]:
        return tuple(f"object {number}" for number in range(self.objects))

    def durations(self) -> dict[str, tuple[float, float]]:
        return {
            "fixation": (self.fixation, self.fixation),
            "sample": (self.stimulus, self.stimulus),
            "delay": (self.shortest_delay, self.longest_delay),
            "test": (self.stimulus, self.stimulus),
            "response": (self.response, self.response),
        }

    def levels(self) -> dict[str, Sequence[float]]:
        return {"sample": range(self.objects), "test": range(self.objects)}

    def combine(self, combinations: Mapping[str, Float[Tensor, " combinations"]]) -> Conditions:
        check_numbered(self.objects, **combinations)
        return combinations

    def draw(self, trials: int, generator: torch.Generator) -> Conditions:
        sample = torch.randint(self.objects, (trials,), generator=generator)
        another = (sample + torch.randint(1, self.objects, (trials,), generator=generator)) % self.objects
        match = torch.randint(2, (trials,), generator=generator).bool()
        return {"sample": sample.double(), "test": torch.where(match, sample, another).double()}

    def outcomes(self, conditions: Conditions) -> Conditions:
        return {"choice": (conditions["sample"] == conditions["test"]).double()}

    def show(self, conditions: Conditions, timeline: Timeline) -> Float[Tensor, "time trials channels"]:
        shown = [
            timeline.during(name).unsqueeze(2) * one_hot(conditions[name].long(), self.objects).double()
            for name in ("sample", "test")
        ]
        return shown[0] + shown[1]


@dataclass(frozen=True)
class AngleMemory(ResponseTask):
    """Report the angle of a cue after a delay, as cosine and sine (Funahashi et al. 1989).

    Angles are uniform over the circle; `grid()` shows `locations` of them. A response is right if its angle at the end
    is within 36 degrees (Yang et al. 2019) and its vector is longer than 0.5, as that of a network which reports no
    angle is not. `scores` also has the mean error in degrees.

    >>> grid = AngleMemory(locations=4).grid()
    >>> grid.table["angle"].values.tolist()
    [0.0, 90.0, 180.0, 270.0]
    >>> grid.batch.targets[-1, 1].round(decimals=3).abs().tolist()
    [0.0, 1.0]
    """

    fixation: float = 300.0
    shortest_delay: float = 1500.0
    longest_delay: float = 1500.0
    stimulus: float = 500.0
    locations: int = 8

    tolerance: ClassVar[float] = 36.0
    """Largest error in degrees of a right response."""
    shortest_vector: ClassVar[float] = 0.5
    """Least length of outputs that report an angle."""

    held: ClassVar[str] = "angle"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(1, locations=self.locations)

    @property
    def stimulus_names(self) -> tuple[str, ...]:
        return ("cosine", "sine")

    @property
    def output_names(self) -> tuple[str, ...]:
        return ("cosine", "sine")

    def durations(self) -> dict[str, tuple[float, float]]:
        return {
            "fixation": (self.fixation, self.fixation),
            "cue": (self.stimulus, self.stimulus),
            "delay": (self.shortest_delay, self.longest_delay),
            "response": (self.response, self.response),
        }

    def levels(self) -> dict[str, Sequence[float]]:
        return {"angle": [360 * number / self.locations for number in range(self.locations)]}

    def draw(self, trials: int, generator: torch.Generator) -> Conditions:
        return {"angle": 360 * torch.rand(trials, generator=generator, dtype=torch.float64)}

    def answers(self, conditions: Conditions) -> Float[Tensor, "trials output"]:
        angle = conditions["angle"] * pi / 180
        return torch.stack([angle.cos(), angle.sin()], 1)

    def show(self, conditions: Conditions, timeline: Timeline) -> Float[Tensor, "time trials channels"]:
        return timeline.during("cue").unsqueeze(2) * self.answers(conditions)

    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of right responses, and `degrees`, the mean error of the angle."""
        given, right = (self.last_outputs(values, batch) for values in (outputs, batch.targets))
        error = (torch.atan2(given[:, 1], given[:, 0]) - torch.atan2(right[:, 1], right[:, 0])).abs()
        degrees = torch.minimum(error, 2 * pi - error) * 180 / pi
        correct = (degrees <= self.tolerance) & (given.norm(dim=1) > self.shortest_vector)
        return {"accuracy": correct.float().mean().item(), "degrees": degrees.mean().item()}

    @property
    def variance(self) -> float:
        return 0.5

    def chance(self) -> float:
        """Return the part of the circle that is within the tolerance of any guess."""
        return 2 * self.tolerance / 360
