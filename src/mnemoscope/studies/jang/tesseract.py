"""Geometry of the memory states of an n-bit flip-flop: corners of a cube or tesseract, and their projection.

The states x_s, one for each pattern of signs s, are near `c + E s` if every bit moves them by an edge that does not
depend on the other bits. Their projection on the first n - 1 principal components is near `c' + M s`. M has n - 1
rows and n columns, so that M d = 0 for one direction d of bits: the direction of view. If k bits contribute equally to
d, and the edges have equal lengths and are orthogonal, the projected tesseract is

- for k = 1 (cell-first) a cube, whose 8 corners are pairs of states;
- for k = 2 (face-first) a cuboid with 8 states at its corners and 4 pairs halfway between them;
- for k = 3 (edge-first) a hexagonal prism with 12 states at its corners and 2 pairs inside its hexagons;
- for k = 4 (vertex-first) a rhombic dodecahedron with 14 corners and a pair at its centre.

Any d is near one of these: the cosine between |d| and k equal bits is `(sum of the k largest |d_i|) / sqrt(k)`. If the
states are exactly `c + E s`, d is the last right singular vector of E, the combination of bits along which they vary
least. With equal and orthogonal edges they vary equally along all combinations, and chance determines d.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from scipy.spatial import ConvexHull
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.studies.jang.reservoirs import corners

SHAPES = {
    3: ("square", "rectangle", "hexagon"),
    4: ("cube", "cuboid", "hexagonal prism", "rhombic dodecahedron"),
}
"""By number of bits: shape of the projected corners if one, two, ... bits contribute to the direction of view."""
CUT = 0.02
"""Share of the volume that a hull must lose without a corner for it to count; 0.04 or more in the ideal shapes."""


@dataclass(frozen=True)
class Geometry:
    """Geometry of the states of all corners."""

    bits: int
    """Number of bits."""
    edges: Float[Tensor, " bits"]
    """For each bit, mean distance between states that differ in this bit only."""
    edge_spread: float
    """Standard deviation of all those distances, relative to their mean."""
    distances: Float[Tensor, " bits"]
    """Mean distance between states that differ in 1, 2, ... bits."""
    deviations: Float[Tensor, " bits"]
    """Standard deviations of these distances."""
    angles: Float[Tensor, " pairs"]
    """Angles between the mean edges of all pairs of bits, in degrees."""
    additive: float
    """Share of the variance that `c + E s` explains."""
    variances: Float[Tensor, " bits"]
    """Shares of the variance of the first principal components, as many as bits."""
    projected: Float[Tensor, "corners components"]
    """The states in all of these components except the last."""
    direction: Float[Tensor, " bits"]
    """Direction of view d, with length 1 and a positive largest entry."""
    likeness: Float[Tensor, " bits"]
    """Cosine between d and the nearest direction of 1, 2, ... equal bits."""
    hull: int
    """Corners of the convex hull of the projection, without those that contribute less than `CUT` of its volume."""
    closest: float
    """Least distance between two projected states, relative to their mean distance."""

    @property
    def along(self) -> int:
        """Number of bits that contribute to d, by the largest likeness."""
        return int(self.likeness.argmax()) + 1

    @property
    def shape(self) -> str:
        """Shape of the projection."""
        return SHAPES[self.bits][self.along - 1]

    @property
    def last_edge(self) -> float:
        """Edge of the last bit divided by the mean edge of the others."""
        return float(self.edges[-1] / self.edges[:-1].mean())

    @property
    def last_variance(self) -> float:
        """Variance of the component that the projection omits, divided by the mean of the others."""
        return float(self.variances[-1] / self.variances[:-1].mean())


def geometry(states: Float[Tensor, "corners hidden"]) -> Geometry:
    """Measure the geometry of the states of all corners, in the order of `corners`.

    >>> geometry(corners(4) @ torch.diag(torch.tensor([3.0, 3.0, 3.0, 1.0]))).shape  # the last bit's edges are short
    'cube'
    """
    bits = _bits(states)
    signs, x = corners(bits).double(), states.double()
    x = x - x.mean(0)
    apart, differing = _distances(x, signs)
    by_bits = [apart[differing == count] for count in range(1, bits + 1)]  # each pair twice
    edges = [apart[(differing == 1) & (signs[:, None, bit] != signs[:, bit])].mean() for bit in range(bits)]
    E = x.mT @ signs / len(signs)  # least squares, since the columns of signs are orthogonal
    along = E / E.norm(dim=0)
    cosines = torch.stack([along[:, i] @ along[:, j] for i, j in combinations(range(bits), 2)])
    U, S = torch.linalg.svd(x, full_matrices=False)[:2]
    projected = U[:, : bits - 1] * S[: bits - 1]
    direction = torch.linalg.svd(projected.mT @ signs)[2][-1]
    direction = direction * direction[direction.abs().argmax()].sign()
    pairs = torch.pdist(projected)
    return Geometry(
        bits=bits,
        edges=torch.stack(edges),
        edge_spread=edge_spread(x),
        distances=torch.stack([distances.mean() for distances in by_bits]),
        deviations=torch.stack([distances.std(correction=0) for distances in by_bits]),
        angles=cosines.clamp(-1, 1).acos().rad2deg(),
        additive=float((signs @ E.mT).square().sum() / x.square().sum()),
        variances=variance_shares(x)[:bits],
        projected=projected,
        direction=direction,
        likeness=likeness(direction),
        hull=hull_corners(projected),
        closest=float(pairs.min() / pairs.mean()),
    )


def _distances(x: Float[Tensor, "corners hidden"], signs: Float[Tensor, "corners bits"]) -> tuple[Tensor, Tensor]:
    """Return the distances between all pairs of states, and in how many bits they differ."""
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist"), (signs[:, None] != signs).sum(2)


def edge_spread(states: Float[Tensor, "corners hidden"]) -> float:
    """Return the standard deviation of all distances between states that differ in one bit, relative to their mean.

    >>> edge_spread(corners(3) * torch.tensor([1.0, 1.0, 2.0]))  # edges of 2, 2 and 4
    0.3535533905932738
    """
    apart, differing = _distances(states.double(), corners(_bits(states, range(1, 11))).double())
    edges = apart[differing == 1]
    return float(edges.std(correction=0) / edges.mean())


def variance_shares(states: Float[Tensor, "corners hidden"]) -> Float[Tensor, " components"]:
    """Return the shares of the variance of the states along their principal components.

    >>> variance_shares(corners(2) * torch.tensor([1.0, 3.0])).tolist()
    [0.9, 0.1]
    """
    x = states.double()
    variances = torch.linalg.svdvals(x - x.mean(0)).square()
    return variances / variances.sum()


def likeness(directions: Float[Tensor, "*some bits"]) -> Float[Tensor, "*some bits"]:
    """Return the cosines between unit vectors and the nearest direction of 1, 2, ... equal bits.

    >>> likeness(torch.tensor([0.0, 1.0, 0.0, -1.0]) / 2**0.5).argmax().item() + 1
    2
    """
    largest = directions.abs().sort(-1, descending=True).values.cumsum(-1)
    return largest / torch.arange(1, directions.shape[-1] + 1).to(largest).sqrt()


def random_view_shares(bits: int, draws: int = 200_000) -> list[float]:
    """Return the shares of uniformly random directions that are nearest to 1, 2, ... equal bits.

    These are the probabilities of each shape for a regular tesseract, which varies equally along all directions.
    """
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(draws, bits, generator=generator, dtype=torch.float64)
    nearest = likeness(directions / directions.norm(dim=1, keepdim=True)).argmax(1)
    return (torch.bincount(nearest, minlength=bits) / draws).tolist()


def hull_corners(points: Float[Tensor, "points components"], cut: float = CUT) -> int:
    """Count the corners of the convex hull, after removing in turn the points that contribute least to its volume.

    Points that coincide with others, or lie almost within a face, are thus not counted.
    """
    left = points.numpy()
    now = whole = _volume(left)
    if not whole:
        raise ValueError(f"These {len(left)} points span less than {points.shape[1]} dimensions, so they have no hull.")
    while len(left) > points.shape[1] + 1:
        without = [_volume(np.delete(left, row, axis=0)) for row in range(len(left))]
        best = int(np.argmax(without))
        if now - without[best] > cut * whole:
            break
        left, now = np.delete(left, best, axis=0), without[best]
    return len(left)


def tesseract_edges(bits: int) -> list[tuple[int, int, int]]:
    """Return the pairs of rows of `corners` that differ in one bit only, and this bit.

    >>> tesseract_edges(2)
    [(0, 1, 1), (0, 2, 0), (1, 3, 0), (2, 3, 1)]
    """
    return [
        (row, row | 1 << place, bits - 1 - place)
        for row in range(2**bits)
        for place in range(bits)
        if not row >> place & 1
    ]


def _volume(points: np.ndarray) -> float:
    flat = np.linalg.matrix_rank(points - points.mean(0)) < points.shape[1]
    return 0.0 if flat else float(ConvexHull(points).volume)


def _bits(states: Tensor, known: Collection[int] = SHAPES) -> int:
    """Return the number of bits of the corners that states belong to, one of those that are known."""
    bits = {2**bits: bits for bits in known}.get(len(states) if states.dim() == 2 else 0)
    if bits is None:
        raise ValueError(
            f"states must have a row for every corner of {min(known)} to {max(known)} bits, but the shape is "
            f"{tuple(states.shape)}."
        )
    if not torch.isfinite(states).all():
        raise ValueError("The states contain NaN or infinite values.")
    return bits
