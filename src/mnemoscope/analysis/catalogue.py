"""The roots found so far: tells new from known, and recognises early where an iteration is going."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.analysis.fixed_points import inverse_and_index
from mnemoscope.shapes import Float, Int

BASIN = 0.2
"""A start belongs to a known root r when one simplified Newton step from it, with r's own Jacobian, lands within this
fraction of its distance to r: it is in the region where r's linearisation holds, and would converge to r."""


class Catalogue:
    """Distinct roots of `dynamics.residual`. Two converged states closer than `distance` (rms) are one root."""

    def __init__(self, dynamics: Dynamics, distance: float = 1e-6) -> None:
        self.dynamics = dynamics
        self.distance = distance * dynamics.size**0.5
        self.states: Float[Tensor, "roots size"] = dynamics.origin.new_zeros(0, dynamics.size)
        self.q: Float[Tensor, " roots"] = dynamics.origin.new_zeros(0)
        self.index: list[int] = []
        self._inverses = dynamics.origin.new_zeros(4, dynamics.size, dynamics.size)  # grows by doubling

    def __len__(self) -> int:
        return self.states.shape[0]

    @property
    def index_sum(self) -> int:
        return sum(self.index)

    @property
    def regular(self) -> int:
        """How many roots are isolated for certain: those whose Jacobian is not singular up to rounding."""
        return sum(index != 0 for index in self.index)

    def add(self, states: Float[Tensor, "batch size"]) -> Int[Tensor, " batch"]:
        """Enter converged states, polished by Newton steps; returns the root that each of them is."""
        which = torch.empty(states.shape[0], dtype=torch.int64, device=states.device)
        for row in range(states.shape[0]):
            state = states[row : row + 1]
            root = self._same(state)
            which[row] = self._enter(state) if root is None else root
        return which

    def recognise(
        self, states: Float[Tensor, "batch size"], residuals: Float[Tensor, "batch size"]
    ) -> Int[Tensor, " batch"]:
        """The known root that each state is bound to converge to, or -1."""
        if not len(self):
            return torch.full((states.shape[0],), -1, dtype=torch.int64, device=states.device)
        nearest = torch.cdist(states, self.states).argmin(1)
        offset = states - self.states[nearest]
        # Where the residual is linear around r, inverse @ residual is the offset from r.
        predicted = torch.bmm(self._inverses[nearest], residuals.unsqueeze(2)).squeeze(2)
        near = (offset - predicted).norm(dim=1) <= BASIN * offset.norm(dim=1)
        return torch.where(near, nearest, -1)

    def _same(self, state: Tensor) -> int | None:
        if not len(self):
            return None
        distance, root = (self.states - state).norm(dim=1).min(0)
        return int(root) if distance <= self.distance else None

    def _enter(self, state: Tensor) -> int:
        f = self.dynamics.residual(state)
        inverse, index = inverse_and_index(self.dynamics.residual_jacobian(state)[0])
        while True:  # converged already: the same inverse serves until rounding stops the progress
            better = self.dynamics.clamp(state - f @ inverse.mT)
            f_better = self.dynamics.residual(better)
            if not f_better.norm() < 0.5 * f.norm():
                break
            state, f = better, f_better
        root = self._same(state)
        if root is not None:
            return root
        if len(self) == self._inverses.shape[0]:
            self._inverses = torch.cat([self._inverses, torch.zeros_like(self._inverses)])
        self._inverses[len(self)] = inverse
        self.states = torch.cat([self.states, state])
        self.q = torch.cat([self.q, 0.5 * f.square().sum(1)])
        self.index.append(index)
        return len(self) - 1
