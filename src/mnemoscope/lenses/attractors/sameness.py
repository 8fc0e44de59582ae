"""Whether two trajectories move on one set of states: by their gaps, beside the gaps within each of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.attractors.watching import ALIKE, Watched

NEAREST = 0.25
"""The share of the states, the nearest ones, whose gaps are compared: of two visits to one chaotic set some parts may
be apart, but not all; two attractors are apart everywhere."""
WIDER = 3.0
"""Gaps between two trajectories that are so many times those within one are between two sets. In visits of
1,000 states to one set, of maps, the Lorenz flow and networks, they were at most 1.8 times as wide."""
FINE = 0.1
"""Gaps below this share of the spread show a set in detail; those of chaos of a high dimension never do."""
CHANCE = 3.0
"""Standard errors by which two means may differ."""
MOST = 1000
"""States of each trajectory that are compared, drawn at random from longer ones."""


@dataclass
class Visits:
    """The states that each start visits, as sets."""

    seen: Watched
    _own: dict[int, tuple[Tensor, float]] = field(default_factory=dict)
    _linkages: dict[int, float] = field(default_factory=dict)

    def same_chaos(self, row: int, other: int) -> bool:
        """Whether the states of two chaotic starts are as near to each other as the two halves of one are.

        Where even these are far apart, as in many dimensions, mean and spread must agree too.
        """
        (one, gap), (two, gap_of_other) = self._halves(row), self._halves(other)
        most = max(gap, gap_of_other)
        apart = _distances(one, two)
        near = max(_gap(apart), _gap(apart.T)) <= WIDER * most
        wide = float(torch.minimum(self.seen.spread[row], self.seen.spread[other]))
        return near and (most <= FINE * wide or self.same_mean(row, other))

    def same_curve(self, row: int, other: int) -> bool:
        """Whether two starts that run on curves or tori lie within the holes of each other's states.

        They may visit it at other phases, and one that nearly repeats itself leaves holes that it never visits.
        """
        apart = _distances(self._halves(row)[0], self._halves(other)[0])
        there, back = float(apart.amin(1).median()), float(apart.amin(0).median())
        return there <= self._linkage(other) and back <= self._linkage(row) and self.same_mean(row, other)

    def same_mean(self, row: int, other: int) -> bool:
        """Whether two starts move about the same mean, and as far from it."""
        seen = self.seen
        apart = float((seen.centre[row] - seen.centre[other]).norm())
        widths = sorted((float(seen.spread[row]), float(seen.spread[other])))
        chance = CHANCE * float(seen.centre_error[[row, other]].norm())
        return apart <= max(ALIKE * widths[0], chance) and widths[0] >= (1 - ALIKE) * widths[1]

    def _halves(self, row: int) -> tuple[Float[Tensor, "states sketch"], float]:
        """States of a start, an early half and a late one, and the gap between these: the larger of both ways."""
        if row not in self._own:
            path = self.seen.path[:, row]
            if len(path) > MOST:
                drawn = torch.randperm(len(path), generator=torch.Generator().manual_seed(0))[:MOST]
                path = path[drawn.sort().values.to(path.device)]
            path = path[: len(path) // 2 * 2]
            apart = _distances(*path.chunk(2))
            self._own[row] = path, max(_low(apart.amin(1)), _low(apart.amin(0)))
        return self._own[row]

    def _linkage(self, row: int) -> float:
        """The longest link that is needed to connect all states of a start: the widest hole of a curve."""
        if row not in self._linkages:
            states = self._halves(row)[0]
            apart = _distances(states, states)
            reach, longest = apart[0].clone(), 0.0
            for _ in range(len(states) - 1):  # Prim's spanning tree
                reach[reach == 0] = torch.inf  # states that are connected, or stand for one that is
                length, nearest = reach.min(0)
                if not bool(length < torch.inf):
                    break
                longest = max(longest, float(length))
                reach = torch.where(reach == torch.inf, reach, torch.minimum(reach, apart[nearest]))
            self._linkages[row] = longest
        return self._linkages[row]


def _gap(apart: Float[Tensor, "states others"]) -> float:
    """The least gap of a half of the states to a half of the others."""
    return min(_low(part.amin(1)) for half in apart.chunk(2) for part in half.chunk(2, dim=1))


def _low(gaps: Float[Tensor, " states"]) -> float:
    return float(gaps.quantile(NEAREST))


def _distances(states: Float[Tensor, "states sketch"], others: Float[Tensor, "others sketch"]) -> Tensor:
    return torch.cdist(states, others, compute_mode="donot_use_mm_for_euclid_dist")  # exact for near states
