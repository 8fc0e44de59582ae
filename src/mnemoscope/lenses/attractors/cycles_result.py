"""The result of the cycle lens: the cycles of a map, and how states leave or approach them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float, Int
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.result import Flags, Result


@dataclass(frozen=True, repr=False)
class Cycles(Result):
    """Cycles of a map, each once and with its least period; a fixed point is a cycle of period 1.

    >>> import mnemoscope as ms
    >>> logistic = ms.Dynamics(ms.adapt(lambda x, h: 3.2 * h * (1 - h), state_size=1), bounds=(0.1, 0.9))
    >>> cycles = ms.find_cycles(logistic, periods=(1, 2))
    >>> cycles.periods.tolist(), cycles.kind
    ([1, 2], ['unstable', 'stable'])
    >>> cycles.orbit(1).sort(0).values.flatten().tolist()  # (21 -+ sqrt(21)) / 32
    [0.513044..., 0.799455...]
    """

    noun: ClassVar[str] = "cycles"
    drawn_by: ClassVar[str] = "draw_cycles"

    periods: Int[Tensor, " cycles"]
    """Least period of each cycle, in steps."""
    states: Float[Tensor, "total size"]
    """States of all cycles, one cycle after the other, each in the order of time."""
    points: FixedPoints
    """The first state of each cycle as a fixed point of the iterated map, with the Jacobian of that map."""
    searched: Int[Tensor, " searches"]
    """The periods k for which the k-fold map was searched."""
    index_sums: Int[Tensor, " searches"]
    """Index sum of the fixed points of each k-fold map: 1 for the complete set if a box is mapped into itself."""
    completeness: tuple[str, ...]
    """A sentence on the implication of each of these sums."""
    open_ends: int = 0
    """Roots of k-fold maps that could not be joined to a cycle, as happens if they are degenerate."""
    families: tuple[int, ...] = ()
    """Periods of the cycles that form a continuum; the listed cycles are those that a search happened to reach."""

    def __len__(self) -> int:
        return self.periods.shape[0]

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> Cycles:
        """Make a result from saved parts; files of earlier versions omit the flags of `points`."""
        return super().unpack(tensors, {"points.continuous": False, "points.bounded": False, **flags})

    def orbit(self, cycle: int) -> Float[Tensor, "period size"]:
        """Return the states of one cycle in the order of time."""
        if not -len(self) <= cycle < len(self):
            raise IndexError(f"There are {len(self)} cycles, but number {cycle} was asked for.")
        return self.states.split(self.periods.tolist())[cycle]

    def of_period(self, period: int) -> list[int]:
        """Return the numbers of the cycles with this least period."""
        return (self.periods == period).nonzero()[:, 0].tolist()

    @property
    def multipliers(self) -> Complex[Tensor, "cycles size"]:
        """Floquet multipliers: eigenvalues of the product of the Jacobians along the cycle, largest first.

        They are exact to rounding relative to the norm of that product: much smaller ones are rounding errors.
        """
        return self.points.eigenvalues

    @property
    def kind(self) -> list[str]:
        """Stability of each cycle: stable, saddle, unstable or marginal, as for a fixed point of the iterated map."""
        return self.points.kind

    @property
    def stable(self) -> Bool[Tensor, " cycles"]:
        """Whether each cycle attracts all nearby states."""
        return torch.tensor([kind == "stable" for kind in self.kind], dtype=torch.bool)

    @property
    def growth(self) -> Float[Tensor, "cycles size"]:
        """Growth of each mode per step, log |multiplier| / period: the Lyapunov exponents of the cycle."""
        return self.points.growth / self.periods[:, None]

    @property
    def time_constants(self) -> Float[Tensor, "cycles size"]:
        """Steps in which a mode shrinks or grows by a factor e."""
        return 1 / self.growth.abs()

    def summary(self) -> str:
        """Return the result in sentences."""
        return " ".join(_sentences(self))


def _sentences(cycles: Cycles) -> Iterator[str]:
    searched = cycles.searched.tolist()
    if not len(cycles) and not cycles.families:
        yield f"No cycle of period{'s' * (len(searched) > 1)} {', '.join(map(str, searched))} was found."
    counts = Counter(zip(cycles.periods.tolist(), cycles.kind, strict=True))
    for period in sorted({*cycles.periods.tolist(), *cycles.families}):
        of_period = f" of period {period}" * (period > 1)
        noun = "fixed point" if period == 1 else "cycle"
        if period in cycles.families:
            reached = counts.pop((period, "marginal"), 0)
            yield f"A continuum of {noun}s{of_period}; the search reached {reached} of them."
        kinds = {kind: number for (other, kind), number in counts.items() if other == period}
        if kinds:
            number, parts = sum(kinds.values()), [f"{number} {kind}" for kind, number in kinds.items()]
            yield f"{number} {noun}{'s' * (number > 1)}{of_period} ({', '.join(parts)})."
    for sentence in dict.fromkeys(cycles.completeness):  # a sentence shared by several searches appears once
        steps = [str(k) for k, other in zip(searched, cycles.completeness, strict=True) if other == sentence]
        yield f"For {', '.join(steps)} step{'s' * (steps != ['1'])}: {sentence[0].lower()}{sentence[1:]}"
    if cycles.open_ends:
        yield f"{cycles.open_ends} degenerate root{'s' * (cycles.open_ends > 1)} could not be joined to a cycle."
