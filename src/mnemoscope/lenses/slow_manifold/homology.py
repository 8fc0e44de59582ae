"""Persistent homology of a cloud of points: the scales at which its pieces, loops and hollows appear and vanish.

Two points are joined at scale r if they are at most r apart, and joined points span triangles and tetrahedra
(Vietoris-Rips complex, coefficients modulo 2). A bar (birth, death) is the range of scales over which a piece (degree
0), a loop (degree 1) or a hollow (degree 2) exists. A circle has one long bar in degree 1, a sphere one in degree 2, a
torus two in degree 1 and one in degree 2.
"""

from __future__ import annotations

from itertools import combinations
from math import comb, inf

import numpy as np

Bars = np.ndarray
"""Births and deaths (bars, 2), the longest bar first; the bar of the whole cloud in degree 0 is left out."""


def persistent_homology(distances: np.ndarray, degree: int = 1, largest: float = inf) -> list[Bars]:
    """Return the bars of degree 0 up to `degree` for the pairwise distances (points, points) of a cloud.

    The complex is built up to the enclosing radius: the least scale at which one point is joined to all others, beyond
    which nothing but one piece is left. A smaller `largest` scale saves time; bars that are longer end there.

    Columns of the coboundary matrix are reduced from the last simplex to the first, and a simplex that ends a bar is
    not reduced again (clearing; de Silva, Morozov & Vejdemo-Johansson 2011).

    >>> corners = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    >>> pieces, loops = persistent_homology(pairwise_distances(corners))
    >>> pieces.tolist(), loops.round(3).tolist()
    ([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]], [[1.0, 1.414]])
    """
    if len(distances) < 2:
        return [np.zeros((0, 2)) for _ in range(degree + 1)]
    limit = min(float(distances.max(1).min()), largest)
    edges = spanning_tree(distances)
    bars = [_longest_first(np.array([[0.0, distances[i, j]] for i, j in edges]))]
    ending = set(_position(np.sort(np.array(edges), axis=1)).tolist())
    for k in range(1, degree + 1):
        found, ending = _bars_of_degree(distances, k, limit, ending)
        bars.append(_longest_first(found))
    return bars


def pairwise_distances(points: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """Return the Euclidean distances (points, others); `others` are the points themselves by default."""
    others = points if others is None else others
    squares = (points**2).sum(1)[:, None] + (others**2).sum(1) - 2 * points @ others.T
    apart = np.sqrt(np.maximum(squares, 0))
    if others is points:
        np.fill_diagonal(apart, 0)
    return apart


def spanning_tree(distances: np.ndarray) -> list[tuple[int, int]]:
    """Return the edges of a minimum spanning tree (Prim), whose lengths are the deaths in degree 0."""
    count = len(distances)
    nearest, apart, outside = np.zeros(count, int), distances[0].copy(), np.ones(count, bool)
    outside[0] = False
    edges = []
    for _ in range(count - 1):
        new = int(np.where(outside, apart, np.inf).argmin())
        edges.append((int(nearest[new]), new))
        outside[new] = False
        closer = distances[new] < apart
        nearest[closer], apart[closer] = new, distances[new][closer]
    return edges


def farthest_points(points: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of landmarks that cover a cloud: each next one is farthest from those before.

    The first is the point farthest from the mean. Fewer than `count` are returned where all other points coincide.
    """
    chosen = [int(((points - points.mean(0)) ** 2).sum(1).argmax())]
    apart = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < min(count, len(points)) and apart.max() > 0:
        chosen.append(int(apart.argmax()))
        apart = np.minimum(apart, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.array(chosen)


def _bars_of_degree(distances: np.ndarray, k: int, limit: float, ending: set[int]) -> tuple[np.ndarray, set[int]]:
    """Return the bars of degree k, and the positions of the simplices of dimension k + 1 that end one.

    `ending` holds the positions of the simplices of dimension k that end a bar of degree k - 1 and so begin none.
    """
    simplices, births = _simplices(distances, k, limit)
    fillings, deaths = _simplices(distances, k + 1, limit)
    rank = np.full(comb(len(distances), k + 2), len(fillings))
    rank[_position(fillings)] = np.arange(len(fillings))
    begins = np.array([position not in ending for position in _position(simplices).tolist()], bool)
    simplices, births = simplices[begins][::-1], births[begins][::-1]  # from the last to the first
    cofaces = _coface_ranks(simplices, len(distances), rank)
    first, absent = cofaces.min(1, initial=len(fillings)).tolist(), {len(fillings)}
    owner: dict[int, int] = {}  # row whose reduced column has this pivot
    changed: dict[int, set[int]] = {}  # reduced columns that differ from the coboundary of their simplex
    bars = []
    for row, pivot in enumerate(first):
        if pivot in owner:
            column = set(cofaces[row].tolist()) - absent
            while column and (pivot := min(column)) in owner:
                other = owner[pivot]
                column ^= changed[other] if other in changed else set(cofaces[other].tolist()) - absent
            pivot = pivot if column else len(fillings)
            changed[row] = column
        if pivot == len(fillings):
            bars.append((births[row], limit))
            continue
        owner[pivot] = row
        bars.append((births[row], deaths[pivot]))
    kept = np.array([bar for bar in bars if bar[1] > bar[0]]).reshape(-1, 2)
    return kept, set(_position(fillings[list(owner)]).tolist())


def _simplices(distances: np.ndarray, dimension: int, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the simplices (simplices, dimension + 1) with rising vertices, sorted by diameter, and their diameters."""
    vertices, near = np.arange(len(distances))[:, None], distances <= limit
    for _ in range(dimension):  # join each simplex with the later vertices that are near all of these
        joined = near[vertices].all(1) & (np.arange(len(distances)) > vertices[:, -1:])
        rows, new = np.nonzero(joined)
        vertices = np.column_stack([vertices[rows], new])
    diameters = np.zeros(len(vertices))
    for a, b in combinations(range(dimension + 1), 2):
        np.maximum(diameters, distances[vertices[:, a], vertices[:, b]], out=diameters)
    order = np.argsort(diameters, kind="stable")
    return vertices[order], diameters[order]


def _position(simplices: np.ndarray) -> np.ndarray:
    """Return the number of each simplex among all of its dimension: sum of binomials (v_i over i + 1)."""
    top = int(simplices.max(initial=0)) + 1
    position = np.zeros(len(simplices), int)
    for column in range(simplices.shape[1]):
        table = np.array([comb(vertex, column + 1) for vertex in range(top)])
        position += table[simplices[:, column]]
    return position


def _coface_ranks(simplices: np.ndarray, count: int, rank: np.ndarray) -> np.ndarray:
    """Return the rank of each simplex joined with each further vertex; the largest rank if it is not in the complex."""
    ranks = np.full((len(simplices), count), rank.max(initial=0))
    for vertex in range(count):
        free = (simplices != vertex).all(1)
        joined = np.sort(np.column_stack([simplices[free], np.full(int(free.sum()), vertex)]), axis=1)
        ranks[free, vertex] = rank[_position(joined)]
    return ranks


def _longest_first(bars: np.ndarray) -> np.ndarray:
    return bars[np.argsort(bars[:, 0] - bars[:, 1], kind="stable")]
