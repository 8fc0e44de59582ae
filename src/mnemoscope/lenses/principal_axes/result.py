"""The result of the lens on principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.lenses.principal_axes.signal import PARTS
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class PrincipalComponents(Result):
    """Directions in which the mean activity of a population varies most, and how many of them it uses."""

    noun: ClassVar[str] = "principal components"
    drawn_by: ClassVar[str] = "draw_components"

    centre: Float[Tensor, " units"]
    """Mean over steps and combinations of conditions."""
    axes: Float[Tensor, "components units"]
    """Orthonormal directions, by falling variance."""
    variance: Float[Tensor, " all"]
    """Variance of the mean activity along every component, also those that are not kept."""
    traces: Float[Tensor, "time cells components"]
    """Mean activity of each combination of conditions along the components."""
    cells: tuple[str, ...]
    """Names of the combinations."""
    trials: int
    fewest: int
    """Fewest trials of a combination, at a step, of a unit."""
    participation: float
    """Participation ratio of the variances; noise in the averages raises it."""
    signal_share: float | None = None
    """Share of the variance of the averages that is not noise; None with fewer than four trials of a combination."""
    signal_by_component: Float[Tensor, " components"] | None = None
    """Share of the signal's variance along principal components that were fitted to other trials."""
    signal_dimension: float | None = None
    """Participation ratio of the signal, without the noise of single trials."""
    interval: tuple[float, ...] | None = None
    """95% interval of `signal_dimension` over trials (jackknife); None with too few trials or too little signal."""
    step: float | None = None
    """Duration of a step in milliseconds."""
    steps: tuple[int, ...] = ()
    """Number of steps used, which all combinations have, and number of steps recorded."""

    @property
    def share(self) -> Float[Tensor, " all"]:
        """Share of the variance of the averages along every component."""
        return self.variance / self.variance.sum()

    def project(self, activity: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch components"]:
        """Return activity, such as that of single trials, in the coordinates of the components."""
        return (activity - self.centre) @ self.axes.T

    def summary(self) -> str:
        units, shown = len(self.centre), min(3, len(self.axes))
        shares = ", ".join(f"{share:.0%}" for share in self.share[:shown].tolist())
        text = (
            f"{pluralise(units, 'unit')}, averages over {pluralise(self.trials, 'trial')} of "
            f"{pluralise(len(self.cells), 'combination')} of conditions: the first "
            f"{'component has' if shown == 1 else 'components have'} {shares} of their variance. "
            f"Participation ratio {self.participation:.3g}"
        )
        return f"{self._with_dimension(text)}{self._left_out()}"

    def _left_out(self) -> str:
        """Return a sentence on steps that were not used; "" if all were."""
        if not self.steps or self.steps[0] == self.steps[1]:
            return ""
        return (
            f" Only {self.steps[0]} of {self.steps[1]} steps are used, those at which every combination has a trial: "
            f"others end earlier. Align trials with recording.in_epoch(...) to compare a later epoch."
        )

    def _with_dimension(self, text: str) -> str:
        """Return the text with the dimension of the signal, or with the reason why it is not known."""
        if self.signal_dimension is not None:
            if self.interval is None:
                few = f"fewer than {2 * PARTS} trials of a combination"
                reason = few if self.fewest < 2 * PARTS else "trials share too little variance"
                interval = f"no interval: {reason}"
            else:
                interval = f"95% interval over trials {self.interval[0]:.3g} to {self.interval[1]:.3g}"
            return (
                f"{text}; {self.signal_dimension:.3g} without the noise of trials ({interval}). "
                f"{self.signal_share:.0%} of the variance is signal."
            )
        if self.signal_share is not None:
            return f"{text}. Trials of the same conditions share no more variance than noise would give."
        reason = f"a combination has {pluralise(self.fewest, 'trial')}" if self.fewest < 4 else "some trials lack units"
        return f"{text}, raised by any noise in the averages: it is not corrected, since {reason}."
