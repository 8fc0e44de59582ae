"""The result of the basin lens: shares of perturbations of each size and direction from which a network returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.bootstrap import wilson_interval
from mnemoscope.lenses.crossings import half_crossing
from mnemoscope.lenses.result import Result

MAX_SENTENCES = 8
"""Attractors that are described individually in a summary."""


@dataclass(frozen=True, repr=False)
class Basins(Result):
    """How often a network returns to each attractor after perturbations."""

    noun: ClassVar[str] = "basins"
    drawn_by: ClassVar[str] = "draw_basins"

    sizes: Float[Tensor, " sizes"]
    """Lengths of the perturbations."""
    directions: tuple[str, ...]
    """Names of the directions: "random" first, then the given ones with their signs."""
    returned: Int[Tensor, "attractors directions sizes"]
    """Number of starts that returned to the attractor."""
    elsewhere: Int[Tensor, "attractors directions sizes"]
    """Number of starts that arrived at another of the given attractors."""
    trials: Int[Tensor, "attractors directions"]
    """Number of starts of each size. In a given direction there is one for each state of the attractor."""
    numbers: Int[Tensor, " attractors"]
    """Number of each attractor among those that were given."""
    periods: Int[Tensor, " attractors"]
    """Period of each attractor; 1 for a fixed point."""
    states: Float[Tensor, "attractors size"]
    """One state of each attractor."""
    near: float
    """Distance from an attractor at which a start has arrived."""
    steps: int
    """Steps within which a start must arrive."""
    dt: float | None = None
    """Length of a step of a flow; None for a map."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def share(self) -> Float[Tensor, "attractors directions sizes"]:
        """Share of the starts that returned."""
        return self.returned / self.trials.double().unsqueeze(2)

    @property
    def undecided(self) -> Float[Tensor, "attractors directions sizes"]:
        """Share of the starts that arrived at none of the given attractors: too slow, diverged, or at another one."""
        return 1 - (self.returned + self.elsewhere) / self.trials.double().unsqueeze(2)

    @property
    def interval(self) -> tuple[Float[Tensor, "attractors sizes"], Float[Tensor, "attractors sizes"]]:
        """Lower and upper edge of the 95% confidence interval of `share` for random directions (Wilson 1927).

        In a given direction nothing is random, and `share` is exact.
        """
        return wilson_interval(self.returned[:, 0], self.trials[:, :1])

    @property
    def radius(self) -> Float[Tensor, " attractors"]:
        """Size of random perturbations at which `share` falls below one half; NaN if it does not within `sizes`."""
        crossings = [half_crossing(self.sizes, shares) for shares in self.share[:, 0]]
        return torch.tensor([torch.nan if place is None else place for place in crossings], dtype=torch.float64)

    def summary(self) -> str:
        return " ".join(_sentences(self))


def _sentences(basins: Basins) -> Iterator[str]:
    for row, radius in enumerate(basins.radius.tolist()):
        if row == MAX_SENTENCES:
            yield f"{len(basins) - row} more."
            break
        period = int(basins.periods[row])
        name = f"{'Fixed point' if period == 1 else f'Cycle of period {period},'} {int(basins.numbers[row])}"
        share, sizes = basins.share[row, 0], basins.sizes
        if radius == radius:
            yield f"{name}: half of random perturbations return up to a size of {radius:.3g}."
        elif float(share[0]) < 0.5:
            yield f"{name}: less than half of random perturbations return from a size of {float(sizes[0]):.3g} on."
        else:
            low = float(basins.interval[0][row, -1])
            yield (
                f"{name}: {float(share[-1]):.0%} of random perturbations of size {float(sizes[-1]):.3g} return "
                f"(at least {low:.0%} with 95% confidence)."
            )
        lost = [
            f"{direction} from {float(sizes[int((shares < 0.5).nonzero()[0])]):.3g} on"
            for direction, shares in zip(basins.directions[1:], basins.share[row, 1:], strict=True)
            if bool((shares < 0.5).any())
        ]
        if lost:
            yield f"Along given directions it does not return: {', '.join(lost)}."
    undecided = float(basins.undecided.max())
    if undecided:
        yield (
            f"Up to {undecided:.0%} of the starts arrived at no given attractor within {basins.steps} steps: they may "
            f"be slow, which more steps decide, or in the basin of another attractor."
        )
