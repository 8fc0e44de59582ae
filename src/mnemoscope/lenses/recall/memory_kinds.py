"""Which fixed points of an episodic memory are what it has stored, and which are spurious or do not last."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells import EpisodicMemory
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.recall.overlap import (
    NEARER_THAN_ALL_OTHERS,
    directions,
    is_silent,
    overlap_with,
    read_of,
    read_of_firing,
)
from mnemoscope.lenses.recall.sequences import copied
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEMBER = 0.5
"""A mixture is made of the memories whose part is at least this share of the largest: in a symmetric mixture all are
equal, and what leaks in by chance is of the order of 1 / sqrt(features)."""


class MemoryClass(IntEnum):
    """What a fixed or slow point is to the memory (Karuvally et al. 2023, sections 1 and 2)."""

    STORED = 0
    REVERSED = 1
    MIXTURE = 2
    UNRELATED = 3
    METASTABLE = 4
    UNSTABLE = 5

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class MemoryClasses:
    """Fixed points, and slow points after them, told apart.

    Stable ones are stored (nearer to one memory than to all others together), reversed (to minus one), a mixture
    (nearer to the span of all memories than to what is outside it) or unrelated; the last two are spurious. Of the
    others, metastable ones hold for a time that is finite but not short, and unstable ones do not.

    >>> import mnemoscope as ms
    >>> Xi = torch.tensor([[1.0, 1], [1, -1], [1, 1], [1, -1]]).double()
    >>> memory = ms.cells.EpisodicMemory(Xi)
    >>> fp = ms.find_fixed_points(ms.Dynamics(memory.discrete()))
    >>> kinds = ms.classify_memories(memory, fp)
    >>> sorted(name for name, kind in zip(kinds.names, kinds.kind.tolist()) if kind < 4)
    ['reversed 0', 'reversed 1', 'stored 0', 'stored 1']
    """

    kind: Int[Tensor, " points"]
    """Values of `MemoryClass`."""
    overlaps: Float[Tensor, "points memories"]
    """Cosine with each memory (`analysis.episodic.overlap`)."""
    parts: Float[Tensor, "points memories"]
    """Lengths of the memories that what is read of a point is made of, by the duals; NaN where there are no duals."""
    dwell: Float[Tensor, " points"]
    """Steps (time, of a flow) in which the least stable deviation grows by e; of a slow point no more than it takes to
    drift by its own length. Infinite for stable points."""
    slow: Bool[Tensor, " points"]
    """Which are slow points, no fixed points."""
    threshold: float
    lasting: float
    """Steps (of a flow: of 1 / rate) from which on a state that is not stable counts as metastable."""
    completeness: str
    """What the index sum says of whether fixed points are missing, in words."""

    def __len__(self) -> int:
        return self.kind.shape[0]

    @property
    def nearest(self) -> Int[Tensor, " points"]:
        """The memory that each point overlaps with most, as it is or reversed."""
        return self.overlaps.abs().argmax(1)

    @property
    def lost(self) -> list[int]:
        """Memories at which no stable point was found, neither as they are nor reversed."""
        held = self.nearest[self.kind <= MemoryClass.REVERSED].tolist()
        return sorted({*range(self.overlaps.shape[1])} - {*held})

    def members(self, point: int) -> list[tuple[int, int]]:
        """The memories that a point is made of, each with its sign."""
        parts = self.parts[point]
        if bool(torch.isnan(parts).any()):
            raise ValueError("What a point is made of needs the duals, and so independent memories.")
        large = (parts != 0) & (parts.abs() >= MEMBER * parts.abs().max())
        return [(one, int(parts[one].sign())) for one in large.nonzero()[:, 0].tolist()]

    @property
    def names(self) -> list[str]:
        """Of each point: stored 3, mixture of +0 -2 +4, metastable near 1."""
        return [self._name(point) for point in range(len(self))]

    @property
    def order(self) -> list[int]:
        """The points by kind, and by memory within a kind."""
        nearest, kind = self.nearest.tolist(), self.kind.tolist()
        return sorted(range(len(self)), key=lambda point: (kind[point], nearest[point]))

    def _name(self, point: int) -> str:
        kind = MemoryClass(int(self.kind[point]))
        word, nearest = kind.word, int(self.nearest[point])
        if kind <= MemoryClass.REVERSED:
            return f"{word} {nearest}"
        if kind == MemoryClass.MIXTURE:
            return "mixture of " + " ".join(f"{'-' if sign < 0 else '+'}{one}" for one, sign in self.members(point))
        overlap = float(self.overlaps[point, nearest])
        near = f" near {'-' if overlap < 0 else ''}{nearest}" if abs(overlap) > self.threshold else ""
        return f"{word}{near}" if kind != MemoryClass.UNRELATED else word

    def summary(self) -> str:
        """The result in words."""
        count = Counter(self.kind.tolist())
        told = [f"{count[kind]} {kind.word}" for kind in MemoryClass if count[kind]]
        said = [f"Of {len(self)} points, {', '.join(told)}." if told else "There is no point."]
        memories = self.overlaps.shape[1]
        if self.lost:
            some = ", ".join(map(str, self.lost[:10])) + (", ..." if len(self.lost) > 10 else "")
            said.append(f"No stable point was found at {len(self.lost)} of {memories} memories: {some}.")
        else:
            said.append(f"All {memories} memories have a stable point.")
        held = self.dwell[self.kind == MemoryClass.METASTABLE]
        if len(held):
            said.append(f"Metastable states hold for {float(held.min()):.3g} to {float(held.max()):.3g} steps.")
        return " ".join([*said, self.completeness])

    def __repr__(self) -> str:
        return f"MemoryClasses({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `MemoryClasses.load` reads it back."""
        tensors = {name: getattr(self, name) for name in ("kind", "overlaps", "parts", "dwell", "slow")}
        names = ("threshold", "lasting", "completeness")
        save_result(path, "MemoryKinds", tensors, {name: getattr(self, name) for name in names})

    @classmethod
    def load(cls, path: str | Path) -> MemoryClasses:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "MemoryKinds", "kinds of memories")
        return cls(**tensors, **flags)

    def figure(self) -> Figure:
        """Overlaps of all points with all memories, and how long each holds (needs the `report` extra)."""
        from mnemoscope.lenses.recall.figure import draw_kinds

        return draw_kinds(self)


def classify_memories(
    memory: EpisodicMemory,
    fixed_points: FixedPoints,
    *,
    conjugate: bool = False,
    threshold: float = NEARER_THAN_ALL_OTHERS,
    lasting: float = 10.0,
) -> MemoryClasses:
    """Tell stored memories from spurious, metastable and unstable states.

    Args:
        memory: whose fixed points they are.
        fixed_points: what `find_fixed_points` found of `Dynamics(memory.discrete())`, or of the memory as a flow,
            `Dynamics(memory, continuous=True)`.
        conjugate: whether they are of `memory.conjugate()` instead, whose states are what the features fire.
        threshold: cosine above which a point is at one memory.
        lasting: steps (of a flow: of 1 / rate) from which on a state that is not stable counts as metastable.

    """
    own = copied(memory)
    if not isinstance(fixed_points, FixedPoints):
        raise TypeError(
            f"classify_memories takes what find_fixed_points found, but a {type(fixed_points).__name__} was given."
        )
    if not 0 < threshold < 1 or not lasting > 0:
        raise ValueError(f"threshold is between 0 and 1 and lasting positive, but they are {threshold} and {lasting}.")
    whole = fixed_points.states.shape[1]
    if whole not in (own.features, 2 * own.features + own.memories):
        raise ValueError(
            f"The fixed points have {whole} numbers, but those of this memory have {own.features} (of its map) or "
            f"{2 * own.features + own.memories} (of its flow)."
        )
    if conjugate and whole != own.features:
        raise ValueError("conjugate is of the map, but these are fixed points of the flow.")
    slow = fixed_points.slow
    found = [fixed_points] if slow is None or not len(slow) else [fixed_points, slow]
    states = torch.cat([part.states for part in found])[:, : own.features].to(own.Xi)
    read = read_of_firing(own, states) if conjugate else read_of(own, states)
    dwell = torch.cat([_dwell(part, drifts=part is slow) for part in found])
    overlaps, parts = overlap_with(own, read), _parts(own, read)
    rests = torch.isinf(dwell)
    kind = torch.where(dwell * fixed_points.rate > lasting, MemoryClass.METASTABLE, MemoryClass.UNSTABLE)
    kind[rests] = _of_stable(own, overlaps[rests], read[rests], parts[rests], threshold)
    is_slow = torch.cat([torch.full((len(part),), part is slow) for part in found])
    return MemoryClasses(
        kind, overlaps, parts, dwell, is_slow, float(threshold), float(lasting), fixed_points.completeness
    )


def duals(memory: EpisodicMemory) -> Float[Tensor, "memories features"]:
    """The dual of each memory, in rows: 1 with itself, 0 with the others. Memories must be independent; for softmax
    features without their means, which these cannot see.
    """
    Xi = directions(memory).double()
    if memory.memories > memory.features:
        raise ValueError(
            f"{memory.memories} memories of {memory.features} features depend on each other, and have no duals; there "
            f"can be at most as many as features."
        )
    rank = int(torch.linalg.matrix_rank(Xi))
    if rank < memory.memories:
        seen = "" if Xi.equal(memory.Xi.detach().double()) else ", without their means, which softmax does not see,"
        raise ValueError(
            f"The {memory.memories} memories (columns of Xi){seen} depend on each other, their rank is {rank}, and so "
            f"they have no duals. Leave out those that others make up."
        )
    return torch.linalg.pinv(Xi)


def _parts(memory: EpisodicMemory, read: Tensor) -> Tensor:
    Xi = directions(memory)
    if memory.memories > memory.features or int(torch.linalg.matrix_rank(Xi)) < memory.memories:
        return torch.full((len(read), memory.memories), torch.nan, dtype=read.dtype)
    return read @ duals(memory).mT * Xi.norm(dim=0)


def _of_stable(memory: EpisodicMemory, overlaps: Tensor, read: Tensor, parts: Tensor, threshold: float) -> Tensor:
    best, which = overlaps.abs().max(1)
    single = best > threshold
    if bool((~single & ~is_silent(read)).any()) and bool(torch.isnan(parts).any()):
        duals(memory)  # says what is wrong
    length = read.norm(dim=1).clamp_min(torch.finfo(read.dtype).tiny)
    Xi = directions(memory)
    inside = (parts / Xi.norm(dim=0) @ Xi.mT).norm(dim=1) / length
    mixed = (inside > NEARER_THAN_ALL_OTHERS) & ~is_silent(read)
    kind = torch.where(mixed, MemoryClass.MIXTURE, MemoryClass.UNRELATED)
    signed = overlaps.gather(1, which.unsqueeze(1)).squeeze(1)
    return torch.where(single, torch.where(signed > 0, MemoryClass.STORED, MemoryClass.REVERSED), kind)


def _dwell(points: FixedPoints, drifts: bool) -> Tensor:
    """Infinite where a point is stable."""
    if not len(points):
        return torch.zeros(0, dtype=torch.float64)
    growth = points.growth[:, 0].double()
    leaves = torch.where(growth > 0, 1 / growth, torch.inf)
    if drifts:
        return torch.minimum(leaves, points.states.norm(dim=1) / (2 * points.q).sqrt())
    marginal = torch.tensor([kind == "marginal" for kind in points.kind])
    return torch.where(marginal, 1 / growth.abs(), leaves)
