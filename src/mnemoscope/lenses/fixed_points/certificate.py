"""A proof that a set of fixed points is complete within its box, for states of up to three numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.outcomes import Certificate
from mnemoscope.lenses.fixed_points.subdivision import (
    LARGEST,
    ResidualEnclosure,
    Subdivision,
    residual_enclosure,
    subdivide,
)

BOXES = 200_000
"""Upper limit of examined boxes; a few hundred are usual."""
PARTS = {1: 32, 2: 8, 3: 6}
"""Number of boxes along each axis at the beginning, by dimension."""
CHECKED = 64
"""Random boxes on which the ranges of a cell are compared with its values."""


@dataclass(frozen=True)
class Prover:
    """Interval arithmetic on one system, ready for a proof."""

    dynamics: Dynamics
    enclose: ResidualEnclosure
    low: Float[Tensor, " size"]
    """Lower corner of the box, in float64."""
    high: Float[Tensor, " size"]
    """Upper corner of the box."""

    @classmethod
    def of(cls, dynamics: Dynamics) -> Prover:
        """Return the prover of a system; raise if no proof is possible, and name the missing part."""
        if dynamics.size > LARGEST:
            raise ValueError(
                f"A certificate subdivides the box of the states, which takes too long above {LARGEST} numbers, but "
                f"this state has {dynamics.size}. Omit certify: the index sum still reveals many missing points."
            )
        if dynamics.bounds is None:
            raise ValueError(
                "A certificate proves that the set is complete within a box, but no box of this system is known. "
                "Declare one, Dynamics(network, bounds=(low, high)), or omit certify."
            )
        enclose = residual_enclosure(dynamics)
        if enclose is None:
            raise ValueError(
                f"A certificate needs the ranges of the step over boxes of states, and {type(dynamics.cell).__name__} "
                f"does not give them. Elman (with tanh, logistic, relu, linear, or modrelu with biases of at most 0), "
                f"GRU, LSTM, EchoState, stacks of these and the modules of torch.nn do; another cell can define "
                f"enclose(x, state) with the operations of mnemoscope.cells.enclosure."
            )
        prover = cls(dynamics, enclose, *(edge.double() for edge in dynamics.bounds))
        prover._check_ranges()
        return prover

    def subdivide(self, known: Float[Tensor, "known size"]) -> Subdivision:
        """Subdivide the box of the system; `known` are the roots of the catalogue."""
        return subdivide(self.enclose, self.low, self.high, known.double(), BOXES, PARTS[self.dynamics.size])

    def missing(self, subdivision: Subdivision, catalogue: Catalogue) -> Float[Tensor, "missing size"]:
        """Return the proved roots in the box that the catalogue does not contain."""
        near = self._matches(subdivision.roots, catalogue)
        inside = self.dynamics.inside(subdivision.roots.to(self.dynamics.dtype))
        return subdivision.roots[~near.any(1) & inside].to(self.dynamics.dtype)

    def certificate(self, subdivision: Subdivision, catalogue: Catalogue) -> Certificate:
        """Return the proof; a root that cannot be assigned to exactly one point stays undecided."""
        near = self._matches(subdivision.roots, catalogue)
        beyond = ((subdivision.tight[:, 1] < self.low) | (subdivision.tight[:, 0] > self.high)).any(1)
        shared = (near & (near.sum(0) > 1)).any(1)
        unassigned = ~beyond & ((near.sum(1) != 1) | shared)
        unproved = catalogue.states[~near.any(0)].double()
        undecided = [subdivision.undecided, subdivision.tight[unassigned], torch.stack([unproved, unproved], 1)]
        return Certificate(torch.cat(undecided).cpu(), subdivision.examined, self.low.cpu(), self.high.cpu())

    def _matches(self, roots: Tensor, catalogue: Catalogue) -> Tensor:
        """Whether each proved root (rows) is a point of the catalogue (columns)."""
        return torch.cdist(roots, catalogue.states.double()) <= catalogue.radius.double()

    def _check_ranges(self) -> None:
        """Raise if a value of the step leaves the range that the cell gives for it: then no proof would hold."""
        generator = torch.Generator().manual_seed(0)
        ends = torch.rand(2, CHECKED, len(self.low), generator=generator, dtype=torch.float64).to(self.low.device)
        corners = self.low + (self.high - self.low) * ends.sort(0).values
        middle = 0.5 * (corners[0] + corners[1])
        f, G = self.enclose(corners[0], corners[1])
        states = middle.to(self.dynamics.dtype)
        value, slope = self.dynamics.residual(states).double(), self.dynamics.residual_jacobian(states).double()
        rate = self.dynamics.rate if self.dynamics.continuous else 1.0
        slack = 1e-9 if self.dynamics.dtype == torch.float64 else 1e-4
        for exact, given in ((value * rate, f), (slope * rate, G)):
            margin = slack * (1 + given.magnitude)
            if not bool(((exact >= given.low - margin) & (exact <= given.high + margin)).all()):
                raise ValueError(
                    f"The ranges that {type(self.dynamics.cell).__name__}.enclose gives do not contain its step or its "
                    f"Jacobian: correct enclose, or return None from it."
                )
