"""The result of the intervention lens: an effect, and always its control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.bootstrap import Interval, ratio_interval, widen_certain, wilson_interval
from mnemoscope.lenses.result import Result

SIGNIFICANT = 0.05
"""Largest probability under random subspaces at which an effect counts as shown."""
_UNITS = {
    ("erase", "classes"): "of the answers change",
    ("erase", "bits"): "of the bits change",
    ("erase", "values"): "of the variance of outputs between sequences is the mean square of their change",
    ("swap", "classes"): "of the answers become those of the other class",
    ("swap", "bits"): "of the bits become those of the other class",
    ("swap", "values"): "of the way to the outputs of the other class is covered",
    ("transplant", "classes"): "of the answers become those of the donor",
    ("transplant", "bits"): "of the bits become those of the donor",
    ("transplant", "values"): "of the way to the outputs of the donor is covered",
}


@dataclass(frozen=True, repr=False)
class Intervention(Result):
    """Effect of a change of one subspace of the state on later answers, with random subspaces as controls.

    Every score is a ratio of two sums over sequences; the denominators are the same for the intervention and for its
    controls. For a swap or a transplant, 1 is what replacing the whole state by that of the donor achieves.
    """

    noun: ClassVar[str] = "an intervention"
    drawn_by: ClassVar[str] = "draw_intervention"

    kind: str
    """"erase", "swap" or "transplant"."""
    answers: str
    """How outputs are read: "values", "classes" or "bits"."""
    part: str
    """Name of the tensor of the state that was changed; "the state" for all of it."""
    at: int
    """Step after which the state was changed."""
    dimension: int
    """Dimension of the subspace."""
    span: int
    """Number of directions in which the states differ, from which random subspaces are drawn; those that are tested are
    left out."""
    fitted: int
    """Number of sequences that determined subspace and means, apart from those that were tested."""
    size: float
    """Mean length of the change, as a share of the distance of a state from the mean."""
    decoded: Float[Tensor, " sequences"] | None
    """1 for each tested sequence whose class is decoded from the subspace, else 0; None without a variable."""
    guessed: float | None
    """Share of the sequences in which guessing the most frequent class is right."""
    possible: Float[Tensor, "steps sequences"]
    """Denominators: the largest possible effect at each later step of each sequence."""
    reached: Float[Tensor, "steps sequences"]
    """Numerators of the intervention."""
    control: Float[Tensor, "controls steps sequences"]
    """Numerators of the controls."""
    side_possible: Float[Tensor, " sequences"]
    """Denominators of the side effects."""
    side_reached: Float[Tensor, " sequences"]
    """Numerators of the side effect: answers that change although the donor's state would not change them, or the
    squared change of outputs that does not lead to the donor's."""
    side_control: Float[Tensor, "controls sequences"]
    """The same of the controls."""

    @property
    def effect(self) -> float:
        """Effect of the intervention."""
        return float(self.reached.sum() / self.possible.sum())

    @property
    def interval(self) -> Interval:
        """Lower and upper edge of the 95% bootstrap interval of `effect`, over sequences.

        If all answers of all sequences change, or none, it is Wilson's interval of a share of the sequences, as the
        bootstrap would return a point.
        """
        return self._share_interval(self.reached.sum(0), self.possible.sum(0))

    @property
    def control_effects(self) -> Float[Tensor, " controls"]:
        """Effect of each control."""
        return self.control.sum((1, 2)) / self.possible.sum()

    @property
    def control_interval(self) -> Interval:
        """Lower and upper edge of the 95% bootstrap interval of the mean of `control_effects`, over sequences."""
        return self._share_interval(self.control.mean(0).sum(0), self.possible.sum(0))

    @property
    def excess(self) -> float:
        """Effect above the mean of the controls."""
        return self.effect - float(self.control_effects.mean())

    @property
    def excess_interval(self) -> Interval:
        """Lower and upper edge of the 95% bootstrap interval of `excess`, over sequences.

        If it is a point, as all sequences have the same effect, it is `interval` above the mean of the controls.
        """
        above = self.reached.sum(0) - self.control.mean(0).sum(0)
        low, high = ratio_interval(above, self.possible.sum(0))
        if bool(low < high):
            return low, high
        low, high = self.interval
        return low - self.control_effects.mean(), high - self.control_effects.mean()

    @property
    def side_effect(self) -> float:
        """Share of the other answers that change; for values, the squared change aside relative to that possible."""
        return float(self.side_reached.sum() / self.side_possible.sum())

    @property
    def side_interval(self) -> Interval:
        """Lower and upper edge of the 95% interval of `side_effect`, over sequences; as `interval`."""
        return self._share_interval(self.side_reached, self.side_possible)

    def _share_interval(self, reached: Float[Tensor, " sequences"], possible: Float[Tensor, " sequences"]) -> Interval:
        interval, share = ratio_interval(reached, possible), reached.sum() / possible.sum()
        return interval if self.answers == "values" else widen_certain(interval, share, (possible > 0).sum())

    @property
    def control_side_effects(self) -> Float[Tensor, " controls"]:
        """The same of each control."""
        return self.side_control.sum(1) / self.side_possible.sum()

    @property
    def exceeded(self) -> int:
        """Number of controls with at least the effect of the intervention."""
        return int((self.control_effects >= self.effect).sum())

    @property
    def p_value(self) -> float:
        """Probability that a random subspace has an effect of this size: (1 + exceeded) / (1 + controls)."""
        return (1 + self.exceeded) / (1 + len(self.control))

    @property
    def shown(self) -> bool:
        """Whether `p_value` is below 0.05, the interval of `excess` above 0, and the variable `decodable`."""
        return self.p_value < SIGNIFICANT and float(self.excess_interval[0]) > 0 and self.decodable

    @property
    def decodable(self) -> bool:
        """Whether the subspace decodes the classes better than guessing, by a 95% interval; True without a variable."""
        if self.decoded is None or self.guessed is None:
            return True
        return float(wilson_interval(self.decoded.sum(), len(self.decoded))[0]) > self.guessed

    @property
    def by_step(self) -> Float[Tensor, " steps"]:
        """Effect at each later step; NaN where no effect is possible."""
        return self.reached.sum(1) / self.possible.sum(1)

    @property
    def by_step_interval(self) -> Interval:
        """Lower and upper edges of the 95% intervals of `by_step`, over sequences; as `interval`."""
        interval = ratio_interval(self.reached.T, self.possible.T)
        return (
            interval if self.answers == "values" else widen_certain(interval, self.by_step, (self.possible > 0).sum(1))
        )

    @property
    def control_by_step(self) -> Float[Tensor, "controls steps"]:
        """The same of each control."""
        return self.control.sum(2) / self.possible.sum(1)

    @property
    def unit(self) -> str:
        """Meaning of an effect, as the end of a sentence."""
        return _UNITS[self.kind, self.answers]

    def summary(self) -> str:
        """Return the effect with that of the controls, and whether it shows anything."""
        if not float(self.possible.sum()) > 0:
            return (
                f"Nothing could be shown: at no later step would even the whole state of {self._other} change an "
                f"answer, so that there is no effect to look for."
            )
        return " ".join([self._comparison(), *self._side(), self._verdict(), *self._decoding()])

    @property
    def _other(self) -> str:
        return "a donor" if self.kind == "transplant" else "another class" if self.kind == "swap" else "the mean"

    def _comparison(self) -> str:
        low, high = (float(edge) for edge in self.interval)
        controls, (least, most) = self.control_effects, (float(edge) for edge in self.control_interval)
        directions = f"{self.dimension} direction{'s' * (self.dimension > 1)} of {self.part}"
        name = {"erase": "erased", "swap": "swapped", "transplant": "transplanted"}[self.kind]
        return (
            f"With {directions} {name} after step {self.at}, {self.effect:.1%} (95% interval {low:.1%} to {high:.1%}, "
            f"{self.reached.shape[1]} sequences) {self.unit}; with {len(controls)} random subspaces orthogonal to it, "
            f"of the same dimension and length of change, {float(controls.mean()):.1%} (95% interval {least:.1%} to "
            f"{most:.1%}; single ones from {float(controls.min()):.1%} to {float(controls.max()):.1%})."
        )

    def _side(self) -> list[str]:
        if self.kind == "erase" or not float(self.side_possible.sum()) > 0:
            return []
        controls = self.control_side_effects
        numbers = [
            self.side_effect,
            *map(float, self.side_interval),
            *map(float, (controls.mean(), *controls.aminmax())),
        ]
        if self.answers == "values":
            numbers = [number**0.5 for number in numbers]  # from squared distances to distances
        first, low, high, second, least, most = (f"{number:.1%}" for number in numbers)
        this, random = f"{first} (95% interval {low} to {high})", f"{second} (from {least} to {most})"
        if self.answers == "values":
            return [f"Outputs move aside by {this} of that way, and with random subspaces by {random}."]
        return [f"Of the other answers, {this} change, and with random subspaces {random}."]

    def _verdict(self) -> str:
        low, high = (float(edge) for edge in self.excess_interval)
        finding = "The network uses what this subspace holds" if self.shown else "Nothing was shown"
        finding = finding if self.decodable else f"{finding}, as the subspace does not hold the classes"
        return (
            f"{finding}: {self.exceeded} of {len(self.control)} controls have at least this effect (p = "
            f"{self.p_value:.2g}), and the difference from their mean is {self.excess:.1%} (95% interval {low:.1%} to "
            f"{high:.1%})."
        )

    def _decoding(self) -> list[str]:
        if self.decoded is None or self.guessed is None:
            return []
        low, high = (float(edge) for edge in wilson_interval(self.decoded.sum(), len(self.decoded)))
        return [
            f"The subspace decodes {float(self.decoded.mean()):.1%} (95% interval {low:.1%} to {high:.1%}) of the "
            f"classes of these sequences, and guessing {self.guessed:.1%}; {self.fitted} others determined it."
        ]
