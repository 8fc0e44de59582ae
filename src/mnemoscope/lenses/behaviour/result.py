"""The behaviour of a network on trials, with scores by step, position and delay; and its accuracy at several spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.behaviour.scores import Kind
from mnemoscope.lenses.result import Result

FEWEST_ANSWERS = 10
"""Answers from which the mean score of a position or of a delay is shown."""


@dataclass(frozen=True, repr=False)
class Behaviour(Result):
    """Inputs, outputs and targets of some trials, and how well all trials are answered at each step."""

    noun: ClassVar[str] = "the behaviour of a network"
    drawn_by: ClassVar[str] = "draw_behaviour"

    kind: Kind
    inputs: Float[Tensor, "time trials features"] | Int[Tensor, "time trials"]
    """Inputs of the first trials, or their tokens; NaN or -1 after the end of a trial."""
    outputs: Float[Tensor, "time trials outputs"]
    """Outputs of these trials, after the readout."""
    trials: int
    """Number of trials, of which only the first are kept."""
    targets: (
        Float[Tensor, "time trials outputs"] | Bool[Tensor, "time trials outputs"] | Int[Tensor, "time trials"] | None
    ) = None
    """Values, bits or class numbers of the kept trials; None if they are unknown."""
    scored: Bool[Tensor, "time trials"] | None = None
    """Which steps of the kept trials count."""
    by_step: Float[Tensor, " time"] | None = None
    """Mean squared error of values, accuracy of bits and classes, over all trials; NaN where no trial counts."""
    score: float | None = None
    """The same over all steps."""
    uninformed: float | None = None
    """The score of the best constant answer: the variance of the values, the share of the most frequent answer."""
    by_position: Float[Tensor, " positions"] | None = None
    """Score of the first, second, ... scored step of a trial, over all trials that have it."""
    position_answers: Int[Tensor, " positions"] | None = None
    """Number of these trials."""
    by_delay: Float[Tensor, " delays"] | None = None
    """Score at steps before which the input has not changed for k = 0, 1, ... steps; NaN for a delay that does not
    occur. None if the step determines the delay."""
    delay_answers: Int[Tensor, " delays"] | None = None
    """Number of these steps, over all trials."""
    shortest: int | None = None
    """Number of steps of the shortest trial; None if all trials have the same length."""

    @property
    def score_name(self) -> str:
        """How the score is called."""
        return "mean square error" if self.kind == "values" else "accuracy"

    @property
    def positions_differ_from_steps(self) -> bool:
        """Whether some steps of some trials do not count, so that a position may be another step in every trial."""
        answers = self.position_answers
        return answers is not None and (len(answers) < len(self.inputs) or int(answers.min()) < self.trials)

    @property
    def shown_delays(self) -> Int[Tensor, " shown"] | None:
        """The delays with enough answers for a mean; None if there are fewer than three."""
        if self.delay_answers is None:
            return None
        shown = (self.delay_answers >= FEWEST_ANSWERS).nonzero().flatten()
        return shown if len(shown) > 2 else None

    @property
    def worst_step(self) -> int | None:
        """The step with the lowest accuracy or the largest error; None without targets."""
        if self.by_step is None or self.score is None:
            return None
        errors = self.by_step if self.kind == "values" else -self.by_step
        return int(errors.nan_to_num(nan=-float("inf")).argmax())

    def summary(self) -> str:
        """Return how well the trials are answered, compared with a constant answer."""
        steps = f"{len(self.inputs):,}" if self.shortest is None else f"{self.shortest:,} to {len(self.inputs):,}"
        trials = f"{self.trials:,} trial{'s' if self.trials != 1 else ''} of {steps} steps"
        if self.score is None or self.uninformed is None:
            return f"The network ran {trials}; without targets its answers are not scored."
        if self.kind == "values":
            share = f", {self.score / self.uninformed:.2%} of their variance" if self.uninformed > 0 else ""
            text = f"Over {trials}, the outputs miss the targets by a mean square of {self.score:.3g}{share}"
        else:
            text = (
                f"Over {trials}, {self.score:.2%} of the {self.kind} are right; a constant answer reaches "
                f"{self.uninformed:.2%}"
            )
        if self.score >= self.uninformed if self.kind == "values" else self.score <= self.uninformed:
            return f"{text}. That is no better than the constant answer."
        step = self.worst_step
        if self.by_step is None or step is None or not self._varies():
            return f"{text}."
        worst = float(self.by_step[step])
        return f"{text}. Step {step} is the worst, with {f'{worst:.3g}' if self.kind == 'values' else f'{worst:.2%}'}."

    def _varies(self) -> bool:
        """Whether the score differs between steps by more than rounding."""
        if self.by_step is None:
            return False
        known = self.by_step[~self.by_step.isnan()]
        return len(known) > 1 and float(known.max() - known.min()) > 1e-9


@dataclass(frozen=True, repr=False)
class SpanScores(Result):
    """Accuracy of a network at several spans of one task: longer delays, longer sequences or more items.

    >>> import torch
    >>> scores = SpanScores("delay", torch.tensor([10, 20, 40]), torch.tensor([1.0, 1.0, 0.6]).double(), 20, 64)
    >>> scores.summary()
    'The accuracy is 100.0% at a delay of 20, the longest possible in training, and 60.0% at 40, the longest measured.'
    """

    noun: ClassVar[str] = "accuracy at several spans"
    drawn_by: ClassVar[str] = "draw_spans"

    label: str
    """Name of the span: "delay", "length", "number of items"."""
    spans: Int[Tensor, " spans"]
    """The spans, increasing."""
    accuracy: Float[Tensor, " spans"]
    """Share of right answers on new trials, as the task scores them."""
    trained: int
    """The longest span in training."""
    trials: int
    """Number of trials at each span."""
    chance: Float[Tensor, " spans"] | None = None
    """Accuracy of the best memoryless predictor at each span; None if it is not known."""
    low: Float[Tensor, " spans"] | None = None
    """Lower edge of the 95% interval over trials; None if it is not known."""
    high: Float[Tensor, " spans"] | None = None
    """Upper edge."""

    def summary(self) -> str:
        """Return the accuracy at the longest span of training and at the longest of all."""
        shares = dict(zip(self.spans.tolist(), self.accuracy.tolist(), strict=True))
        longest = int(self.spans[-1])
        article = "an" if self.label[0] in "aeiou" else "a"
        known = [span for span in shares if span <= self.trained]
        if not known:
            return f"The accuracy is {shares[longest]:.1%} at {article} {self.label} of {longest}."
        within = max(known)
        named = "the longest possible in training"
        if within != self.trained:
            named += f" is {self.trained}"
        text = f"The accuracy is {shares[within]:.1%} at {article} {self.label} of {within}, {named}"
        if longest == within:
            return f"{text}."
        return f"{text}, and {shares[longest]:.1%} at {longest}, the longest measured."
