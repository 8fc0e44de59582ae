"""Where a search goes on from what it has found: between points, to their mirror images, away from saddles."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from mnemoscope.analysis.catalogue import Catalogue, magnitude
from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.analysis.starts import Adaptive, Box, FromOutputs, rested
from mnemoscope.cells import EchoState
from mnemoscope.shapes import Float

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

    @property
    def dear(self) -> bool:
        return self.dynamics.size >= DEAR

    def next(self, catalogue: Catalogue, missing: bool, idle: int) -> Float[Tensor, "starts size"]:
        """Starts of the next wave. `missing`: the index sum shows that points are missing; `idle`: how many waves in a
        row brought nothing new.
        """
        index = catalogue.index.tolist()
        between = self.strategy.combine(catalogue.states, index, self.tried, self.generator, nearest=self.dear)
        parts = [self.mirror_images(catalogue), self._rested(between)]
        if missing and self.dear:
            parts += [self.departures(catalogue), self._rested(self.lines(catalogue))]
        if missing and idle:
            parts.append(self.elsewhere())
        return self.dynamics.clamp(torch.cat(parts))

    def mirror_images(self, catalogue: Catalogue) -> Float[Tensor, "starts size"]:
        """-x of the new roots x, where that is a root too: always for an odd map, such as tanh units without bias."""
        images = -catalogue.states[self.mirrored :]
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


ASIDE = 0.05
"""How far beside a saddle a departure begins (rms, relative to the state)."""
