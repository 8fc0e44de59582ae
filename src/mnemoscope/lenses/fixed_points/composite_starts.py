"""Strategies that build on other starts: several together, and waves that follow from the points found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import State
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.starts import Box, StartStrategy, as_starts, settled
from mnemoscope.lenses.fixed_points.subdivision import LARGEST, residual_enclosure, sampled_enclosure, subdivide

MOST_PAIRED = 200
"""Upper limit of the points that are combined in pairs."""
RELAXATION_STEPS = 150
"""Steps after which a relaxing state counts as at rest."""
SUBDIVISION_BOXES = 3_000
"""Upper limit of the boxes in which a low-dimensional system is searched for starts."""
MOST_UNDECIDED = 32
"""Upper limit of the starts in boxes that this search left open."""
PARTS = {1: 32, 2: 8, 3: 4}
"""Boxes along each axis at its beginning, by dimension, where ranges of the step are known."""
SAMPLED_PARTS = {1: 128, 2: 32, 3: 10}
"""The same where ranges are estimated from samples, which a large box would mislead."""


@dataclass(frozen=True)
class Several:
    """The starts of several strategies together; given states are used unchanged.

    Given states may be the fixed points of a similar network (continuation).

    >>> both = Several([Box(3), torch.zeros(2, 4)])
    >>> both.draw(Dynamics(torch.nn.GRU(1, 4)), torch.Generator()).shape
    torch.Size([5, 4])
    """

    parts: Sequence[State | StartStrategy]

    def __post_init__(self) -> None:
        if not len(self.parts):
            raise ValueError("Several takes at least one strategy or tensor of states, but the list is empty.")
        for part in self.parts:
            if isinstance(part, Adaptive):
                raise ValueError(
                    "Adaptive derives later starts from earlier ones and cannot be one of several: use "
                    "Adaptive(Several([...]))."
                )

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        return torch.cat([as_starts(dynamics, part, generator) for part in self.parts])


@dataclass(frozen=True)
class Adaptive:
    """Waves of starts, each derived from the points found so far, until the set is complete and nothing new appears.

    The first wave contains the initial state of the network and the centre of its box. A box of up to three dimensions
    is also subdivided, and the parts that may hold a root are starts (see `subdivision`).

    Saddles lie between attractors, and saddles of higher index between saddles. Each wave therefore starts from
    mid-points of pairs of found points (pairs of equal index first), and from random mixtures of several points when
    the pairs are used up. For an odd map, the mirror images of the found points are fixed points too. If a
    wave finds nothing new while the index sum shows that points are missing, the next also departs from every saddle of
    index -1, starts between attractors and saddles, and starts from random states (see `restarts.Restarts`).

    Args:
        initial: states of the first wave, (starts, size), or a strategy that draws them. States that the network visits
            at its task are best. By default, random states from which the network has run for a while.
        number: number of starts in a wave.
        patience: the search ends when this many waves in a row find nothing new; four times as many while the index sum
            shows that points are missing. Degenerate points do not count as new: a line of fixed points would never be
            exhausted.
        waves: upper limit of waves.
        max_starts: upper limit of starts in total; the summary says if it ended the search.
        max_steps: number of solver steps, over all starts, after which no further wave begins. Starts that reach no
            point take most of them, so that this limits the time where a network has too many points to find.

    """

    initial: State | StartStrategy | None = None
    number: int = 32
    patience: int = 1
    waves: int = 40
    max_starts: int | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        check_whole(1, number=self.number, patience=self.patience, waves=self.waves)
        limits = {"max_starts": self.max_starts, "max_steps": self.max_steps}
        check_whole(1, **{name: limit for name, limit in limits.items() if limit is not None})

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        if self.initial is None:
            drawn = _relaxed_states(dynamics, 2 * self.number, generator)
        else:
            drawn = as_starts(dynamics, self.initial, generator)
        certain = landmarks(dynamics)[: self.max_starts]
        if self.max_starts is not None:
            drawn = drawn[: self.max_starts - len(certain)]
        return torch.cat([drawn, certain])

    def combine(
        self,
        roots: Float[Tensor, "roots size"],
        index: Sequence[int],
        tried: set[tuple[int, int]],
        generator: Generator,
        nearest: bool = False,
    ) -> Float[Tensor, "starts size"]:
        """Return starts between pairs of roots, and mixtures of several roots when the pairs are used up.

        The method adds the pairs it uses to `tried`. With `nearest`, close pairs come first instead of older ones: that
        pays where a start is expensive.
        """
        # isolated points first; a line of points would make an endless list
        members = sorted(range(len(roots)), key=lambda root: index[root] == 0)[:MOST_PAIRED]
        pairs = [(a, b) for b in sorted(members) for a in sorted(members) if a < b and (a, b) not in tried]
        # attractors first (index +1 twice), then saddles, then mixed pairs; the sort is stable, so older roots lead
        if nearest and pairs:
            apart = torch.cdist(roots, roots).tolist()
            pairs.sort(key=lambda pair: apart[pair[0]][pair[1]])
        pairs.sort(key=lambda pair: -(index[pair[0]] + index[pair[1]]) if index[pair[0]] == index[pair[1]] else 3)
        pairs = pairs[: self.number]
        tried.update(pairs)
        starts = [0.5 * (roots[[a for a, _ in pairs]] + roots[[b for _, b in pairs]])] if pairs else []
        rest = self.number - len(pairs)
        if rest:
            weights = torch.rand(rest, len(roots), generator=generator, dtype=roots.dtype).to(roots.device)
            keep = torch.rand(rest, len(roots), generator=generator).argsort(1) < 4
            weights = weights * keep.to(roots)
            mixtures = (weights / weights.sum(1, keepdim=True)) @ roots
            spread = roots.std(0, correction=0) if len(roots) > 1 else torch.ones_like(roots[0])
            noise = torch.randn(mixtures.shape, generator=generator, dtype=roots.dtype).to(roots.device)
            starts.append(mixtures + 0.2 * spread * noise)
        return torch.cat(starts)


def landmarks(dynamics: Dynamics) -> Float[Tensor, "starts size"]:
    """Return states that depend on no chance: the initial one, the centre of the box, and where subdivision leads.

    A random start rarely finds a fixed point that repels strongly in all directions, as the origin of a network without
    biases may do.
    """
    states = [dynamics.origin]
    if dynamics.bounds is not None:
        low, high = dynamics.bounds
        centre = (0.5 * (low + high))[None]
        states += [] if torch.equal(centre, dynamics.origin) else [centre]
        states += [_subdivision_starts(dynamics)] if dynamics.size <= LARGEST else []
    return torch.cat(states)


def _subdivision_starts(dynamics: Dynamics) -> Float[Tensor, "starts size"]:
    """Return the roots that subdivision isolates in the box, and the centres of some parts that it left open."""
    assert dynamics.bounds is not None
    low, high = (edge.double() for edge in dynamics.bounds)
    ranges = residual_enclosure(dynamics)
    enclose, parts = (ranges, PARTS) if ranges is not None else (sampled_enclosure(dynamics), SAMPLED_PARTS)
    with torch.no_grad():
        found = subdivide(enclose, low, high, low.new_zeros(0, len(low)), SUBDIVISION_BOXES, parts[len(low)])
    undecided = found.undecided.mean(1)
    undecided = undecided[:: max(1, len(undecided) // MOST_UNDECIDED)][:MOST_UNDECIDED]
    return torch.cat([found.roots, undecided]).to(dynamics.dtype)


def _relaxed_states(dynamics: Dynamics, number: int, generator: Generator) -> Tensor:
    """Return states on trajectories from random states: `number` on the way, and four times as many at rest.

    A step of the map costs little compared with a step of a solver, and a state at rest at an attractor is recognised
    immediately, so attractors with small basins are not missed.
    """
    total = 5 * number
    if dynamics.bounds is not None:
        states = Box(total).draw(dynamics, generator)
    else:
        states = torch.randn(total, dynamics.size, generator=generator, dtype=dynamics.dtype).to(dynamics.device)
    if dynamics.continuous:
        return states[:number]
    duration = torch.randint(0, RELAXATION_STEPS // 5, (number, 1), generator=generator)[:, 0].to(dynamics.device)
    initial, way = states, states[:number].clone()
    with torch.no_grad():
        for step in range(int(duration.max())):
            moving = duration > step
            way[moving] = dynamics(way[moving])
        states = torch.cat([way, settled(dynamics, states[number:], RELAXATION_STEPS)])
        # Without a box, some states may run far away: use their initial states instead, unless they came to rest there.
        resting = dynamics.residual(states).norm(dim=1) <= 1e-6 * states.norm(dim=1)
    far = states.norm(dim=1) > 1e3 * (1 + initial.norm(dim=1))
    lost = ~torch.isfinite(states).all(1) | (far & ~resting)
    return torch.where(lost[:, None], initial, states)
