"""All fixed points in a box of up to three dimensions, by subdivision with interval arithmetic.

A box X with centre c and radius r is excluded if the residual cannot vanish there: its range does not contain 0, or the
Krawczyk operator K = c - Y f(c) + (I - Y G)(X - c) does not meet X. Here G encloses the Jacobian of the residual f over
X, and Y is an approximate inverse of its midpoint. If K lies inside X, then X contains exactly one root (Krawczyk 1969;
Neumaier 1990). Any other box is split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells.enclosure import Enclosure, Interval
from mnemoscope.lenses.dynamics import Dynamics

LARGEST = 3
"""Largest number of dimensions: the number of boxes grows exponentially with it."""
NARROWEST = 1e-9
"""A box narrower than this, relative to its coordinates if they exceed 1, stays undecided."""
COVER = 1.1
"""A box is tested for a unique root within a slightly larger one, since a root may lie on its edge."""
RADII = 2.0 ** -torch.arange(1, 34, dtype=torch.float64)
"""Radii of the boxes around a known root that are tried: the largest in which it is unique is kept."""
TIGHTENING = 4
"""Krawczyk steps that shrink the box of a root, at least by half each and soon quadratically."""
TINY = 1e-15
"""Added to radii, so that a box has an interior even where a root was met exactly."""

Boxes = Float[Tensor, "boxes 2 size"]
"""Lower and upper corners of boxes."""
ResidualEnclosure = Callable[[Tensor, Tensor], tuple[Interval, Interval]]
"""Maps boxes (low, high) to the ranges of the residual (boxes, size) and of its Jacobian (boxes, size, size)."""


@dataclass(frozen=True)
class Subdivision:
    """The outcome of a subdivision."""

    roots: Float[Tensor, "roots size"]
    """An approximation of each root that was proved; a root may lie outside the box, next to its edge."""
    tight: Float[Tensor, "roots 2 size"]
    """Lower and upper corner of a small box that contains the exact root."""
    undecided: Float[Tensor, "boxes 2 size"]
    """Lower and upper corner of each box that was neither excluded nor shown to hold a single root."""
    examined: int
    """Number of boxes that were examined."""


def residual_enclosure(dynamics: Dynamics) -> ResidualEnclosure | None:
    """Return a function that encloses the residual over boxes, or None if the cell gives no ranges of its step."""
    cell = dynamics.cell.frozen(torch.float64)
    u = dynamics.input[0].double()

    def enclose(low: Tensor, high: Tensor) -> tuple[Interval, Interval]:
        state = Enclosure.of_box(low, high)
        new = cell.enclose(state.constant(u), state)
        assert new is not None
        residual = new if dynamics.continuous else new - state
        return residual.value, residual.slope

    state = Enclosure.of_box(dynamics.origin.double(), dynamics.origin.double())
    return None if u.dim() != 1 or cell.enclose(state.constant(u), state) is None else enclose


def sampled_enclosure(dynamics: Dynamics) -> ResidualEnclosure:
    """Return a function that estimates the ranges of the residual from the corners and the centre of each box.

    It serves systems of which only values are known. The estimated range of the Jacobian is twice as wide as the
    sampled one, which is no bound: boxes that it excludes may hold a root.
    """
    size = dynamics.size
    corners = torch.cartesian_prod(*(size * [torch.tensor([0.0, 1.0], dtype=torch.float64)])).reshape(-1, size)
    places = torch.cat([torch.full((1, size), 0.5, dtype=torch.float64), corners]).to(dynamics.device)

    def enclose(low: Tensor, high: Tensor) -> tuple[Interval, Interval]:
        states = torch.lerp(low[:, None], high[:, None], places).flatten(0, 1).to(dynamics.dtype)
        f = dynamics.residual(states).double().unflatten(0, (len(low), len(places)))
        G = dynamics.residual_jacobian(states).double().unflatten(0, (len(low), len(places)))
        least, most = G.amin(1), G.amax(1)
        G_range = Interval(1.5 * least - 0.5 * most, 1.5 * most - 0.5 * least)
        swing = torch.maximum(G_range.low.abs(), G_range.high.abs()) @ (0.5 * (high - low)).unsqueeze(2)
        return Interval(f[:, 0] - swing.squeeze(2), f[:, 0] + swing.squeeze(2)), G_range

    return enclose


def subdivide(
    enclose: ResidualEnclosure,
    low: Float[Tensor, " size"],
    high: Float[Tensor, " size"],
    known: Float[Tensor, "known size"],
    budget: int,
    parts: int,
) -> Subdivision:
    """Subdivide the box until every part is excluded or holds a single root, or `budget` boxes were examined.

    Args:
        enclose: the ranges of the residual and its Jacobian over boxes.
        low: lower corner of the box.
        high: upper corner of the box.
        known: states near roots; large boxes around them are decided first.
        budget: upper limit of boxes.
        parts: number of boxes along each axis at the beginning.

    """
    found = _Roots(enclose, len(low), low)
    found.add_largest(known)
    boxes = _grid(low, high, parts)
    undecided: list[Tensor] = []
    examined = 0
    while len(boxes) and examined < budget:
        examined += len(boxes)
        boxes = boxes[~found.cover(boxes)]
        step = _krawczyk(enclose, boxes)
        boxes, step = boxes[step.possible], step.select(step.possible)
        boxes = torch.stack([torch.maximum(boxes[:, 0], step.K.low), torch.minimum(boxes[:, 1], step.K.high)], 1)
        rest = ~found.add_covering(boxes, step)
        boxes, slopes = boxes[rest], step.slopes[rest]
        narrow = _is_narrow(boxes)
        undecided.append(boxes[narrow])
        boxes = _halve(boxes[~narrow], slopes[~narrow])
    undecided.append(boxes)
    return Subdivision(*found.separated(), torch.cat(undecided), examined)


class _Roots:
    """Proved roots: for each a box in which it is the only one, and a small box that contains it."""

    def __init__(self, enclose: ResidualEnclosure, size: int, like: Tensor) -> None:
        self.enclose = enclose
        self.unique: Boxes = like.new_zeros(0, 2, size)
        self.tight: Boxes = self.unique

    def cover(self, boxes: Boxes) -> Bool[Tensor, " boxes"]:
        """Whether each box lies in the box of a root, so that it holds no other."""
        return _inside(boxes[:, None], self.unique).any(1)

    def add_largest(self, states: Float[Tensor, "known size"]) -> None:
        """Add each root at which a state lies, with the largest box that the test accepts."""
        radius = RADII[:, None].to(states) * states[:, None].abs().clamp_min(1)  # (known, radii, size)
        boxes = torch.stack([states[:, None] - radius, states[:, None] + radius], 2)
        step = _krawczyk(self.enclose, boxes.flatten(0, 1))
        proved = step.proves_root_in(boxes.flatten(0, 1)).unflatten(0, boxes.shape[:2])
        first = torch.arange(len(states), device=states.device) * len(RADII)
        chosen = (first + proved.long().argmax(1))[proved.any(1)]  # the radii fall
        self._add(boxes.flatten(0, 1)[chosen], step.K.select(chosen))

    def add_covering(self, boxes: Boxes, step: _Krawczyk) -> Bool[Tensor, " boxes"]:
        """Add the roots of boxes that slightly larger boxes with a unique root cover; return where that succeeded."""
        done = torch.zeros_like(step.contracts)
        rows = step.contracts.nonzero()[:, 0]
        if not rows.numel():
            return done
        low, high = boxes[rows].unbind(1)
        guess, centre, radius = step.K.middle[rows], 0.5 * (low + high), 0.5 * (high - low)
        reach = (guess - centre).abs() + COVER * radius + TINY
        larger = torch.stack([guess - reach, guess + reach], 1)
        test = _krawczyk(self.enclose, larger)
        proved = test.proves_root_in(larger)
        self._add(larger[proved], test.K.select(proved.nonzero()[:, 0]))
        done[rows] = proved
        return done

    def _add(self, unique: Boxes, tight: Interval) -> None:
        """Keep those that are no known root: a root that certainly lies in the box of another one is the same."""
        for box, small in zip(unique, torch.stack([tight.low, tight.high], 1), strict=True):
            if not (_inside(small, self.unique) | _inside(self.tight, box)).any():
                self.unique, self.tight = torch.cat([self.unique, box[None]]), torch.cat([self.tight, small[None]])

    def separated(self) -> tuple[Float[Tensor, "roots size"], Float[Tensor, "roots 2 size"]]:
        """Return the distinct roots and the smallest boxes that contain them."""
        found, tight = self.unique, self.tight
        for _ in range(TIGHTENING):
            K = _krawczyk(self.enclose, tight).K
            tight = torch.stack([torch.maximum(tight[:, 0], K.low), torch.minimum(tight[:, 1], K.high)], 1)
        self.unique, self.tight = found[:0], tight[:0]
        self._add(found, Interval(*tight.unbind(1)))
        return 0.5 * (self.tight[:, 0] + self.tight[:, 1]), self.tight


def _inside(inner: Float[Tensor, "... 2 size"], outer: Float[Tensor, "... 2 size"]) -> Bool[Tensor, "..."]:
    """Whether each inner box lies in the outer one."""
    return ((inner[..., 0, :] >= outer[..., 0, :]) & (inner[..., 1, :] <= outer[..., 1, :])).all(-1)


@dataclass(frozen=True)
class _Krawczyk:
    """The Krawczyk operator on boxes."""

    K: Interval
    """Every root of a box lies in K."""
    possible: Bool[Tensor, " boxes"]
    """Whether the box may hold a root: the residual may vanish, and K meets the box."""
    contracts: Bool[Tensor, " boxes"]
    """Whether the residual is nearly linear: K is narrower than the box."""
    slopes: Float[Tensor, "boxes size"]
    """How much the residual varies along each coordinate."""

    def select(self, mask: Bool[Tensor, " boxes"]) -> _Krawczyk:
        """Return some of the boxes."""
        return _Krawczyk(self.K.select(mask), self.possible[mask], self.contracts[mask], self.slopes[mask])

    def proves_root_in(self, boxes: Boxes) -> Bool[Tensor, " boxes"]:
        """Whether each box is proved to hold exactly one root: K lies in its interior."""
        return ((self.K.low > boxes[:, 0]) & (self.K.high < boxes[:, 1])).all(1)


def _krawczyk(enclose: ResidualEnclosure, boxes: Boxes) -> _Krawczyk:
    low, high = boxes.unbind(1)
    number, size = low.shape
    centre = 0.5 * (low + high)
    radius = torch.nextafter(torch.maximum(high - centre, centre - low), torch.full_like(low, torch.inf))
    f, G = enclose(torch.cat([low, centre]), torch.cat([high, centre]))
    f, f_centre, G = f.rows(0, number), f.rows(number, 2 * number), G.rows(0, number)
    eye = torch.eye(size, dtype=low.dtype, device=low.device)
    Y = torch.linalg.inv_ex(G.middle)[0]
    Y = torch.where(torch.isfinite(Y).all(2).all(1)[:, None, None], Y, eye)  # any Y gives a valid K
    spread = _swing(-G.left_multiplied(Y) + eye, radius)
    step = f_centre.unsqueeze(2).left_multiplied(Y)
    K = -Interval(step.low.squeeze(2), step.high.squeeze(2)) + centre + Interval(-spread, spread)
    # the range of the residual by the mean value theorem, where it is sharper than the direct one
    swing = _swing(G, radius)
    mean_value = f_centre + Interval(-swing, swing)
    vanishes = (torch.maximum(f.low, mean_value.low) <= 0) & (torch.minimum(f.high, mean_value.high) >= 0)
    meets = (K.low <= high) & (K.high >= low)
    return _Krawczyk(K, (vanishes & meets).all(1), (spread < 0.9 * radius).all(1), G.magnitude.sum(1))


def _swing(matrices: Interval, radius: Float[Tensor, "boxes size"]) -> Float[Tensor, "boxes size"]:
    """Return a bound on |M v| for M in the intervals and |v| <= radius."""
    return (matrices.magnitude @ radius.unsqueeze(2)).squeeze(2) * (1 + 1e-14)


def _is_narrow(boxes: Boxes) -> Bool[Tensor, " boxes"]:
    scale = boxes.abs().amax(1).clamp_min(1)
    return (boxes[:, 1] - boxes[:, 0] <= NARROWEST * scale).all(1)


def _halve(boxes: Boxes, slopes: Float[Tensor, "boxes size"]) -> Float[Tensor, "halves 2 size"]:
    """Split each box in the coordinate along which the residual varies most."""
    low, high = boxes.unbind(1)
    axis = ((high - low) * slopes).argmax(1, keepdim=True)
    middle = 0.5 * (low.gather(1, axis) + high.gather(1, axis))
    lower, upper = (
        torch.stack([low, high.scatter(1, axis, middle)], 1),
        torch.stack([low.scatter(1, axis, middle), high], 1),
    )
    return torch.cat([lower, upper])


def _grid(low: Float[Tensor, " size"], high: Float[Tensor, " size"], parts: int) -> Boxes:
    """Return the boxes of a regular grid; neighbours share their edges exactly."""
    fractions = torch.linspace(0, 1, parts + 1, dtype=low.dtype, device=low.device)
    edges = torch.lerp(low[:, None], high[:, None], fractions)  # (size, parts + 1)
    edges[:, 0], edges[:, -1] = low, high
    corners = [torch.cartesian_prod(*side).reshape(-1, len(low)) for side in (edges[:, :-1], edges[:, 1:])]
    return torch.stack(corners, 1)
