"""The catalogue of known roots: it detects new ones, and recognises early to which root a start converges."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.inverses import Inverses, Linearised, linearise, linearised_at_once, no_inverses
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude, multiply, vector_norm

RECOGNISED = 0.25
"""A state is assigned to a known root r, until confirmed, if one simplified Newton step with the Jacobian at r lands
within this fraction of its distance to r."""
CONFIRMING_STEPS = 20
"""Upper limit of the simplified Newton steps that confirm it; each must shrink the distance to 0.6 or less."""
SKETCH = 16
"""Number of random combinations of coordinates from which a landing point is estimated."""
CLUSTER = 1e-3
"""Nearly converged states closer than this (rms) are refined together, by one of them."""
REFINEMENTS = 20
"""Upper limit of simplified Newton steps on a nearly converged state."""


class Catalogue:
    """Distinct roots of `dynamics.residual`.

    Two converged states are one root if they are closer than `distance` (rms, relative to states larger than 1), or
    than their uncertainty where the root is degenerate. A simplified Newton step reuses the inverse Jacobian at a root.
    """

    def __init__(self, dynamics: Dynamics, distance: float = 1e-6) -> None:
        self.dynamics = dynamics
        self.distance = distance
        none = dynamics.origin.new_zeros(0)
        self.states: Float[Tensor, "roots size"] = none.reshape(0, dynamics.size)
        self.q: Float[Tensor, " roots"] = none
        self.uncertainty: Float[Tensor, " roots"] = none
        """Bound on the distance to the exact root."""
        self.radius: Float[Tensor, " roots"] = none
        """Within this distance of a root, a state counts as the same."""
        self.index: Int[Tensor, " roots"] = none.long()
        """Sign det(-J), with J the Jacobian of the residual, of roots that are certainly isolated; 0 for others."""
        self._inverses: Inverses = no_inverses(dynamics)
        generator = torch.Generator().manual_seed(0)
        combinations = torch.randn(SKETCH, dynamics.size, generator=generator, dtype=dynamics.dtype) / SKETCH**0.5
        self._combinations = combinations.to(dynamics.device)
        self._sketches = none.reshape(0, SKETCH, dynamics.size)
        self._inverse_of: Int[Tensor, " roots"] = none.long()
        """Position of the inverse of each root; -1 for degenerate roots, whose inverse is of no use around them."""

    def __len__(self) -> int:
        return self.states.shape[0]

    @property
    def index_sum(self) -> int:
        """Sum of the indices."""
        return int(self.index.sum())

    @property
    def regular(self) -> int:
        """Number of roots that are certainly isolated."""
        return int(self.index.count_nonzero())

    def offer(self, states: Float[Tensor, "batch size"], fixed: float) -> Int[Tensor, " batch"]:
        """Return the root that each nearly converged state leads to, or -1 if it leads to none with q <= `fixed`.

        One state of each cluster is refined by simplified Newton steps and added if it is new; the others are then
        recognised. On a line of roots each of them is a root, and is refined next.
        """
        root = torch.full((len(states),), -1, dtype=torch.int64, device=states.device)
        apart = torch.cdist(states, states) > CLUSTER * self.dynamics.size**0.5
        rest = torch.arange(len(states), device=states.device)
        while rest.numel():
            first = apart[rest][:, rest].logical_not().to(torch.int8).argmax(1)  # the earliest in the cluster of each
            leads = first == torch.arange(len(first), device=first.device)
            parts = states[rest[leads]].split(linearised_at_once(self.dynamics))
            root[rest[leads]] = torch.cat([self.add(part, fixed) for part in parts])
            followers, leaders = rest[~leads], rest[first[~leads]]
            nearby = states[followers]
            root[followers] = self.confirmed(nearby, self.recognise(nearby, self.dynamics.residual(nearby)))
            rest = followers[(root[followers] < 0) & (root[leaders] >= 0)]
        return root

    def recognise(
        self, states: Float[Tensor, "batch size"], residuals: Float[Tensor, "batch size"]
    ) -> Int[Tensor, " batch"]:
        """Return the known root that each state seems to converge to, or -1.

        Random combinations of coordinates estimate whether a simplified Newton step lands near the nearest root;
        `confirm` makes sure.
        """
        if not len(self):
            return torch.full((states.shape[0],), -1, dtype=torch.int64, device=states.device)
        nearest = torch.cdist(states, self.states).argmin(1)
        offset = states - self.states[nearest]
        length = vector_norm(offset)
        near = length <= self.radius[nearest]
        if len(self._sketches):  # to read the full inverses here would cost more than the rest of the search
            position = self._inverse_of[nearest]
            landing = offset @ self._combinations.mT - multiply(self._sketches[position.clamp_min(0)], residuals)
            near |= (position >= 0) & (vector_norm(landing) <= RECOGNISED * length)
        return torch.where(near, nearest, -1)

    def confirm(self, states: Float[Tensor, "batch size"], root: Int[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
        """Whether simplified Newton steps converge from each state to its root.

        One step alone would overlook a second root nearby, which the stiffest directions can hide.
        """
        offset = states - self.states[root]
        converged = vector_norm(offset) <= self.radius[root]
        rows = (~converged & (self._inverse_of[root] >= 0)).nonzero()[:, 0]
        if rows.numel():
            converged[rows] = self._converges(offset[rows], root[rows])
        return converged

    def confirmed(self, states: Float[Tensor, "batch size"], root: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Return the roots from `recognise`, with -1 in place of those that `confirm` rejects."""
        found = (root >= 0).nonzero()[:, 0]
        root[found] = torch.where(self.confirm(states[found], root[found]), root[found], -1)
        return root

    def _converges(self, offset: Tensor, root: Tensor) -> Bool[Tensor, " batch"]:
        target, radius, length = self.states[root], self.radius[root], vector_norm(offset)
        apply_inverses = self._inverses.products(self._inverse_of[root])
        shrinking = torch.ones_like(length, dtype=torch.bool)
        for _ in range(CONFIRMING_STEPS):
            # Where the residual is linear around the root, inverse @ residual is the offset from it.
            residual = self.dynamics.residual(target + offset)
            offset = offset - apply_inverses(residual, shrinking & (length > radius))
            shorter = vector_norm(offset)
            shrinking &= (shorter <= 0.6 * length) | (shorter <= radius)
            length = shorter
            if not (shrinking & (length > radius)).any():
                break
        return shrinking & (length <= radius)

    def add(self, states: Float[Tensor, "batch size"], fixed: float) -> Int[Tensor, " batch"]:
        """Refine nearly converged states, and keep those that are new roots with q <= `fixed`.

        Return the root that each state was refined to, or -1 if it is none.
        """
        f = self.dynamics.residual(states)
        linear = linearise(self.dynamics, states)
        inverse, terms = linear.inverse, linear.terms
        size = magnitude(states)
        length, smallest = vector_norm(f), torch.finfo(f.dtype).eps * size
        # The rounding of each number of the residual grows with the terms that are summed there.
        rounding = 10 * torch.finfo(f.dtype).eps * terms
        for _ in range(REFINEMENTS):
            better = self.dynamics.clamp(states - inverse.multiply(f))
            f_better = self.dynamics.residual(better)
            length_better = vector_norm(f_better)
            # A long step, or one that rounding determines, would only lead along a line of roots to another one.
            reach = torch.where((f.abs() <= rounding).all(1), self.distance, CLUSTER) * size
            closer = (vector_norm(better - states) <= reach) & (length_better < 0.5 * length)
            states, f = torch.where(closer[:, None], better, states), torch.where(closer[:, None], f_better, f)
            length = torch.where(closer, length_better, length)
            if not (closer & (length > smallest)).any():  # rounding prevents further progress
                break
        # A residual of pure rounding does not bound the distance to the root where G is singular (a line of roots). A
        # larger one does; if the root is far away, there is none here (a state that creeps to infinity).
        uncertainty = inverse.multiply(f).norm(dim=1).masked_fill((f.abs() <= rounding).all(1), 0)
        size = magnitude(states)
        good = (0.5 * (f / terms).square().sum(1) <= fixed) & (uncertainty <= CLUSTER * size)
        new, root = self._distinct(states, uncertainty, good.nonzero()[:, 0].tolist())
        if not new:
            return root
        isolated = self._isolated(states[new], linear.select(new), f[new].abs() + rounding[new])
        index = linear.index[new] * isolated
        positions = len(self._inverses) + index.abs().cumsum(0) - 1
        self._inverse_of = torch.cat([self._inverse_of, torch.where(index != 0, positions, -1)])
        useful = inverse.select([row for row, sign in zip(new, index.tolist(), strict=True) if sign])
        if len(useful):
            self._inverses.append(useful)
            self._sketches = torch.cat([self._sketches, useful.combine_rows(self._combinations)])
        self.states = torch.cat([self.states, states[new]])
        self.q = torch.cat([self.q, 0.5 * f[new].square().sum(1)])
        self.uncertainty = torch.cat([self.uncertainty, uncertainty[new]])
        self.radius = torch.cat([self.radius, torch.maximum(10 * uncertainty[new], self.distance * size[new])])
        self.index = torch.cat([self.index, index])
        return root

    def _distinct(
        self, states: Tensor, uncertainty: Tensor, rows: list[int]
    ) -> tuple[list[int], Int[Tensor, " batch"]]:
        """Return the rows that are new roots, and the root of each state, with -1 for states not among `rows`."""
        root = torch.full((len(states),), -1, dtype=torch.int64, device=states.device)
        if not rows:
            return [], root
        known = len(self)
        all_states = torch.cat([self.states, states[rows]])
        all_uncertainties = torch.cat([self.uncertainty, uncertainty[rows]])
        apart = (states[rows].unsqueeze(1) - all_states).norm(dim=2)  # not cdist, which is inexact for near points
        radius = torch.maximum(
            10 * (all_uncertainties + uncertainty[rows, None]), self.distance * magnitude(states[rows])[:, None]
        )
        new: list[int] = []  # positions in rows
        for position, same in enumerate((apart <= radius).tolist()):
            candidates = [*range(known), *(known + other for other in new)]
            match = next((number for number, place in enumerate(candidates) if same[place]), len(candidates))
            root[rows[position]] = match
            if match == len(candidates):
                new.append(position)
        return [rows[position] for position in new], root

    def _isolated(self, states: Tensor, linear: Linearised, error: Tensor) -> Bool[Tensor, " batch"]:
        """Whether the Jacobian stays nearly the same wherever the exact root may lie.

        `error` (batch, size) bounds the residual, so the root may be off by inverse @ error, most along the weakest
        direction. A double root, a line of roots or a kink of the nonlinearity fails this test. A root with a small but
        certain eigenvalue passes it, although no bound on the eigenvalue would accept it.
        """
        inverse = linear.inverse
        weakest = inverse.multiply(torch.ones_like(states))
        for _ in range(3):  # power iteration for the largest singular vector of the inverse
            weakest = inverse.multiply(inverse.multiply(weakest, transposed=True))
            weakest = weakest / vector_norm(weakest)[:, None].clamp_min(1e-300)
        slack = (vector_norm(inverse.multiply(weakest, transposed=True)) * vector_norm(error))[:, None]
        shift = slack * weakest + error * torch.sign(weakest + 1e-300)
        # Compare along the weakest direction, where a change matters most, and along one that contains every unit, for
        # kinks; relative to each coordinate, so that the large memory of an LSTM does not mask its outputs.
        scale = states.abs().clamp_min(1)
        directions = [weakest * scale, torch.full_like(weakest, self.dynamics.size**-0.5) * scale]
        changes = linear.changes(self.dynamics, states, shift, directions)
        largest = torch.stack([vector_norm(inverse.multiply(change) / scale) for change in changes]).amax(0)
        return (largest < 0.5) & (slack[:, 0] <= CLUSTER * magnitude(states))
