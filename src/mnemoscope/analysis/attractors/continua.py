"""Which marginal rests belong to one continuous attractor: those with rests all the way between them."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.shapes import Bool, Float

BETWEEN = 0.47
"""Where between two rests a third is looked for: not halfway, where symmetric systems have the edge of two basins."""
HALVINGS = 12
"""At most so often is the wider gap between two rests looked into."""
CLOSED = 0.03
"""Two rests are joined when no gap wider than this share of their distance is left: 6 halvings in a straight line."""
STILL = 1e-6
"""What moves by less than this share of a gap in a step has come to rest in it."""
PROPOSED = 3
"""Pairs that are looked at for each group of rests in a round."""
FRUITLESS = 3
"""Rounds that join nothing before the search ends."""


def connected(system: Dynamics, rests: Float[Tensor, "rests size"], steps: int) -> list[list[int]]:
    """Groups of rests that are joined by further rests between them, nearest pairs first.

    From a state between two rests on one line, the system comes to a rest between them: the gap halves, again and
    again. Between two lines it comes to either side, and a gap stays that is as wide as the lines are apart.

    >>> import mnemoscope as ms
    >>> wells = lambda x, h: torch.stack([h[:, 0], torch.tanh(2 * h[:, 1])], 1)  # two lines, at y = +-0.96
    >>> states = torch.tensor([[0, 0.9575], [0.9, 0.9575], [0.1, -0.9575], [0.8, -0.9575]], dtype=torch.float64)
    >>> connected(ms.Dynamics(ms.adapt(wells, state_size=2)), states, 100)
    [[0, 1], [2, 3]]

    """
    group = torch.arange(len(rests))
    apart = torch.cdist(rests, rests).cpu()
    fruitless = 0
    while fruitless < FRUITLESS and (pairs := _proposed(apart, group)):
        first, second = (list(side) for side in zip(*pairs, strict=True))
        apart[first, second] = apart[second, first] = torch.inf  # looked at
        joined = _bridged(system, rests[first], rests[second], steps).tolist()
        for a, b, yes in zip(first, second, joined, strict=True):
            if yes:
                group[group == group[b]] = group[a].clone()
        fruitless = 0 if any(joined) else fruitless + 1
    return [(group == label).nonzero()[:, 0].tolist() for label in dict.fromkeys(group.tolist())]


def _proposed(apart: Float[Tensor, "rests rests"], group: Tensor) -> list[tuple[int, int]]:
    """The nearest pairs of each group with rests of others."""
    others = torch.where(group[:, None] == group, torch.inf, apart)
    pairs: set[tuple[int, int]] = set()
    for label in group.unique().tolist():
        rows = (group == label).nonzero()[:, 0]
        own = others[rows].flatten()
        for place in own.topk(min(PROPOSED, len(own)), largest=False).indices.tolist():
            if own[place] < torch.inf:
                one, other = int(rows[place // len(apart)]), place % len(apart)
                pairs.add((min(one, other), max(one, other)))
    return sorted(pairs)


def _bridged(
    system: Dynamics, low: Float[Tensor, "pairs size"], high: Float[Tensor, "pairs size"], steps: int
) -> Bool[Tensor, " pairs"]:
    low, high = low.clone(), high.clone()
    gaps = (low - high).norm(dim=1)
    enough = CLOSED * gaps
    for _ in range(HALVINGS):
        wide = (gaps > enough).nonzero()[:, 0]
        if not len(wide):
            break
        a, b = low[wide], high[wide]
        middle = _rested(system, a + BETWEEN * (b - a), STILL * gaps[wide], steps)
        to_low, to_high = (middle - a).norm(dim=1), (middle - b).norm(dim=1)
        lower = (to_low > to_high)[:, None]  # the wider of both gaps is where something may be missing
        low[wide], high[wide] = torch.where(lower, a, middle), torch.where(lower, middle, b)
        gaps[wide] = torch.maximum(to_low, to_high)
    return gaps <= enough  # not so where a state left to infinity


def _rested(system: Dynamics, states: Tensor, still: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        new = system(states)
        at_rest = bool(((new - states).norm(dim=1) <= still).all())
        states = new
        if at_rest:
            break
    return states
