"""Gaps between settled states: a continuous memory also holds the values between two visited ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.fixed_points.starts import advance
from mnemoscope.lenses.slow_manifold.homology import farthest_points, pairwise_distances, spanning_tree
from mnemoscope.lenses.slow_manifold.view import View, as_array

LANDMARKS = 80
"""Evenly spread states between which gaps are sought."""
WIDE = 0.06
"""Gaps wider than this share of the diameter are filled."""
MOST = 100
"""Gaps filled in one round, the widest first."""
TESTED = 0.02
"""States nearer than this share of the diameter are in one group; wider gaps are tested."""
ROUNDS = 3
"""Each round halves the gaps of a continuous memory."""
FRACTION = 0.45
"""Where in a gap a state is placed: not halfway, where symmetric systems have their basin boundary."""
MOMENTS = (0.25, 0.5, 1.0)
"""When a state in a gap is examined, as shares of the settling time."""
INSIDE = (0.15, 0.95)
"""A settled state lies in its gap if its distances from the nearer and the farther end, as shares of the gap, are at
least and at most this."""


@torch.no_grad()
def fill_gaps(
    view: View, states: Float[Tensor, "states size"], speed: float, steps: int
) -> Float[Tensor, "filled size"]:
    """Return slow states that lie in the gaps between settled states.

    A state between two neighbours settles. It is kept at the last of a few moments, up to the time for which its
    neighbours settled, at which it is slow and still between them: near an unstable place of the manifold it drifts out
    of the gap, as the states of the starts did. Between isolated memories it is fast until it reaches one of the two,
    so their gap stays.
    """
    filled = states[:0]
    for _ in range(ROUNDS):
        cloud = torch.cat([states, filled])
        net = cloud[farthest_points(as_array(view(cloud)), LANDMARKS).tolist()]
        pairs = neighbours(as_array(view(net)))
        ends = net[pairs[:, 0].tolist()], net[pairs[:, 1].tolist()]
        if not len(pairs):
            break
        found, inside = _settled_between(view, *ends, speed, steps)
        if not bool(inside.any()):
            break
        filled = torch.cat([filled, found[inside]])
    return filled


@torch.no_grad()
def separate_groups(
    view: View, states: Float[Tensor, "states size"], speed: float, steps: int
) -> Int[np.ndarray, " states"]:
    """Return the group of each state, numbered from the largest group to the smallest.

    The states fall apart at edges of their minimum spanning tree (H0 of persistent homology) that are wide and have no
    slow states between their ends: isolated memories.
    """
    apart = pairwise_distances(as_array(view(states)))
    edges = np.array(spanning_tree(apart)).reshape(-1, 2)
    wide = apart[edges[:, 0], edges[:, 1]] > TESTED * apart.max()
    ends = states[edges[wide, 0].tolist()], states[edges[wide, 1].tolist()]
    connected = ~wide
    connected[wide] = _stays_between(view, *ends, speed, steps).cpu().numpy()
    label = np.arange(len(states))
    for a, b in edges[connected]:
        label[label == label[b]] = label[a]
    names, place, sizes = np.unique(label, return_inverse=True, return_counts=True)
    rank = np.empty(len(names), int)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(names))
    return rank[place]


def _settled_between(
    view: View, low: Float[Tensor, "pairs size"], high: Float[Tensor, "pairs size"], speed: float, steps: int
) -> tuple[Float[Tensor, "pairs size"], Bool[Tensor, " pairs"]]:
    """Return a slow state between the two states of each pair, and whether there is one."""
    state = found = _placed(view, low, high)
    inside, time = torch.zeros(len(low), dtype=torch.bool, device=low.device), 0
    for share in MOMENTS:
        state, time = advance(view.system, state, int(share * steps) - time), int(share * steps)
        now = _is_between(view(state), view(low), view(high)) & (view.speed(state) <= speed)
        found, inside = torch.where(now[:, None], state, found), inside | now
    return found, inside


def _stays_between(
    view: View, low: Float[Tensor, "pairs size"], high: Float[Tensor, "pairs size"], speed: float, steps: int
) -> Bool[Tensor, " pairs"]:
    """Return whether a state between two others stays between them while all three move, and is slow.

    Drift along a curve keeps the order of states, so that the test does not depend on how wide the gap is.
    """
    state, low, high = (advance(view.system, states, steps) for states in (_placed(view, low, high), low, high))
    return _is_between(view(state), view(low), view(high)) & (view.speed(state) <= speed)


def _placed(view: View, low: Tensor, high: Tensor) -> Tensor:
    """Return states between two others; around an oscillation, only the mean is moved."""
    return low + FRACTION * (view(high) - view(low))


def _is_between(state: Tensor, low: Tensor, high: Tensor) -> Tensor:
    apart = torch.stack([(state - end).norm(dim=1) for end in (low, high)]) / (low - high).norm(dim=1)
    return (apart.min(0).values >= INSIDE[0]) & (apart.max(0).values <= INSIDE[1])


def neighbours(points: np.ndarray) -> np.ndarray:
    """Return pairs of relative neighbours (pairs, 2) that are wide apart: no third point is nearer to both.

    These pairs contain the minimum spanning tree, and the closing gap of a ring.

    >>> neighbours(np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])).tolist()
    [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    apart = pairwise_distances(points)
    between = np.maximum(apart[:, None, :], apart[None, :, :])  # of a third point, from the farther of two
    np.einsum("iji->ij", between)[:] = np.inf
    np.einsum("ijj->ij", between)[:] = np.inf
    empty = (between.min(2) >= apart) & (apart > WIDE * apart.max())
    pairs = np.argwhere(np.triu(empty, 1))
    widest = np.argsort(-apart[pairs[:, 0], pairs[:, 1]], kind="stable")[:MOST]
    return pairs[np.sort(widest)]
