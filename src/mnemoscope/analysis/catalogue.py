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

BUNCH = 1e-3
"""Nearly converged states closer than this (rms) are refined once for all of them."""
REFINEMENTS = 20
"""Upper limit of simplified Newton steps on a nearly converged state."""


class Catalogue:
    """Distinct roots of `dynamics.residual`. Two converged states are one root if they are closer than `distance`
    (rms), or than their own uncertainty where the root is degenerate.
    """

    def __init__(self, dynamics: Dynamics, distance: float = 1e-6) -> None:
        self.dynamics = dynamics
        self.distance = distance * dynamics.size**0.5
        self.states: Float[Tensor, "roots size"] = dynamics.origin.new_zeros(0, dynamics.size)
        self.q: Float[Tensor, " roots"] = dynamics.origin.new_zeros(0)
        self.blur: Float[Tensor, " roots"] = dynamics.origin.new_zeros(0)
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
        return self.recognise(states, self.dynamics.residual(states))

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
        length = offset.norm(dim=1)
        same = (10 * self.blur[nearest]).clamp_min(self.distance)
        near = ((offset - predicted).norm(dim=1) <= BASIN * length) | (length <= same)
        return torch.where(near, nearest, -1)

    def _enter(self, states: Float[Tensor, "batch size"], fixed: float) -> None:
        """Refine states, and keep those that are roots not known yet."""
        f = self.dynamics.residual(states)
        inverse, index = inverse_and_index(self.dynamics.residual_jacobian(states), self.dynamics.continuous)
        for _ in range(REFINEMENTS):
            better = self.dynamics.clamp(states - torch.bmm(inverse, f.unsqueeze(2)).squeeze(2))
            f_better = self.dynamics.residual(better)
            closer = (f_better.norm(dim=1) < 0.5 * f.norm(dim=1))[:, None]
            if not closer.any():  # rounding stops the progress
                break
            states, f = torch.where(closer, better, states), torch.where(closer, f_better, f)
        q = 0.5 * f.square().sum(1)
        # How far off the root may still be. A residual of pure rounding says nothing of that where G is singular (a
        # line of roots); a larger one does, and if the root is far away, none is here (a state creeping to infinity).
        size = mean_square(states).sqrt() * self.dynamics.size**0.5
        rounding = f.norm(dim=1) <= 10 * torch.finfo(f.dtype).eps * size
        blur = torch.bmm(inverse, f.unsqueeze(2)).norm(dim=(1, 2)).masked_fill(rounding, 0)
        good = (q <= fixed * mean_square(states)) & (blur <= BUNCH * size)
        new: list[int] = []
        for row in good.nonzero()[:, 0].tolist():
            known, known_blur = torch.cat([self.states, states[new]]), torch.cat([self.blur, blur[new]])
            same = (10 * (known_blur + blur[row])).clamp_min(self.distance)
            if not ((known - states[row]).norm(dim=1) <= same).any():
                new.append(row)
        self._inverses = _grown(self._inverses, len(self) + len(new))
        self._inverses[len(self) : len(self) + len(new)] = inverse[new]
        self.states = torch.cat([self.states, states[new]])
        self.q = torch.cat([self.q, q[new]])
        self.blur = torch.cat([self.blur, blur[new]])
        self.index += index[new].tolist()


def _grown(buffer: Tensor, needed: int) -> Tensor:
    """The buffer, doubled until it has room for `needed` rows."""
    while buffer.shape[0] < needed:
        buffer = torch.cat([buffer, torch.zeros_like(buffer)])
    return buffer


def mean_square(x: Float[Tensor, "batch size"]) -> Float[Tensor, " batch"]:
    """Mean square of the state, at least 1: what tolerances of q scale with, as rounding does."""
    return x.square().mean(1).clamp_min(1)
