"""Where a search goes on from what it has found: between points, to their mirror images, away from saddles."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EchoState
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.catalogue import Catalogue, magnitude
from mnemoscope.lenses.fixed_points.starts import Adaptive, Box, FromOutputs, rested

DEAR = 256
"""From this size on a start costs more than a hundred steps of the map: starts rest before the solver begins."""
REST = 25
"""Steps in which fast modes decay."""
LEAVE = 300
"""Steps in which a state that leaves a saddle arrives elsewhere."""


@dataclass
class Waves:
    """The waves of one adaptive search: it remembers which pairs were tried and which points were used."""

    strategy: Adaptive
    dynamics: Dynamics
    generator: Generator
    tried: set[tuple[int, int]] = field(default_factory=set)
    mirrored: int = 0
    """Of how many roots the mirror image was tried."""
    left: int = 0
    """How many roots were looked at for saddles to leave."""
    judged: int = 0
    """How many were tried for attraction."""
    attracting: list[int] = field(default_factory=list)
    edged: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of attractors between which the edge was looked for."""

    @property
    def dear(self) -> bool:
        return self.dynamics.size >= DEAR

    def next(self, catalogue: Catalogue, missing: bool, idle: int) -> Float[Tensor, "starts size"]:
        """Starts of the next wave. `missing`: the index sum shows that points are missing; `idle`: how many waves in a
        row brought nothing new.
        """
        index = catalogue.index.tolist()
        between = self.strategy.combine(catalogue.states, index, self.tried, self.generator, nearest=self.dear)
        parts = [self.mirror_images(catalogue), between]
        if missing and self.dear:
            parts += [self.departures(catalogue), self.edges(catalogue), self._rested(self.lines(catalogue))]
        if missing and idle:
            parts.append(self.elsewhere())
        return self.dynamics.clamp(torch.cat(parts))

    def mirror_images(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """-x of the new roots x, where that is a root too: always for an odd map, such as tanh units without bias."""
        isolated = catalogue.index[self.mirrored :] != 0  # a line of points would be mirrored for ever
        images = -catalogue.states[self.mirrored :][isolated]
        self.mirrored = len(catalogue)
        return images[self.dynamics.residual(images).norm(dim=1) <= 1e-9 * magnitude(images)]

    def departures(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """Where the system goes from beside each new saddle, to both sides: its unstable direction takes over."""
        new, index = catalogue.states[self.left :], catalogue.index[self.left :]
        self.left = len(catalogue)
        saddles = new[index < 0]
        if self.dynamics.continuous or not len(saddles):
            return saddles[:0]
        aside = torch.randn(saddles.shape, generator=self.generator, dtype=saddles.dtype).to(saddles.device)
        aside = ASIDE * aside * (magnitude(saddles) / self.dynamics.size**0.5)[:, None]
        return rested(self.dynamics, self.dynamics.clamp(torch.cat([saddles + aside, saddles - aside])), LEAVE)

    def edges(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """Slowest states on the edge between the basins of two attractors, nearest pairs first, each pair once.

        The edge is found by bisection on the line between the attractors. What starts on it stays on it, and comes to
        rest at a saddle with one unstable direction (Skufca et al. 2006), unless the edge is stranger than that.
        """
        if self.dynamics.continuous:
            return catalogue.states[:0]
        attractors = self._attractors(catalogue)
        apart = torch.cdist(attractors, attractors).tolist()
        pairs = [(a, b) for b in range(len(attractors)) for a in range(b) if (a, b) not in self.edged]
        pairs = sorted(pairs, key=lambda pair: apart[pair[0]][pair[1]])[: self.strategy.number // 2]
        self.edged.update(pairs)
        if not pairs:
            return catalogue.states[:0]
        a, b = (attractors[[pair[side] for pair in pairs]] for side in (0, 1))
        reach = 0.1 * (a - b).norm(dim=1)
        inner, outer = torch.zeros_like(a[:, :1]), torch.ones_like(a[:, :1])  # of the way; inner ones return to a
        for _ in range(BISECTIONS):
            middle = 0.5 * (inner + outer)
            returns = ((rested(self.dynamics, torch.lerp(a, b, middle), LEAVE) - a).norm(dim=1) < reach)[:, None]
            inner, outer = torch.where(returns, middle, inner), torch.where(returns, outer, middle)
        return _slowest(self.dynamics, torch.lerp(a, b, inner), torch.lerp(a, b, outer), reach)

    def _attractors(self, catalogue: Catalogue) -> Float[Tensor, "attractors size"]:
        """The roots to which states beside them return, in the order of the catalogue."""
        new = catalogue.states[self.judged :]
        aside = torch.randn(new.shape, generator=self.generator, dtype=new.dtype).to(new.device)
        aside = ASIDE * aside * (magnitude(new) / self.dynamics.size**0.5)[:, None]
        returned = (rested(self.dynamics, new + aside, LEAVE) - new).norm(dim=1) < 0.5 * aside.norm(dim=1)
        self.attracting += (self.judged + returned.nonzero()[:, 0]).tolist()
        self.judged = len(catalogue)
        return catalogue.states[self.attracting]

    def lines(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """Anywhere on lines between points of opposite index, such as attractors and saddles, drawn at random."""
        even, odd = (catalogue.states[catalogue.index == sign] for sign in (1, -1))
        if not len(even) or not len(odd):
            return even[:0]
        number = max(1, self.strategy.number // 2)
        a, b = (torch.randint(0, len(side), (number,), generator=self.generator) for side in (even, odd))
        part = torch.rand(number, 1, generator=self.generator, dtype=even.dtype).to(even.device)
        return torch.lerp(even[a.to(even.device)], odd[b.to(even.device)], part)

    def elsewhere(self) -> Float[Tensor, "starts size"]:
        """What is missing may lie outside the hull of what was found: random outputs of a reservoir with feedback,
        random states of other systems.
        """
        cell, number = self.dynamics.cell, self.strategy.number
        if isinstance(cell, EchoState) and cell.feedback is not None and not self.dynamics.continuous:
            return FromOutputs(number).draw(self.dynamics, self.generator)
        return Box(number).draw(self.dynamics, self.generator)

    def _rested(self, states: Tensor) -> Tensor:
        """Where a start is dear, a map takes the first steps itself."""
        return rested(self.dynamics, states, REST) if self.dear and not self.dynamics.continuous else states


def _slowest(
    dynamics: Dynamics,
    inside: Float[Tensor, "starts size"],
    outside: Float[Tensor, "starts size"],
    apart: Float[Tensor, " starts"],
) -> Float[Tensor, "starts size"]:
    """The slowest state that the inner ones pass while the outer ones go the same way, no further away than `apart`."""
    best, least = inside, torch.full_like(apart, torch.inf)
    for _ in range(LEAVE):
        after = dynamics(inside)
        speed = (after - inside).norm(dim=1)
        together = (inside - outside).norm(dim=1) < apart
        slower = together & (speed < least)
        best, least = torch.where(slower[:, None], inside, best), torch.where(slower, speed, least)
        inside, outside = after, dynamics(outside)
    return best


BISECTIONS = 14
"""They place the edge between two basins to 6e-5 of the attractors' distance."""
ASIDE = 0.05
"""How far beside a saddle a departure begins (rms, relative to the state)."""
