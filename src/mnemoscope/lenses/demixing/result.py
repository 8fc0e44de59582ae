"""The result of the lens on demixed components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.lenses.result import Result

LEVEL = 0.05
"""Probability below which a marginalisation counts as significant."""


@dataclass(frozen=True, repr=False)
class DemixedComponents(Result):
    """Components of a population for time alone, for each condition and for each interaction of conditions."""

    noun: ClassVar[str] = "demixed components"
    drawn_by: ClassVar[str] = "draw_demixed"

    marginals: tuple[str, ...]
    """Names of the marginalisations: "time", the conditions, and interactions as "stimulus x choice"."""
    cells: tuple[str, ...]
    """Names of the combinations of conditions."""
    centre: Float[Tensor, " units"]
    """Mean over steps and combinations."""
    decoders: Float[Tensor, "marginals components units"]
    """Directions onto which the activity is projected; not orthogonal to each other."""
    encoders: Float[Tensor, "marginals units components"]
    """Directions in which the components enter the activity."""
    traces: Float[Tensor, "marginals components time cells"]
    """Projections of the mean activity of each combination."""
    explained: Float[Tensor, "marginals components marginals"]
    """Share of the variance that each component reconstructs, split by marginalisation."""
    shares: Float[Tensor, " marginals"]
    """Share of each marginalisation in the variance of the averages, noise included."""
    penalty: float
    """Ridge, as a share of the variance of the averages."""
    trials: int
    fewest: int
    """Fewest trials of a combination, at a step, of a unit."""
    steps: tuple[int, ...]
    """Number of steps used, where every unit has trials of every combination, and number of steps recorded."""
    signal_shares: Float[Tensor, " marginals"] | None = None
    """Share of each marginalisation in the variance that two halves of the trials have in common, without noise.

    None if they have none in common, or if no trials can be left out.
    """
    errors: Float[Tensor, " penalties"] | None = None
    """Error on trials left out of every penalty that was tried."""
    agreement: Float[Tensor, "marginals components"] | None = None
    """Covariance of a component between averages and trials left out, as a share of the variance; 0 by chance."""
    probabilities: Float[Tensor, " marginals"] | None = None
    """Share of shuffles that agree with trials left out as well as the data do; NaN for time, which is not shuffled."""
    step: float | None = None
    """Duration of a step in milliseconds."""

    @property
    def demixing(self) -> Float[Tensor, "marginals components"]:
        """Share of a component's reconstructed variance that belongs to its marginalisation; 1 if purely demixed."""
        positive = self.explained.clamp_min(0)
        return torch.einsum("mkm->mk", positive) / positive.sum(2).clamp_min(1e-300)

    def decode(self, activity: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch marginals components"]:
        """Return activity, such as that of single trials, along the decoders."""
        return torch.einsum("...u,mku->...mk", activity - self.centre, self.decoders)

    def summary(self) -> str:
        shares = self.shares if self.signal_shares is None else self.signal_shares
        kind = "variance of the averages" if self.signal_shares is None else "signal variance"
        parts = ", ".join(
            f"{name} {share:.0%}" for name, share in zip(self.marginals, shares.clamp_min(0).tolist(), strict=True)
        )
        text = (
            f"{pluralise(len(self.centre), 'unit')}, {pluralise(self.trials, 'trial')} of "
            f"{pluralise(len(self.cells), 'combination')}. {kind.capitalize()}: {parts}. The first components are "
            f"demixed to {', '.join(f'{share:.0%}' for share in self.demixing[:, 0].tolist())}."
        )
        if self.steps[0] < self.steps[1]:
            text += f" Only {self.steps[0]} of {self.steps[1]} steps have enough trials of every combination."
        if self.agreement is not None and self.signal_shares is None:
            text += " Two halves of the trials share no more variance than noise would give."
        if self.probabilities is None:
            needed = "each combination needs two trials of each unit, recorded with the same other units to their end"
            reason = needed if self.agreement is None else "no shuffles were asked for"
            return f"{text} Significance is not known: {reason}."
        found = [
            f"{name} (p = {value:.2g})"
            for name, value in zip(self.marginals, self.probabilities.tolist(), strict=True)
            if value < LEVEL
        ]
        absent = [
            name for name, value in zip(self.marginals, self.probabilities.tolist(), strict=True) if value >= LEVEL
        ]
        text += f" On trials left out, better than shuffles: {', '.join(found) or 'none'}."
        return f"{text} Not shown to be encoded: {', '.join(absent)}." if absent else text
