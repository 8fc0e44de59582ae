"""How the memory states of an n-bit flip-flop lie: as the corners of a cube or tesseract, and how they look projected.

States x_s, one for each pattern of signs s, are near `c + E s` where every bit moves them by its own edge, whatever the
other bits are. Their projection on all principal components but the last of n is near `c' + M s`, with M one row
short: M d = 0 for one direction d of bits, along which the corners are seen. Where k bits take part in d alike, and the
edges are alike and orthogonal, the tesseract is seen

- k = 1, cell-first: a cube, whose 8 corners are pairs of states;
- k = 2, face-first: a cuboid with 8 states at its corners and 4 pairs halfway between them;
- k = 3, edge-first: a hexagonal prism, 12 states at its corners and 2 pairs inside its hexagons;
- k = 4, vertex-first: a rhombic dodecahedron with 14 corners and a pair at its centre.

Any d is near one of these: the cosine between |d| and k equal bits is `(sum of the k largest |d_i|) / sqrt(k)`.
Of states that are exactly `c + E s`, d is the last right singular vector of E, the combination of bits in which they
vary least. Where edges are alike and orthogonal they vary alike in all, and accidents choose the view.
"""

from __future__ import annotations

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
"""What the corners of so many bits look like when seen along one, two, ... of them."""
CUT = 0.02
"""Share of the volume that a corner of a hull must carry to count; of the ideal shapes each carries 0.04 or more."""


@dataclass(frozen=True)
class Geometry:
    """How the states of all corners lie."""

    bits: int
    edges: Float[Tensor, " bits"]
    """Mean distance of the pairs of states that differ in one bit alone, of each bit."""
    edge_spread: float
    """Standard deviation of all those distances, as a share of their mean."""
    distances: Float[Tensor, " bits"]
    """Mean distance of states that differ in 1, 2, ... bits."""
    deviations: Float[Tensor, " bits"]
    """Standard deviation of these."""
    angles: Float[Tensor, " pairs"]
    """Between the mean edges of any two bits, in degrees."""
    additive: float
    """Share of the variance that `c + E s` tells."""
    variances: Float[Tensor, " bits"]
    """Shares of the variance of as many principal components as there are bits."""
    projected: Float[Tensor, "corners components"]
    """The states in all of these components but the last."""
    direction: Float[Tensor, " bits"]
    """d, of length 1 and with a positive largest entry."""
    likeness: Float[Tensor, " bits"]
    """Cosine between d and the nearest direction of 1, 2, ... equal bits."""
    hull: int
    """Corners of the convex hull of the projection, without those that carry less than `CUT` of its volume."""
    closest: float
    """Least distance of two projected states, as a share of their mean distance."""

    @property
    def along(self) -> int:
        """Of how many bits d is, by its likeness."""
        return int(self.likeness.argmax()) + 1

    @property
    def shape(self) -> str:
        """What the projection looks like."""
        return SHAPES[self.bits][self.along - 1]

    @property
    def last_edge(self) -> float:
        """Edge of the last bit over the mean edge of the others."""
        return float(self.edges[-1] / self.edges[:-1].mean())

    @property
    def last_variance(self) -> float:
        """Variance of the component that the projection leaves out, over the mean of the others."""
        return float(self.variances[-1] / self.variances[:-1].mean())


def geometry(states: Float[Tensor, "corners hidden"]) -> Geometry:
    """Of the states of all corners, in the order of `corners`.

    >>> geometry(corners(4) @ torch.diag(torch.tensor([3.0, 3.0, 3.0, 1.0]))).shape  # the last bit's edges are short
    'cube'
    """
    bits = _bits(states)
    signs, x = corners(bits).double(), states.double()
    x = x - x.mean(0)
    apart = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    differing = (signs[:, None] != signs).sum(2)
    by_bits = [apart[differing == count] for count in range(1, bits + 1)]  # each pair twice
    own = [apart[(differing == 1) & (signs[:, None, bit] != signs[:, bit])].mean() for bit in range(bits)]
    E = x.mT @ signs / len(signs)  # least squares, since the columns of signs are orthogonal
    along = E / E.norm(dim=0)
    cosines = torch.stack([along[:, i] @ along[:, j] for i, j in combinations(range(bits), 2)])
    U, S = torch.linalg.svd(x, full_matrices=False)[:2]
    projected = U[:, : bits - 1] * S[: bits - 1]
    variance = S.square() / S.square().sum()
    direction = torch.linalg.svd(projected.mT @ signs)[2][-1]
    direction = direction * direction[direction.abs().argmax()].sign()
    pairs = torch.pdist(projected)
    return Geometry(
        bits=bits,
        edges=torch.stack(own),
        edge_spread=float(by_bits[0].std(correction=0) / by_bits[0].mean()),
        distances=torch.stack([one.mean() for one in by_bits]),
        deviations=torch.stack([one.std(correction=0) for one in by_bits]),
        angles=cosines.clamp(-1, 1).acos().rad2deg(),
        additive=float((signs @ E.mT).square().sum() / x.square().sum()),
        variances=variance[:bits],
        projected=projected,
        direction=direction,
        likeness=likeness(direction),
        hull=hull_corners(projected),
        closest=float(pairs.min() / pairs.mean()),
    )


def likeness(directions: Float[Tensor, "*some bits"]) -> Float[Tensor, "*some bits"]:
    """Cosine between directions of length 1 and the nearest direction in which 1, 2, ... bits take part alike.

    >>> likeness(torch.tensor([0.0, 1.0, 0.0, -1.0]) / 2**0.5).argmax().item() + 1
    2
    """
    largest = directions.abs().sort(-1, descending=True).values.cumsum(-1)
    return largest / torch.arange(1, directions.shape[-1] + 1).to(largest).sqrt()


def by_chance(bits: int, draws: int = 200_000) -> list[float]:
    """Of directions of uniformly random orientation, the share nearest to 1, 2, ... equal bits.

    So often a regular tesseract, which varies alike in all directions, would be seen as each of the shapes.
    """
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(draws, bits, generator=generator, dtype=torch.float64)
    nearest = likeness(directions / directions.norm(dim=1, keepdim=True)).argmax(1)
    return (torch.bincount(nearest, minlength=bits) / draws).tolist()


def hull_corners(points: Float[Tensor, "points components"], cut: float = CUT) -> int:
    """Corners of the convex hull, after those that cost least of its volume were left out one by one.

    Points that coincide, or lie within a face but for an accident, are thus not counted.
    """
    left = points.numpy()
    now = whole = _volume(left)
    if not whole:
        raise ValueError(f"These {len(left)} points lie in a flat of less than {points.shape[1]} dimensions: no hull.")
    while len(left) > points.shape[1] + 1:
        without = [_volume(np.delete(left, row, axis=0)) for row in range(len(left))]
        best = int(np.argmax(without))
        if now - without[best] > cut * whole:
            break
        left, now = np.delete(left, best, axis=0), without[best]
    return len(left)


def tesseract_edges(bits: int) -> list[tuple[int, int, int]]:
    """Pairs of rows of `corners` that differ in one bit alone, and that bit.

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


def _bits(states: Tensor) -> int:
    bits = {2**bits: bits for bits in SHAPES}.get(len(states) if states.dim() == 2 else 0)
    if bits is None:
        raise ValueError(
            f"The states of all corners of {' or '.join(map(str, SHAPES))} bits are wanted, one in each row, but the "
            f"shape is {tuple(states.shape)}."
        )
    if not torch.isfinite(states).all():
        raise ValueError("The states contain NaN or infinite values.")
    return bits
