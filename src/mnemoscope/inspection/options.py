"""Options of an inspection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import is_visible
from mnemoscope.lenses import Adaptive, Dynamics, FixedPoints, find_fixed_points

FEWEST_STEPS = 2000
"""Solver steps after which a search may end: those to 27 points of a network of 512 units are 200."""
WORK = 2e11
"""Solver steps times the cube of the size, the multiplications of a factorisation: 10 to 20 seconds of a core."""


@dataclass(frozen=True)
class InspectionOptions:
    """How to inspect a network."""

    input: Sequence[float] | None = None
    """Constant input at which to search for fixed points; zeros by default."""
    starts: int = 64
    """Starts in each wave of the search."""
    seed: int = 0
    """Seed of the search."""
    command: str = ""
    """The command that the page names as its origin."""
    progress: bool = True
    """Whether to show progress bars, on a terminal or in a notebook."""
    full: bool = False
    """Whether to run the measurements that take longer than some seconds, such as long delays of large networks."""
    text: str | None = None
    """Text on which to compute what layers that are affine in their state keep: of a run on characters, or of a
    pretrained language model, which needs one. By default, a run has test sequences of its task."""
    certify: bool = False
    """Whether to prove that the set of fixed points is complete within its box, for states of up to three numbers."""

    def constant_input(self) -> Float[Tensor, " features"] | None:
        """Return the constant input as a tensor."""
        return None if self.input is None else torch.tensor(self.input)

    def search(self, dynamics: Dynamics, pool: Float[Tensor, "starts size"] | None = None) -> FixedPoints:
        """Search for fixed points, from the states of `pool` if given.

        Without `full`, the steps of the solver are limited: a chaotic network of hundreds of units has so many fixed
        points that the search would take minutes.
        """
        limit = None if self.full else max(FEWEST_STEPS, int(WORK / dynamics.size**3))
        starts = Adaptive(pool, number=self.starts, patience=2, max_steps=limit)
        shown = self.progress and is_visible()
        return find_fixed_points(dynamics, starts, seed=self.seed, progress=shown, certify=self.certify)


DEFAULT_OPTIONS = InspectionOptions()


def refuse_fixed_point_options(options: InspectionOptions, reason: str) -> None:
    """Raise if options that concern fixed points are set; `reason` is why none are searched for."""
    if options.input is not None:
        raise ValueError(f"A constant input is for fixed points, and none are searched for; omit the input. {reason}")
    if options.certify:
        raise ValueError(f"A certificate is for fixed points, and none are searched for; omit certify. {reason}")
