"""Whether two trajectories move on one invariant set: gaps between them, compared with the gaps within each."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.attractors.simulation import ALIKE, Trajectories

NEAREST = 0.25
"""Quantile of the gaps that is compared: two visits to one chaotic set may differ in parts, but not everywhere; two
attractors are apart everywhere."""
WIDER = 3.0
"""Ratio of the gaps between two trajectories to those within one above which they visit two sets. In visits of
1,000 states to one set, of maps, the Lorenz flow and networks, the ratio was at most 1.8."""
FINE = 0.1
"""Gaps below this share of the spread resolve a set; those of high-dimensional chaos never do."""
CHANCE = 3.0
"""Standard errors by which two means may differ."""
MAX_STATES = 1000
"""States of each trajectory that are compared, drawn at random from longer ones."""


@dataclass
class VisitedSets:
    """The set of states that each start visits."""

    trajectories: Trajectories
    _sampled: dict[int, tuple[Tensor, float]] = field(default_factory=dict)
    _linkages: dict[int, float] = field(default_factory=dict)

    def same_chaotic_set(self, row: int, other: int) -> bool:
        """Return whether two chaotic trajectories are as near to each other as the two halves of one of them.

        If even the halves are far apart, as in many dimensions, mean and spread must agree too.
        """
        (states, gap), (other_states, other_gap) = self._states_and_gap(row), self._states_and_gap(other)
        within = max(gap, other_gap)
        apart = _distances(states, other_states)
        near = max(_gap_of_halves(apart), _gap_of_halves(apart.T)) <= WIDER * within
        spread = float(torch.minimum(self.trajectories.spread[row], self.trajectories.spread[other]))
        return near and (within <= FINE * spread or self.same_mean(row, other))

    def same_curve(self, row: int, other: int) -> bool:
        """Return whether each of two trajectories on curves or tori fits into the holes of the other.

        They may visit one curve at different phases, and a nearly periodic one leaves holes that it never visits.
        """
        apart = _distances(self._states_and_gap(row)[0], self._states_and_gap(other)[0])
        there, back = float(apart.amin(1).median()), float(apart.amin(0).median())
        return there <= self._linkage(other) and back <= self._linkage(row) and self.same_mean(row, other)

    def same_mean(self, row: int, other: int) -> bool:
        """Return whether two trajectories agree in mean and spread."""
        trajectories = self.trajectories
        apart = float((trajectories.centre[row] - trajectories.centre[other]).norm())
        spreads = sorted((float(trajectories.spread[row]), float(trajectories.spread[other])))
        chance = CHANCE * float(trajectories.centre_error[[row, other]].norm())
        return apart <= max(ALIKE * spreads[0], chance) and spreads[0] >= (1 - ALIKE) * spreads[1]

    def _states_and_gap(self, row: int) -> tuple[Float[Tensor, "states sketch"], float]:
        """Return a sample of a trajectory, and the gap between its early and its late half, the larger of both ways."""
        if row not in self._sampled:
            path = self.trajectories.path[:, row]
            if len(path) > MAX_STATES:
                drawn = torch.randperm(len(path), generator=torch.Generator().manual_seed(0))[:MAX_STATES]
                path = path[drawn.sort().values.to(path.device)]
            path = path[: len(path) // 2 * 2]
            apart = _distances(*path.chunk(2))
            self._sampled[row] = path, max(_low_quantile(apart.amin(1)), _low_quantile(apart.amin(0)))
        return self._sampled[row]

    def _linkage(self, row: int) -> float:
        """Return the longest edge of the minimum spanning tree of a trajectory: the widest hole of a curve."""
        if row not in self._linkages:
            states = self._states_and_gap(row)[0]
            apart = _distances(states, states)
            reach, longest = apart[0].clone(), 0.0
            for _ in range(len(states) - 1):  # Prim's algorithm
                reach[reach == 0] = torch.inf  # states in the tree, and their duplicates
                length, nearest = reach.min(0)
                if not bool(length < torch.inf):
                    break
                longest = max(longest, float(length))
                reach = torch.where(reach == torch.inf, reach, torch.minimum(reach, apart[nearest]))
            self._linkages[row] = longest
        return self._linkages[row]


def _gap_of_halves(apart: Float[Tensor, "states others"]) -> float:
    """Return the least gap between a half of the states and a half of the others."""
    return min(_low_quantile(part.amin(1)) for half in apart.chunk(2) for part in half.chunk(2, dim=1))


def _low_quantile(gaps: Float[Tensor, " states"]) -> float:
    return float(gaps.quantile(NEAREST))


def _distances(states: Float[Tensor, "states sketch"], others: Float[Tensor, "others sketch"]) -> Tensor:
    return torch.cdist(states, others, compute_mode="donot_use_mm_for_euclid_dist")  # exact for near states
