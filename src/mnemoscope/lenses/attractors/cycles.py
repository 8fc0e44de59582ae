"""The answer of the cycle lens: in which loops a map can run for ever, and how it leaves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float, Int
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cycles:
    """Cycles of a map, each once and with its least period; a fixed point is a cycle of period 1.

    >>> import mnemoscope as ms
    >>> logistic = ms.Dynamics(ms.adapt(lambda x, h: 3.2 * h * (1 - h), state_size=1), bounds=(0.1, 0.9))
    >>> cycles = ms.find_cycles(logistic, periods=(1, 2))
    >>> cycles.periods.tolist(), cycles.kind
    ([1, 2], ['unstable', 'stable'])
    >>> cycles.orbit(1).sort(0).values.flatten().tolist()  # (21 -+ sqrt(21)) / 32
    [0.513044..., 0.799455...]
    """

    periods: Int[Tensor, " cycles"]
    """The least period of each cycle, in steps."""
    states: Float[Tensor, "total size"]
    """The states of all cycles, one cycle after the other, each in the order of time."""
    points: FixedPoints
    """The first state of each cycle as a fixed point of the map of its own period, with that map's Jacobian."""
    searched: Int[Tensor, " searches"]
    """The periods k whose k-fold maps were searched."""
    index_sums: Int[Tensor, " searches"]
    """Index sum of the fixed points of each k-fold map: 1 for the complete set where a box is mapped into itself."""
    completeness: tuple[str, ...]
    """What each of these sums says, in words."""
    open_ends: int = 0
    """Roots of k-fold maps that could not be joined to a cycle, as happens where they are degenerate."""
    families: tuple[int, ...] = ()
    """Periods whose cycles lie beside each other in a continuum; those listed are the ones that a search met."""

    def __len__(self) -> int:
        return self.periods.shape[0]

    def orbit(self, cycle: int) -> Float[Tensor, "period size"]:
        """The states of one cycle in the order of time."""
        if not -len(self) <= cycle < len(self):
            raise IndexError(f"There are {len(self)} cycles, but number {cycle} was asked for.")
        return self.states.split(self.periods.tolist())[cycle]

    def of_period(self, period: int) -> list[int]:
        """The numbers of the cycles with this least period."""
        return (self.periods == period).nonzero()[:, 0].tolist()

    @property
    def multipliers(self) -> Complex[Tensor, "cycles size"]:
        """Floquet multipliers: eigenvalues of the product of the Jacobians once round the cycle, largest first.

        They are exact to rounding relative to the norm of that product: much smaller ones are rounding.
        """
        return self.points.eigenvalues

    @property
    def kind(self) -> list[str]:
        """Of each cycle: stable, saddle, unstable or marginal, as of a fixed point of the map once round."""
        return self.points.kind

    @property
    def stable(self) -> Bool[Tensor, " cycles"]:
        """Which cycles attract all states around them."""
        return torch.tensor([kind == "stable" for kind in self.kind], dtype=torch.bool)

    @property
    def growth(self) -> Float[Tensor, "cycles size"]:
        """Growth of each mode per step, log |multiplier| / period: the Lyapunov exponents of the cycle."""
        return self.points.growth / self.periods[:, None]

    @property
    def time_constants(self) -> Float[Tensor, "cycles size"]:
        """Steps in which a mode shrinks or grows by e."""
        return 1 / self.growth.abs()

    def summary(self) -> str:
        """The result in words."""
        return " ".join(_sentences(self))

    def __repr__(self) -> str:
        return f"Cycles({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Cycles.load` reads it back."""
        points = {f"points.{name}": getattr(self.points, name) for name in _POINTS}
        tensors = {name: getattr(self, name) for name in _TENSORS} | points
        flags = {"completeness": list(self.completeness), "open_ends": self.open_ends, "families": list(self.families)}
        save_result(path, "Cycles", tensors, flags)

    @classmethod
    def load(cls, path: str | Path) -> Cycles:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Cycles", "cycles")
        own: dict[str, Any] = {name: tensors[name] for name in _TENSORS}
        points: dict[str, Any] = {name: tensors[f"points.{name}"] for name in _POINTS}
        kept = FixedPoints(**points, continuous=False, bounded=False)
        words, families = tuple(flags["completeness"]), tuple(flags.get("families", ()))  # older files have none
        return cls(**own, points=kept, completeness=words, open_ends=flags["open_ends"], families=families)

    def figure(self) -> Figure:
        """Orbits in the state space and multipliers beside the unit circle (needs the `report` extra)."""
        from mnemoscope.lenses.attractors.figure import draw_cycles

        return draw_cycles(self)


_TENSORS = ("periods", "states", "searched", "index_sums")
_POINTS = ("states", "q", "jacobians", "reached", "regular")


def _sentences(cycles: Cycles) -> Iterator[str]:
    asked = cycles.searched.tolist()
    words = f"of period{'s' * (len(asked) > 1)} {', '.join(map(str, asked))}"
    if not len(cycles) and not cycles.families:
        yield f"No cycle {words} was found."
    counts = Counter(zip(cycles.periods.tolist(), cycles.kind, strict=True))
    for period in sorted({*cycles.periods.tolist(), *cycles.families}):
        of_period = f" of period {period}" * (period > 1)
        what = "fixed point" if period == 1 else "cycle"
        if period in cycles.families:
            met = counts.pop((period, "marginal"), 0)
            yield f"A continuum of {what}s{of_period}, beside each other without end; the search met {met} of them."
        kinds = {kind: number for (own, kind), number in counts.items() if own == period}
        if kinds:
            number, each = sum(kinds.values()), [f"{number} {kind}" for kind, number in kinds.items()]
            yield f"{number} {what}{'s' * (number > 1)}{of_period} ({', '.join(each)})."
    for sentence in dict.fromkeys(cycles.completeness):  # what several searches have in common is said once
        steps = [str(k) for k, own in zip(asked, cycles.completeness, strict=True) if own == sentence]
        yield f"Of {', '.join(steps)} step{'s' * (steps != ['1'])}: {sentence[0].lower()}{sentence[1:]}"
    if cycles.open_ends:
        yield f"{cycles.open_ends} degenerate root{'s' * (cycles.open_ends > 1)} could not be joined to a cycle."
