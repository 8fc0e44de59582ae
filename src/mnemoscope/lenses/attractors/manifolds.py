"""Which marginal fixed points form one continuous attractor: those with further fixed points all along between them."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics

FRACTION = 0.47
"""Where between two points a third is searched: not halfway, where symmetric systems have their basin boundary."""
HALVINGS = 12
"""Largest number of times that the wider gap between two points is halved."""
CLOSED = 0.03
"""Two points are connected if no gap wider than this share of their distance is left: 6 halvings on a straight line."""
STILL = 1e-6
"""A state that moves by less than this share of the gap in one step has come to rest."""
MAX_GAPS = 256
"""More gaps than this between two points are no line: a straight line has at most 32 open gaps."""
PROPOSED = 3
"""Pairs of points tested per round: first for each group, later for each pair of groups."""
FRUITLESS = 3
"""Rounds over all pairs of groups that connect nothing before the search ends."""
MAX_PAIRS = 1000
"""Pairs of points tested in one round over the pairs of groups, nearest first."""


def connected_groups(
    system: Dynamics, points: Float[Tensor, "points size"], steps: int
) -> tuple[list[list[int]], bool]:
    """Return groups of points connected by further fixed points, and whether all pairs of groups were tested.

    From a state between two points on one line of fixed points, the system settles between them: the gap halves, again
    and again. Between two lines it settles on either side, and a gap as wide as their distance remains.

    Each group is first tested against its nearest neighbours. These may all belong to another line, so all remaining
    pairs of groups are tested afterwards, by their nearest points. Groups stay separate if that finds no points
    between. If a round has more than `MAX_PAIRS` pairs, only the nearest are tested.

    >>> import mnemoscope as ms
    >>> wells = lambda x, h: torch.stack([h[:, 0], torch.tanh(2 * h[:, 1])], 1)  # two lines, at y = +-0.96
    >>> states = torch.tensor([[0, 0.9575], [0.9, 0.9575], [0.1, -0.9575], [0.8, -0.9575]], dtype=torch.float64)
    >>> connected_groups(ms.Dynamics(ms.adapt(wells, state_size=2)), states, 100)
    ([[0, 1], [2, 3]], True)

    """
    group = torch.arange(len(points))
    once = torch.ones(len(points), len(points), dtype=torch.bool).triu(1)
    apart = torch.where(once, torch.cdist(points, points).cpu(), torch.inf)

    def connect(first: Tensor, second: Tensor) -> bool:
        likely = _gaps_close(system, points[first], points[second], steps, both_sides=False)
        apart[first[~likely], second[~likely]] = torch.inf  # decided
        first, second = _spanning_forest(first[likely], second[likely], group)
        apart[first, second] = torch.inf
        certain = _gaps_close(system, points[first], points[second], steps, both_sides=True)
        for a, b in zip(first[certain].tolist(), second[certain].tolist(), strict=True):
            group[group == group[b]] = group[a].clone()
        return bool(certain.any())

    while len((pairs := _nearest_of_each_group(apart, group))[0]) and connect(*pairs):
        pass
    fruitless, all_tested = 0, True
    while fruitless < FRUITLESS and len((pairs := _nearest_of_each_pair(apart, group))[0]):
        all_tested = (all_tested or fruitless == 0) and len(pairs[0]) <= MAX_PAIRS
        fruitless = 0 if connect(*(side[:MAX_PAIRS] for side in pairs)) else fruitless + 1
    groups = [(group == label).nonzero()[:, 0].tolist() for label in dict.fromkeys(group.tolist())]
    return groups, all_tested or not len(_open_pairs(apart, group)[0])


Pairs = tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]
"""First and second points of pairs."""


def _open_pairs(apart: Float[Tensor, "points points"], group: Int[Tensor, " points"]) -> Pairs:
    """Return all undecided pairs of points of different groups, nearest first."""
    first, second = (torch.isfinite(apart) & (group[:, None] != group)).nonzero().unbind(1)
    order = apart[first, second].argsort(stable=True)
    return first[order], second[order]


def _nearest_of_each_group(apart: Float[Tensor, "points points"], group: Int[Tensor, " points"]) -> Pairs:
    """Return the nearest pairs of each group with points of any other group."""
    first, second = _open_pairs(apart, group)
    ends = torch.stack([group[first], group[second]], 1)
    kept = (_rank(ends.flatten()).reshape(-1, 2) < PROPOSED).any(1)
    return first[kept], second[kept]


def _nearest_of_each_pair(apart: Float[Tensor, "points points"], group: Int[Tensor, " points"]) -> Pairs:
    """Return the nearest pairs of points of each pair of groups, nearest first."""
    first, second = _open_pairs(apart, group)
    low, high = torch.minimum(group[first], group[second]), torch.maximum(group[first], group[second])
    kept = _rank(low * len(group) + high) < PROPOSED
    return first[kept], second[kept]


def _rank(labels: Int[Tensor, " some"]) -> Int[Tensor, " some"]:
    """Return for each label how many equal labels precede it."""
    order = labels.argsort(stable=True)
    counts = torch.unique_consecutive(labels[order], return_counts=True)[1]
    begin = (counts.cumsum(0) - counts).repeat_interleave(counts)
    rank = torch.empty_like(labels)
    rank[order] = torch.arange(len(labels)) - begin
    return rank


def _spanning_forest(first: Tensor, second: Tensor, group: Int[Tensor, " points"]) -> Pairs:
    """Return the pairs that suffice to connect everything that all pairs would connect."""
    joined, kept = group.clone(), []
    for number, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if joined[a] != joined[b]:
            joined[joined == joined[b]] = joined[a].clone()
            kept.append(number)
    return first[kept], second[kept]


def _gaps_close(
    system: Dynamics, low: Float[Tensor, "pairs size"], high: Float[Tensor, "pairs size"], steps: int, both_sides: bool
) -> Bool[Tensor, " pairs"]:
    """Return whether the gaps next to each new point in between close, again and again.

    If not `both_sides`, only the wider gap next to each new point is examined, where a point may be missing. Then only
    failure is certain: a gap between two lines may lie on the other side.
    """
    pair, count = torch.arange(len(low), device=low.device), len(low)
    closed, filled = CLOSED * (low - high).norm(dim=1), torch.ones(count, dtype=torch.bool, device=low.device)
    for _ in range(HALVINGS):
        gaps = (low - high).norm(dim=1)
        wide = ~(gaps <= closed[pair])  # True if a state left to infinity or became NaN
        filled[pair[wide].bincount(minlength=count) > MAX_GAPS] = False
        wide &= filled[pair]
        low, high, pair = low[wide], high[wide], pair[wide]
        if not len(pair):
            break
        middle = _settled(system, low + FRACTION * (high - low), STILL * gaps[wide], steps)
        if both_sides:
            low, high, pair = torch.cat([low, middle]), torch.cat([middle, high]), torch.cat([pair, pair])
        else:
            lower = ((middle - low).norm(dim=1) > (middle - high).norm(dim=1))[:, None]
            low, high = torch.where(lower, low, middle), torch.where(lower, middle, high)
    still_open = ~((low - high).norm(dim=1) <= closed[pair])
    filled[pair[still_open]] = False
    return filled.cpu()


def _settled(system: Dynamics, states: Tensor, still: Tensor, steps: int) -> Tensor:
    """Run the system until every step is shorter than `still`, at most `steps` steps."""
    for _ in range(steps):
        new = system(states)
        at_rest = not bool(((new - states).norm(dim=1) > still).any())  # NaN counts as at rest: it never recovers
        states = new
        if at_rest:
            break
    return states
