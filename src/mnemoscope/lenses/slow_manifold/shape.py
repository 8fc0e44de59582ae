"""The shape of a cloud of settled states: its dimension and its topology."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mnemoscope.lenses.slow_manifold.homology import (
    farthest_points,
    pairwise_distances,
    persistent_homology,
)

LANDMARKS, HOLLOW_LANDMARKS = {1: 44, 2: 80}, (56, 90)
"""Landmarks for the loops of curves and of surfaces, and for the hollows of surfaces without and with loops: a torus
has a larger area than a sphere of the same diameter."""
HOLLOW_SCALE = 0.65
"""Largest scale of hollows, as a share of the diameter; beyond it they take much time and decide nothing."""
NET = 150
"""Evenly spread states from which the dimension is read."""
NEIGHBOURHOODS = (6, 9, 12)
"""Numbers of neighbours, the scales of the local principal components."""
THICK = 0.1
"""A local principal component counts as a dimension if it has this share of the variance of the first."""
SMALL = 0.02
"""A group whose diameter is below this share of that of all states is a point."""
FEWEST = 12
"""States that a group needs for its shape to be judged."""
SUBSAMPLES, SUBSAMPLE = {1: 6, 2: 4}, 0.7
"""Number of random subsamples on which the topology is determined again, for curves and for surfaces, and the
share of the states in each."""

LOOP_RATIO, LOOP_LENGTH = {1: 2.0, 2: 1.9}, {1: 0.1, 2: 0.15}
"""A loop of a curve or of a surface is real if death / birth and its length, as a share of the diameter, are at least
this; gaps between the states of a cloud without loops stay below."""
HOLLOW_RATIO = 1.25
"""Death / birth from which a hollow of a surface is real."""
CLEAR_LOOP, CLEAR_HOLLOW = 1.6, 2.5
"""How many times longer than the next bar the shortest real bar must be."""
CLOSED = 2.5
"""A loop is closed if it is born at most at this many times the widest gap between neighbours."""

KNOWN = {
    (1, 0, False): "line",
    (1, 1, False): "ring",
    (2, 0, False): "plane",
    (2, 0, True): "sphere",
    (2, 2, True): "torus",
}
"""Topologies by dimension, number of loops and whether there is a hollow."""


@dataclass(frozen=True)
class Shape:
    """Dimension and topology of one group of states."""

    topology: str
    """point, line, ring, plane, sphere, torus, or undecided."""
    dimension: int
    reason: str = ""
    """Why the topology is undecided."""
    agreement: float = 1.0
    """Share of random subsamples of the states that have the same topology."""
    loops: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    """Longest bars of persistent homology in degree 1, as shares of the diameter."""
    hollows: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    """Longest bars in degree 2, as shares of the diameter; empty if the shape is no surface."""
    gap: float = 0.0
    """Widest gap between neighbouring landmarks, as a share of the diameter."""


def local_dimension(states: np.ndarray) -> int:
    """Return the dimension of a cloud: the median number of thick principal components among near neighbours.

    Neighbours are counted in an evenly spread net, so that states crowded at a rest point do not outvote the others.
    """
    net = states[farthest_points(states, NET)]
    apart = pairwise_distances(net)
    net = net[: max(3, int((_insertion(apart) > 1e-3 * apart.max()).sum()))]
    nearest = np.argsort(pairwise_distances(net), axis=1)
    found = []
    for number in NEIGHBOURHOODS:
        if len(net) <= number:
            break
        around = net[nearest[:, : number + 1]]
        singular = np.linalg.svd(around - around.mean(1, keepdims=True), compute_uv=False)
        found.append(float(np.median((singular**2 >= THICK * singular[:, :1] ** 2).sum(1))))
    return int(np.median(found)) if found else 0


def shape_of(states: np.ndarray, whole: float, seed: int = 0) -> Shape:
    """Return the shape of one group of states; `whole` is the diameter of all groups together."""
    diameter = float(pairwise_distances(states).max())
    if diameter <= SMALL * whole:
        return Shape("point", 0)
    if len(states) < FEWEST:
        reason = f"{len(states)} states are too few, {FEWEST} are needed: pass more starts"
        return Shape("undecided", 0, reason)
    dimension = local_dimension(states)
    if dimension == 0:
        return Shape("undecided", 0, "its states are at too few different places to have a shape: pass more starts")
    if dimension > 2:
        return Shape("undecided", dimension, f"shapes of dimension {dimension} are not distinguished")
    first = _topology(states, dimension)
    generator = np.random.default_rng(seed)
    same = 0
    for _ in range(SUBSAMPLES[dimension]):
        rows = generator.permutation(len(states))[: max(FEWEST, int(SUBSAMPLE * len(states)))]
        other = _topology(states[rows], dimension)
        same += (other.topology, other.reason) == (first.topology, first.reason)
    return Shape(
        first.topology,
        dimension,
        first.reason,
        same / SUBSAMPLES[dimension],
        first.loops / diameter,
        first.hollows / diameter,
        first.gap / diameter,
    )


def _topology(states: np.ndarray, dimension: int) -> Shape:
    net = states[farthest_points(states, LANDMARKS[dimension])]
    pieces, loops = persistent_homology(pairwise_distances(net))
    gap = float(pieces[0, 1])
    hollows = np.zeros((0, 2))
    number, clear = _count_loops(loops, dimension, gap, float(pairwise_distances(net).max()))
    if dimension == 2:
        apart = pairwise_distances(states[farthest_points(states, HOLLOW_LANDMARKS[number > 0])])
        hollows = persistent_homology(apart, 2, HOLLOW_SCALE * float(apart.max()))[2]
    if not clear:
        reason = "its loops cannot be told from gaps between the states: pass more starts"
        return Shape("undecided", dimension, reason, 1.0, loops[:6], hollows[:6], gap)
    hollow = _has_hollow(hollows)
    topology = KNOWN.get((dimension, number, hollow), "undecided")
    form = "curve" if dimension == 1 else "surface"
    reason = f"it is a {form} with {number} loop{'s' * (number != 1)}{' and a hollow' * hollow}"
    reason = reason if topology == "undecided" else ""
    return Shape(topology, dimension, reason, 1.0, loops[:6], hollows[:6], gap)


def _count_loops(loops: np.ndarray, dimension: int, gap: float, diameter: float) -> tuple[int, bool]:
    """Return the number of real loops, long and closed ones, and whether they are clearly longer than all others."""
    lengths = loops[:, 1] - loops[:, 0]
    real = (loops[:, 1] >= LOOP_RATIO[dimension] * loops[:, 0]) & (lengths >= LOOP_LENGTH[dimension] * diameter)
    real &= loops[:, 0] <= CLOSED * gap
    others = lengths[~real & (loops[:, 0] <= CLOSED * gap)]
    number = int(real.sum())
    return number, number == 0 or bool(lengths[real].min() >= CLEAR_LOOP * others.max(initial=0))


def _has_hollow(hollows: np.ndarray) -> bool:
    if not len(hollows):
        return False
    lengths = np.append(hollows[:, 1] - hollows[:, 0], 0)
    return bool(hollows[0, 1] >= HOLLOW_RATIO * hollows[0, 0] and lengths[0] >= CLEAR_HOLLOW * lengths[1])


def _insertion(apart: np.ndarray) -> np.ndarray:
    """Return the distance of each point from those before it."""
    below = np.where(np.tri(len(apart), k=-1, dtype=bool), apart, np.inf)
    return np.append(np.inf, below[1:].min(1)) if len(apart) > 1 else np.array([np.inf])
