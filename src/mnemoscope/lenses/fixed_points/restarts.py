"""Starts of later waves, derived from the roots found: between them, at their mirror images, away from saddles."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EchoState
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.composite_starts import Adaptive
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude
from mnemoscope.lenses.fixed_points.starts import Box, FromOutputs, advance, settled

EXPENSIVE = 256
"""From this size on, a start costs more than a hundred steps of the map, so starts relax before the solver begins."""
RELAXATION_STEPS = 25
"""Steps in which fast modes decay."""
DEPARTURE_STEPS = 300
"""Steps in which a state near a saddle reaches an attractor."""
BISECTIONS = 14
"""They locate the boundary between two basins to 6e-5 of the distance between the attractors."""
SCALES = (10.0, 100.0)
"""Scales of random states in systems without a box, whose first starts have a scale of 1."""
OFFSET = 0.05
"""Distance from a root at which its stability is tried (rms, relative to the state)."""


@dataclass
class Restarts:
    """Generator of the waves of one adaptive search; remembers the pairs and the roots that it has used."""

    strategy: Adaptive
    dynamics: Dynamics
    generator: Generator
    tried: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of roots between which a start was placed."""
    mirrored: int = 0
    """Number of roots whose mirror image was tried."""
    departed: int = 0
    """Number of roots that were checked for saddles to depart from."""
    assessed: int = 0
    """Number of roots whose attraction was tried."""
    attracting: list[int] = field(default_factory=list)
    """Those of them that attract."""
    bisected: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of attractors whose basin boundary was searched."""
    widened: int = 0
    """Number of `SCALES` from which starts were drawn."""

    @property
    def expensive(self) -> bool:
        """Whether a start costs far more than the steps of the map that prepare it."""
        return self.dynamics.size >= EXPENSIVE

    def next_wave(self, catalogue: Catalogue, missing: bool, idle: int) -> Float[Tensor, "starts size"]:
        """Return the next starts, after `idle` fruitless waves; `missing`: the index sum shows missing points."""
        if not len(catalogue):
            return self.random_states()
        index = catalogue.index.tolist()
        between = self.strategy.combine(catalogue.states, index, self.tried, self.generator, nearest=self.expensive)
        parts = [self.mirror_images(catalogue), between]
        if missing and self.expensive and idle:  # mid-points cost much less, and often complete the set
            parts += [self.departures(catalogue), self.basin_boundaries(catalogue), self.connecting_lines(catalogue)]
        if missing and idle:
            parts.append(self.random_states())
        if idle and (scales := self.wider_scales(catalogue)):
            parts.append(self._normal_states(scales[0]))
            self.widened += 1
        return self.dynamics.clamp(torch.cat(parts))

    def wider_scales(self, catalogue: Catalogue) -> tuple[float, ...]:
        """Return the scales that were not tried yet, for a system without a box whose indices do not add up to 1.

        Their sum need not be 1 there; but it is for the complete set if all states far away move inwards.
        """
        needed = self.dynamics.bounds is None and catalogue.index_sum != 1
        return SCALES[self.widened :] if needed else ()

    def _normal_states(self, scale: float) -> Float[Tensor, "starts size"]:
        shape, like = (self.strategy.number, self.dynamics.size), self.dynamics.origin
        return scale * torch.randn(shape, generator=self.generator, dtype=like.dtype).to(like.device)

    def mirror_images(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """Return -x for the new roots x if it is a root too, as for an odd map such as tanh units without bias."""
        isolated = catalogue.index[self.mirrored :] != 0  # a line of points would be mirrored for ever
        images = -catalogue.states[self.mirrored :][isolated]
        self.mirrored = len(catalogue)
        return images[self.dynamics.residual(images).norm(dim=1) <= 1e-9 * magnitude(images)]

    def departures(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """Return where the system goes from both sides of each new saddle, along its unstable direction."""
        new, index = catalogue.states[self.departed :], catalogue.index[self.departed :]
        self.departed = len(catalogue)
        saddles = new[index < 0]
        if self.dynamics.continuous or not len(saddles):
            return saddles[:0]
        offset = self._random_offset(saddles)
        nearby = self.dynamics.clamp(torch.cat([saddles + offset, saddles - offset]))
        return advance(self.dynamics, nearby, DEPARTURE_STEPS)

    def basin_boundaries(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """Return slow states on the boundary between the basins of two attractors, nearest pairs first, each pair once.

        Bisection on the line between the attractors finds the boundary. A state on it stays on it and converges to a
        saddle with one unstable direction (edge tracking; Skufca et al. 2006), unless the boundary is more complicated.
        """
        if self.dynamics.continuous:
            return catalogue.states[:0]
        attractors = self._attractors(catalogue)
        apart = torch.cdist(attractors, attractors).tolist()
        pairs = [(a, b) for b in range(len(attractors)) for a in range(b) if (a, b) not in self.bisected]
        pairs = sorted(pairs, key=lambda pair: apart[pair[0]][pair[1]])[: self.strategy.number // 2]
        self.bisected.update(pairs)
        if not pairs:
            return catalogue.states[:0]
        a, b = (attractors[[pair[side] for pair in pairs]] for side in (0, 1))
        near = 0.1 * (a - b).norm(dim=1)
        inner, outer = torch.zeros_like(a[:, :1]), torch.ones_like(a[:, :1])  # fractions of the line from a to b
        for _ in range(BISECTIONS):
            middle = 0.5 * (inner + outer)
            end = settled(self.dynamics, torch.lerp(a, b, middle), DEPARTURE_STEPS)
            returns = ((end - a).norm(dim=1) < near)[:, None]
            inner, outer = torch.where(returns, middle, inner), torch.where(returns, outer, middle)
        return _slowest(self.dynamics, torch.lerp(a, b, inner), torch.lerp(a, b, outer), near)

    def _attractors(self, catalogue: Catalogue) -> Float[Tensor, "attractors size"]:
        """Return the roots to which nearby states return, in the order of the catalogue."""
        new = catalogue.states[self.assessed :]
        offset = self._random_offset(new)
        end = settled(self.dynamics, new + offset, DEPARTURE_STEPS)
        returned = (end - new).norm(dim=1) < 0.5 * offset.norm(dim=1)
        self.attracting += (self.assessed + returned.nonzero()[:, 0]).tolist()
        self.assessed = len(catalogue)
        return catalogue.states[self.attracting]

    def _random_offset(self, states: Float[Tensor, "points size"]) -> Float[Tensor, "points size"]:
        noise = torch.randn(states.shape, generator=self.generator, dtype=states.dtype).to(states.device)
        return OFFSET * noise * (magnitude(states) / self.dynamics.size**0.5)[:, None]

    def connecting_lines(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """Return states a few steps after random ones on lines between points of opposite index."""
        even, odd = (catalogue.states[catalogue.index == sign] for sign in (1, -1))
        if not len(even) or not len(odd):
            return even[:0]
        number = max(1, self.strategy.number // 2)
        a, b = (torch.randint(0, len(side), (number,), generator=self.generator) for side in (even, odd))
        part = torch.rand(number, 1, generator=self.generator, dtype=even.dtype).to(even.device)
        states = torch.lerp(even[a.to(even.device)], odd[b.to(even.device)], part)
        return advance(self.dynamics, states, 0 if self.dynamics.continuous else RELAXATION_STEPS)

    def random_states(self) -> Float[Tensor, "starts size"]:
        """Return states outside the hull of the known roots, where missing ones may lie.

        They come from random outputs of a reservoir with feedback, and from the box of any other system.
        """
        cell, number = self.dynamics.cell, self.strategy.number
        if isinstance(cell, EchoState) and cell.feedback is not None and not self.dynamics.continuous:
            return FromOutputs(number).draw(self.dynamics, self.generator)
        return Box(number).draw(self.dynamics, self.generator)


def _slowest(
    dynamics: Dynamics,
    inside: Float[Tensor, "starts size"],
    outside: Float[Tensor, "starts size"],
    apart: Float[Tensor, " starts"],
) -> Float[Tensor, "starts size"]:
    """Return the slowest state on each inner trajectory while the outer one stays within the distance `apart`."""
    best, least = inside, torch.full_like(apart, torch.inf)
    for _ in range(DEPARTURE_STEPS):
        after = dynamics(inside)
        speed = (after - inside).norm(dim=1)
        close = (inside - outside).norm(dim=1) < apart
        slower = close & (speed < least)
        best, least = torch.where(slower[:, None], inside, best), torch.where(slower, speed, least)
        inside, outside = after, dynamics(outside)
    return best
