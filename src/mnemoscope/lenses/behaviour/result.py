"""The behaviour of a network on trials: some of them in full, and the score of every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.result import Result

Kind = Literal["values", "bits", "classes", "unknown"]
"""The kind of answers; "unknown" without targets."""


@dataclass(frozen=True, repr=False)
class Behaviour(Result):
    """Inputs, outputs and targets of some trials, and how well all trials are answered at each step."""

    noun: ClassVar[str] = "the behaviour of a network"
    drawn_by: ClassVar[str] = "draw_behaviour"

    kind: Kind
    inputs: Float[Tensor, "time trials features"]
    """Inputs of the first trials."""
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

    @property
    def worst_step(self) -> int | None:
        """The step with the lowest accuracy or the largest error; None without targets."""
        if self.by_step is None or self.score is None:
            return None
        errors = self.by_step if self.kind == "values" else -self.by_step
        return int(errors.nan_to_num(nan=-float("inf")).argmax())

    def summary(self) -> str:
        """Return how well the trials are answered, compared with a constant answer."""
        trials = f"{self.trials:,} trial{'s' if self.trials != 1 else ''} of {len(self.inputs):,} steps"
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
