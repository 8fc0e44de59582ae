"""The roots found so far: tells new from known, and recognises early where an iteration is going."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import inverse_and_sign

BASIN = 0.25
"""A start seems bound for a known root r when one simplified Newton step from it, with r's own Jacobian, lands within
this fraction of its distance to r. It is when further such steps really arrive there."""
ARRIVAL = 20
"""Upper limit of such steps; each must shrink the distance to 0.6, and most shrink it by far more."""

SKETCH = 16
"""Number of random combinations that stand for the whole offset at first sight."""

BUNCH = 1e-3
"""Nearly converged states closer than this (rms) are refined once for all of them."""
LARGE = 128
"""From this size on, inverses are multiplied by one at a time: to gather them would cost more than to use them."""
REFINEMENTS = 20
"""Upper limit of simplified Newton steps on a nearly converged state."""


class Catalogue:
    """Distinct roots of `dynamics.residual`. Two converged states are one root if they are closer than `distance`
    (rms, relative to states larger than 1), or than their own uncertainty where the root is degenerate.
    """

    def __init__(self, dynamics: Dynamics, distance: float = 1e-6) -> None:
        self.dynamics = dynamics
        self.distance = distance
        none = dynamics.origin.new_zeros(0)
        self.states: Float[Tensor, "roots size"] = none.reshape(0, dynamics.size)
        self.q: Float[Tensor, " roots"] = none
        self.blur: Float[Tensor, " roots"] = none
        """How far off a root may still be."""
        self.reach: Float[Tensor, " roots"] = none
        """Within this distance of a root, a state is the same."""
        self.index: Int[Tensor, " roots"] = none.long()
        """Sign det(-residual') of roots that are isolated for certain, 0 of others."""
        self._room = none.reshape(0, dynamics.size, dynamics.size)
        self._inverses = self._room  # as much of it as is used: to copy all inverses for each new one would take longer
        generator = torch.Generator().manual_seed(0)
        mix = torch.randn(SKETCH, dynamics.size, generator=generator, dtype=dynamics.dtype) / SKETCH**0.5
        self._mix = mix.to(dynamics.device)
        self._sketches = none.reshape(0, SKETCH, dynamics.size)
        self._inverse_of: Int[Tensor, " roots"] = none.long()
        """Where the inverse of a root stands; -1 where it is not kept, since it says nothing of its surroundings."""

    def __len__(self) -> int:
        return self.states.shape[0]

    @property
    def index_sum(self) -> int:
        return int(self.index.sum())

    @property
    def regular(self) -> int:
        """How many roots are isolated for certain."""
        return int(self.index.count_nonzero())

    def offer(self, states: Float[Tensor, "batch size"], fixed: float) -> Int[Tensor, " batch"]:
        """The root that each of these nearly converged states leads to, or -1 if it leads to none with q <= `fixed`.

        One of each bunch is refined by simplified Newton steps, which reuse one inverse, and entered if it is new; the
        others are recognised by it.
        """
        apart = torch.cdist(states, states) > BUNCH * self.dynamics.size**0.5
        first = apart.logical_not().to(torch.int8).argmax(1)  # of each bunch: a state near no earlier one
        chosen = states[first == torch.arange(len(first), device=first.device)]
        for part in chosen.split(max(1, 2**20 // self.dynamics.size**2)):  # some 8 MB of Jacobians
            self._enter(part, fixed)
        return self.confirmed(states, self.recognise(states, self.dynamics.residual(states)))

    def recognise(
        self, states: Float[Tensor, "batch size"], residuals: Float[Tensor, "batch size"]
    ) -> Int[Tensor, " batch"]:
        """The known root that each state seems bound for, or -1: a simplified Newton step, with the root's own
        Jacobian, would land near it, as far as random combinations of the coordinates tell. `confirm` makes sure.
        """
        if not len(self):
            return torch.full((states.shape[0],), -1, dtype=torch.int64, device=states.device)
        nearest = torch.cdist(states, self.states).argmin(1)
        offset = states - self.states[nearest]
        length = _length(offset)
        near = length <= self.reach[nearest]
        if len(self._sketches):  # to read whole inverses here would cost more than all the rest
            kept = self._inverse_of[nearest]
            landing = offset @ self._mix.mT - _times(self._sketches[kept.clamp_min(0)], residuals)
            near |= (kept >= 0) & (_length(landing) <= BASIN * length)
        return torch.where(near, nearest, -1)

    def confirm(self, states: Float[Tensor, "batch size"], root: Int[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
        """Whether simplified Newton steps, with the root's own Jacobian, really lead from each state to its root.

        One step alone would overlook a second root nearby, hidden by the stiffest directions.
        """
        offset = states - self.states[root]
        length, reach = _length(offset), self.reach[root]
        arrived = length <= reach
        rows = (~arrived & (self._inverse_of[root] >= 0)).nonzero()[:, 0]
        if rows.numel():
            arrived[rows] = self._arrives(offset[rows], root[rows])
        return arrived

    def confirmed(self, states: Float[Tensor, "batch size"], root: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """The roots that `recognise` saw, and -1 in place of those that are not confirmed."""
        found = (root >= 0).nonzero()[:, 0]
        root[found] = torch.where(self.confirm(states[found], root[found]), root[found], -1)
        return root

    def _arrives(self, offset: Tensor, root: Tensor) -> Bool[Tensor, " batch"]:
        target, reach, length = self.states[root], self.reach[root], _length(offset)
        times = self._inverses_times(self._inverse_of[root])
        going = torch.ones_like(length, dtype=torch.bool)
        for _ in range(ARRIVAL):
            # Where the residual is linear around the root, inverse @ residual is the offset from it.
            offset = offset - times(self.dynamics.residual(target + offset), going & (length > reach))
            shorter = _length(offset)
            going &= (shorter <= 0.6 * length) | (shorter <= reach)
            length = shorter
            if not (going & (length > reach)).any():
                break
        return going & (length <= reach)

    def _inverses_times(self, inverse_of: Int[Tensor, " batch"]) -> Callable[[Tensor, Tensor], Tensor]:
        """Multiplies vectors (batch, size) by their inverses; those with the same inverse share one product.

        The second argument says for which of them the product matters.
        """
        used, group, counts = torch.unique(inverse_of, return_inverse=True, return_counts=True)
        if self.dynamics.size >= LARGE:
            return _one_by_one([(self._inverses[slot].mT, group == place) for place, slot in enumerate(used.tolist())])
        order = group.argsort(stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[group[order]]
        inverses = self._inverses if len(used) == len(self._inverses) else self._inverses[used]
        inverses, width = inverses.mT, int(counts.max())

        def times(vectors: Tensor, wanted: Tensor) -> Tensor:
            grouped = vectors.new_zeros(len(used), width, vectors.shape[1])
            grouped[group, rank] = vectors
            return torch.bmm(grouped, inverses)[group, rank]

        return times

    def _keep(self, inverses: Float[Tensor, "new size size"]) -> None:
        used = len(self._inverses)
        if used + len(inverses) > len(self._room):
            room = inverses.new_empty(max(used + len(inverses), 2 * used), *inverses.shape[1:])
            room[:used] = self._inverses
            self._room = room
        self._inverses = self._room[: used + len(inverses)]
        self._inverses[used:] = inverses
        self._sketches = torch.cat([self._sketches, self._mix @ inverses])

    def _enter(self, states: Float[Tensor, "batch size"], fixed: float) -> None:
        """Refine states, and keep those that are roots not known yet."""
        f = self.dynamics.residual(states)
        G = self.dynamics.residual_jacobian(states)
        inverse, sign = inverse_and_sign(G)
        length, rounds = _length(f), torch.finfo(f.dtype).eps * magnitude(states)
        for _ in range(REFINEMENTS):
            better = self.dynamics.clamp(states - _times(inverse, f))
            f_better = self.dynamics.residual(better)
            length_better = _length(f_better)
            closer = length_better < 0.5 * length
            states, f = torch.where(closer[:, None], better, states), torch.where(closer[:, None], f_better, f)
            length = torch.where(closer, length_better, length)
            if not (closer & (length > rounds)).any():  # rounding stops the progress
                break
        # What rounding does to each number of the residual: it grows with the terms that are summed there.
        terms = torch.maximum(states.abs(), _times(G.abs(), states.abs())).clamp_min(1)
        rounding = 10 * torch.finfo(f.dtype).eps * terms
        # How far off the root may still be. A residual of pure rounding says nothing of that where G is singular (a
        # line of roots); a larger one does, and if the root is far away, none is here (a state creeping to infinity).
        blur = _times(inverse, f).norm(dim=1).masked_fill((f.abs() <= rounding).all(1), 0)
        size = magnitude(states)
        good = (0.5 * (f / terms).square().sum(1) <= fixed) & (blur <= BUNCH * size)
        new = self._distinct(states, blur, good.nonzero()[:, 0].tolist())
        if not new:
            return
        isolated = self._isolated(states[new], G[new], inverse[new], f[new].abs() + rounding[new])
        sign = sign[new] * isolated
        slots = self._inverses.shape[0] + sign.abs().cumsum(0) - 1
        self._inverse_of = torch.cat([self._inverse_of, torch.where(sign != 0, slots, -1)])
        self._keep(inverse[new][sign != 0])
        self.states = torch.cat([self.states, states[new]])
        self.q = torch.cat([self.q, 0.5 * f[new].square().sum(1)])
        self.blur = torch.cat([self.blur, blur[new]])
        self.reach = torch.cat([self.reach, torch.maximum(10 * blur[new], self.distance * size[new])])
        self.index = torch.cat([self.index, sign])

    def _distinct(self, states: Tensor, blur: Tensor, rows: list[int]) -> list[int]:
        """Those of the rows that are neither known roots nor the same as an earlier row."""
        if not rows:
            return rows
        known = len(self)
        all_states, all_blur = torch.cat([self.states, states[rows]]), torch.cat([self.blur, blur[rows]])
        apart = (states[rows].unsqueeze(1) - all_states).norm(dim=2)  # not cdist, which is inexact for near points
        reach = torch.maximum(10 * (all_blur + blur[rows, None]), self.distance * magnitude(states[rows])[:, None])
        same = (apart <= reach).tolist()
        new: list[int] = []  # positions in rows
        for position, with_whom in enumerate(same):
            if not any(with_whom[:known]) and not any(with_whom[known + other] for other in new):
                new.append(position)
        return [rows[position] for position in new]

    def _isolated(self, states: Tensor, G: Tensor, inverse: Tensor, error: Tensor) -> Bool[Tensor, " batch"]:
        """Whether the Jacobian stays what it is, wherever the root may really lie.

        `error` (batch, size) bounds the residual; the root may be off by inverse @ error, most along the weakest
        direction. A double root, a line of roots or a kink of the nonlinearity fails this; a root with a small but
        certain eigenvalue passes, which no bound on the size of the eigenvalue could tell.
        """
        weakest = _times(inverse, torch.ones_like(states))
        for _ in range(3):  # power iteration for the largest singular vector of the inverse
            weakest = _times(inverse, _times(inverse.mT, weakest))
            weakest = weakest / _length(weakest)[:, None].clamp_min(1e-300)
        slack = (_length(_times(inverse.mT, weakest)) * _length(error))[:, None]
        shift = slack * weakest + error * torch.sign(weakest + 1e-300)
        moved = self.dynamics.residual_jacobian(torch.cat([states + shift, states - shift]))
        # seen in the weakest direction, where it matters most, and in one that contains every unit, for kinks; each
        # number in units of its own size, so that the large memory of an LSTM does not drown its outputs
        unit = states.abs().clamp_min(1).unsqueeze(2)
        seen_in = torch.stack([weakest, torch.full_like(weakest, self.dynamics.size**-0.5)], 2)
        changes = [
            (torch.bmm(inverse, torch.bmm(side - G, seen_in * unit)) / unit).norm(dim=1).amax(1)
            for side in moved.chunk(2)
        ]
        return (torch.maximum(*changes) < 0.5) & (slack[:, 0] <= BUNCH * magnitude(states))


def _one_by_one(groups: list[tuple[Tensor, Tensor]]) -> Callable[[Tensor, Tensor], Tensor]:
    """Multiplies the vectors of each group, given by a mask, by its matrix from the right; those that are wanted."""

    def times(vectors: Tensor, wanted: Tensor) -> Tensor:
        product = torch.zeros_like(vectors)
        for matrix, mask in groups:
            rows = (mask & wanted).nonzero()[:, 0]
            if rows.numel():
                product[rows] = vectors[rows] @ matrix
        return product

    return times


def _length(vectors: Float[Tensor, "batch size"]) -> Float[Tensor, " batch"]:
    return torch.linalg.vector_norm(vectors, dim=1)  # half the time of Tensor.norm for small tensors


def _times(matrices: Float[Tensor, "batch rows columns"], vectors: Float[Tensor, "batch columns"]) -> Tensor:
    """Each matrix times its vector."""
    return torch.bmm(matrices, vectors.unsqueeze(2)).squeeze(2)


def magnitude(x: Float[Tensor, "batch size"]) -> Float[Tensor, " batch"]:
    """Length of the state, where numbers below 1 (rms) count as 1: what distances and rounding are measured in."""
    return _length(x).clamp_min(x.shape[1] ** 0.5)
