"""Which marginal rests belong to one continuous attractor: those with rests all the way between them."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics

BETWEEN = 0.47
"""Where between two rests a third is looked for: not halfway, where symmetric systems have the edge of two basins."""
HALVINGS = 12
"""At most so often is the wider gap between two rests looked into."""
CLOSED = 0.03
"""Two rests are joined when no gap wider than this share of their distance is left: 6 halvings in a straight line."""
STILL = 1e-6
"""What moves by less than this share of a gap in a step has come to rest in it."""
MANY = 256
"""More gaps than these between two rests are no line: a straight one has at most 32 that are not closed yet."""
PROPOSED = 3
"""Pairs of rests that are looked at in a round: of each group, and later of each two groups."""
FRUITLESS = 3
"""Rounds over all pairs of groups that join nothing before the search ends."""
MOST = 1000
"""Pairs of rests that are looked at in a round over pairs of groups, nearest first."""


def connected(system: Dynamics, rests: Float[Tensor, "rests size"], steps: int) -> tuple[list[list[int]], bool]:
    """Groups of rests that are joined by further rests between them, and whether every two groups were looked at.

    From a state between two rests on one line, the system comes to a rest between them: the gap halves, again and
    again. Between two lines it comes to either side, and a gap stays that is as wide as the lines are apart.

    Each group is first tried with what is nearest to it. That may be another line, however often it is tried, so that
    every two groups that are left are then tried with each other, by the nearest rests of both. Groups stay apart where
    that finds no rests between; where there are more than `MOST` pairs to try in a round, only the nearest are tried.

    >>> import mnemoscope as ms
    >>> wells = lambda x, h: torch.stack([h[:, 0], torch.tanh(2 * h[:, 1])], 1)  # two lines, at y = +-0.96
    >>> states = torch.tensor([[0, 0.9575], [0.9, 0.9575], [0.1, -0.9575], [0.8, -0.9575]], dtype=torch.float64)
    >>> connected(ms.Dynamics(ms.adapt(wells, state_size=2)), states, 100)
    ([[0, 1], [2, 3]], True)

    """
    group = torch.arange(len(rests))
    once = torch.ones(len(rests), len(rests), dtype=torch.bool).triu(1)
    apart = torch.where(once, torch.cdist(rests, rests).cpu(), torch.inf)

    def try_pairs(first: Tensor, second: Tensor) -> bool:
        likely = _bridged(system, rests[first], rests[second], steps).cpu()
        apart[first[~likely], second[~likely]] = torch.inf  # decided
        first, second = _forest(first[likely], second[likely], group)
        apart[first, second] = torch.inf
        sure = _filled(system, rests[first], rests[second], steps)
        for a, b in zip(first[sure].tolist(), second[sure].tolist(), strict=True):
            group[group == group[b]] = group[a].clone()
        return bool(sure.any())

    while len((pairs := _nearest_of_groups(apart, group))[0]) and try_pairs(*pairs):
        pass
    fruitless, all_tried = 0, True
    while fruitless < FRUITLESS and len((pairs := _nearest_of_two_groups(apart, group))[0]):
        all_tried = (all_tried or fruitless == 0) and len(pairs[0]) <= MOST
        fruitless = 0 if try_pairs(*(side[:MOST] for side in pairs)) else fruitless + 1
    groups = [(group == label).nonzero()[:, 0].tolist() for label in dict.fromkeys(group.tolist())]
    return groups, all_tried or not len(_foreign(apart, group)[0])


Pairs = tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]


def _foreign(apart: Float[Tensor, "rests rests"], group: Int[Tensor, " rests"]) -> Pairs:
    """All pairs of rests of different groups that were not decided yet, nearest first."""
    first, second = (torch.isfinite(apart) & (group[:, None] != group)).nonzero().unbind(1)
    order = apart[first, second].argsort(stable=True)
    return first[order], second[order]


def _nearest_of_groups(apart: Float[Tensor, "rests rests"], group: Int[Tensor, " rests"]) -> Pairs:
    """The nearest pairs of each group with rests of any other."""
    first, second = _foreign(apart, group)
    ends = torch.stack([group[first], group[second]], 1)
    kept = (_rank(ends.flatten()).reshape(-1, 2) < PROPOSED).any(1)
    return first[kept], second[kept]


def _nearest_of_two_groups(apart: Float[Tensor, "rests rests"], group: Int[Tensor, " rests"]) -> Pairs:
    """The nearest pairs of each group with each other one, nearest first."""
    first, second = _foreign(apart, group)
    low, high = torch.minimum(group[first], group[second]), torch.maximum(group[first], group[second])
    kept = _rank(low * len(group) + high) < PROPOSED
    return first[kept], second[kept]


def _rank(labels: Int[Tensor, " some"]) -> Int[Tensor, " some"]:
    """How many equal labels stand before each."""
    order = labels.argsort(stable=True)
    counts = torch.unique_consecutive(labels[order], return_counts=True)[1]
    begin = (counts.cumsum(0) - counts).repeat_interleave(counts)
    rank = torch.empty_like(labels)
    rank[order] = torch.arange(len(labels)) - begin
    return rank


def _forest(first: Tensor, second: Tensor, group: Int[Tensor, " rests"]) -> Pairs:
    """Those of the pairs that are needed to join what all of them would join."""
    joined, kept = group.clone(), []
    for place, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if joined[a] != joined[b]:
            joined[joined == joined[b]] = joined[a].clone()
            kept.append(place)
    return first[kept], second[kept]


def _bridged(
    system: Dynamics, low: Float[Tensor, "pairs size"], high: Float[Tensor, "pairs size"], steps: int
) -> Bool[Tensor, " pairs"]:
    """Whether the wider of the gaps on both sides of a rest in between can be closed, again and again.

    Only what fails this is certain: a gap between two lines may lie on the other side, which was not looked into.
    """
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
    return gaps <= enough  # not so where a state left to infinity or became NaN


def _filled(
    system: Dynamics, low: Float[Tensor, "pairs size"], high: Float[Tensor, "pairs size"], steps: int
) -> Bool[Tensor, " pairs"]:
    """Whether all gaps can be closed, on both sides of every rest found in between."""
    pair, count = torch.arange(len(low), device=low.device), len(low)
    enough, filled = CLOSED * (low - high).norm(dim=1), torch.ones(count, dtype=torch.bool, device=low.device)
    for _ in range(HALVINGS):
        gaps = (low - high).norm(dim=1)
        wide = ~(gaps <= enough[pair])  # NaN is no rest
        filled[pair[wide].bincount(minlength=count) > MANY] = False
        wide &= filled[pair]
        low, high, pair = low[wide], high[wide], pair[wide]
        if not len(pair):
            break
        middle = _rested(system, low + BETWEEN * (high - low), STILL * gaps[wide], steps)
        low, high, pair = torch.cat([low, middle]), torch.cat([middle, high]), torch.cat([pair, pair])
    open_ = ~((low - high).norm(dim=1) <= enough[pair])
    filled[pair[open_]] = False
    return filled.cpu()


def _rested(system: Dynamics, states: Tensor, still: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        new = system(states)
        at_rest = not bool(((new - states).norm(dim=1) > still).any())  # nor is there anything to wait for in NaN
        states = new
        if at_rest:
            break
    return states
