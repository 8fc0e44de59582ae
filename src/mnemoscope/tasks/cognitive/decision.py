"""Decisions about noisy evidence: random dots, and motion or colour by context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.cognitive.response_task import ResponseTask
from mnemoscope.tasks.cognitive.timeline import Timeline
from mnemoscope.tasks.cognitive.trial_task import Analysis, Conditions, choose, read_numbers
from mnemoscope.tasks.task import Batch


def signed(magnitudes: Sequence[float]) -> list[float]:
    """Return the numbers with both signs, in rising order.

    >>> signed([0.1, 0.2])
    [-0.2, -0.1, 0.1, 0.2]
    """
    return [-number for number in reversed(magnitudes)] + [*magnitudes]


def choice_by_sign(evidence: Float[Tensor, " trials"]) -> Float[Tensor, " trials"]:
    """Return 1 for positive and 0 for negative evidence, and NaN for none."""
    return torch.where(evidence == 0, torch.nan, (evidence > 0).double())


@dataclass(frozen=True)
class PerceptualDecision(ResponseTask):
    """Decide whether noisy dots move left or right: the sign of the mean of a noisy input.

    The input `motion` is the signed coherence plus noise while the stimulus lasts, and a network reports the sign, -1
    or 1, after a delay, when the fixation cue goes off (Britten et al. 1992; Gold & Shadlen 2007). The coherences
    double from 3.2% to 51.2%. For 0 no answer is right; `grid(coherence=[0.0])` shows it with target 0. The decision
    requires integration over time: at the default noise, a single step of the weakest motion has the right sign in 58%
    of trials.

    >>> task = PerceptualDecision()
    >>> batch = task.batch(4, seed=0, number=0)
    >>> task.input_names, batch.targets[-1].abs().max().item()
    (('fixation', 'motion'), 1.0)
    """

    noise: float = 0.05
    shortest_delay: float = 200.0
    longest_delay: float = 600.0
    coherences: str = "0.032 0.064 0.128 0.256 0.512"
    shortest_stimulus: float = 200.0
    longest_stimulus: float = 1000.0

    labels: ClassVar[Mapping[str, tuple[str, ...]]] = {"choice": ("left", "right")}

    def __post_init__(self) -> None:
        self.levels()  # raises for wrong coherences
        super().__post_init__()

    @property
    def stimulus_names(self) -> tuple[str, ...]:
        return ("motion",)

    def durations(self) -> dict[str, tuple[float, float]]:
        return {
            "fixation": (self.fixation, self.fixation),
            "stimulus": (self.shortest_stimulus, self.longest_stimulus),
            "delay": (self.shortest_delay, self.longest_delay),
            "response": (self.response, self.response),
        }

    def levels(self) -> dict[str, Sequence[float]]:
        return {"coherence": signed(read_numbers("coherences", self.coherences))}

    def draw(self, trials: int, generator: torch.Generator) -> Conditions:
        return {name: choose(values, trials, generator) for name, values in self.levels().items()}

    def outcomes(self, conditions: Conditions) -> Conditions:
        return {"choice": choice_by_sign(conditions["coherence"])}

    def show(self, conditions: Conditions, timeline: Timeline) -> Float[Tensor, "time trials channels"]:
        return (timeline.during("stimulus") * conditions["coherence"]).unsqueeze(2)


@dataclass(frozen=True)
class ContextDecision(ResponseTask):
    """Decide about motion or colour, whichever the context names (Mante et al. 2013).

    Both inputs are noisy, and two further inputs select the one that decides. The sign of its coherence is due after
    the stimulus, and 0 before it. The output does not count while the stimulus lasts, and there is no cue for the
    response. A step is 20 ms, and a delay follows the stimulus: both are choices of this library. With `from_onset` the
    sign is due from the onset of the stimulus on, so that a network reports at every step what it has integrated.

    >>> task = ContextDecision()
    >>> grid = task.grid()
    >>> task.input_names, len(grid.table)
    (('motion', 'colour', 'motion context', 'colour context'), 72)
    >>> motion, colour, choice = (grid.table[name].values[:2] for name in ("motion", "colour", "choice"))
    >>> motion.tolist(), colour.tolist(), choice.tolist()
    ([-0.5, -0.5], [-0.5, -0.5], [0.0, 0.0])
    """

    noise: float = 0.05
    shortest_delay: float = 200.0
    longest_delay: float = 200.0
    coherences: str = "0.05 0.15 0.5"
    stimulus: float = 750.0
    from_onset: bool = False

    labels: ClassVar[Mapping[str, tuple[str, ...]]] = {"context": ("motion", "colour"), "choice": ("left", "right")}
    cued: ClassVar[bool] = False

    @property
    def analysis(self) -> Analysis | None:
        found = super().analysis
        return None if found is None else replace(found, context="context", evidence=self.stimulus_names)

    def __post_init__(self) -> None:
        self.levels()  # raises for wrong coherences
        super().__post_init__()
        if self.shortest_delay != self.longest_delay:
            raise ValueError(
                f"Without a cue for the response, the delay must be the same in all trials, but is from "
                f"{self.shortest_delay:g} to {self.longest_delay:g} ms."
            )

    @property
    def stimulus_names(self) -> tuple[str, ...]:
        return ("motion", "colour")

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("motion", "colour", "motion context", "colour context")

    def durations(self) -> dict[str, tuple[float, float]]:
        return {
            "fixation": (self.fixation, self.fixation),
            "stimulus": (self.stimulus, self.stimulus),
            "delay": (self.shortest_delay, self.longest_delay),
            "response": (self.response, self.response),
        }

    def levels(self) -> dict[str, Sequence[float]]:
        coherences = signed(read_numbers("coherences", self.coherences))
        return {"motion": coherences, "colour": coherences, "context": [0.0, 1.0]}

    def draw(self, trials: int, generator: torch.Generator) -> Conditions:
        return {name: choose(values, trials, generator) for name, values in self.levels().items()}

    def outcomes(self, conditions: Conditions) -> Conditions:
        relevant = torch.where(conditions["context"] == 0, conditions["motion"], conditions["colour"])
        return {"choice": choice_by_sign(relevant)}

    def show(self, conditions: Conditions, timeline: Timeline) -> Float[Tensor, "time trials channels"]:
        shown, trial = timeline.during("stimulus"), timeline.during(*timeline.steps)
        evidence = [shown * conditions[name] for name in ("motion", "colour")]
        contexts = [trial * (conditions["context"] == context).double() for context in (0, 1)]
        return torch.stack([*evidence, *contexts], 2)

    def lay_out(self, conditions: Conditions, timeline: Timeline) -> Batch:
        batch = super().lay_out(conditions, timeline)
        if not self.from_onset:
            return batch
        trial = timeline.during(*timeline.steps)
        due = trial & (timeline.since("stimulus") >= 0)
        return batch._replace(targets=(due.unsqueeze(2) * self.answers(conditions)).float(), mask=trial)

    def baseline(self) -> float:
        """Return the loss of the best guess from the present input alone.

        After the stimulus it is 0. With `from_onset` the stimulus counts too, and a noisy input shows a part of the
        sign.
        """
        if not self.from_onset:
            return super().baseline()
        steps = {name: self.steps_of(longest) for name, (_, longest) in self.durations().items()}
        unknown = steps["stimulus"] * (1 - self._shown_by_one_step()) + steps["delay"] + steps["response"]
        return unknown / sum(steps.values())

    def _shown_by_one_step(self) -> float:
        """Return the mean square of the best guess of the sign from one noisy step of the relevant input."""
        deviation = float(self.noise_deviation[0])
        if not deviation:
            return 1.0
        coherences = torch.tensor(self.levels()["motion"], dtype=torch.float64)
        edge = float(coherences.max()) + 8 * deviation
        shown = torch.linspace(-edge, edge, 4001, dtype=torch.float64)
        density = (-((shown - coherences[:, None]) / deviation).square() / 2).exp()
        right, left = density[coherences > 0].sum(0), density[coherences < 0].sum(0)
        return float(((right - left).square() / (right + left)).sum() / (right + left).sum())
