"""Classes of fixed points of an episodic memory: stored, reversed, spurious, metastable or unstable."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.cells import EpisodicMemory
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.recall.arguments import frozen_copy
from mnemoscope.lenses.recall.overlap import (
    NEARER_THAN_ALL_OTHERS,
    directions,
    is_silent,
    overlap_with,
    read_features,
    read_rates,
)
from mnemoscope.lenses.result import Result

MEMBER = 0.5
"""A mixture consists of the memories whose component is at least this share of the largest. In a symmetric mixture all
are equal, and chance components are of the order of 1 / sqrt(features)."""


class MemoryClass(IntEnum):
    """Class of a fixed or slow point of an episodic memory (Karuvally et al. 2023, sections 1 and 2)."""

    STORED = 0
    REVERSED = 1
    MIXTURE = 2
    UNRELATED = 3
    METASTABLE = 4
    UNSTABLE = 5

    @property
    def label(self) -> str:
        """Name in lower case."""
        return self.name.lower()


@dataclass(frozen=True, repr=False)
class MemoryClasses(Result):
    """Classes of the fixed points, followed by the slow points, of an episodic memory.

    A stable point is stored (nearer to one memory than to all others together), reversed (nearer to minus one memory),
    a mixture (nearer to the span of all memories than to its complement) or unrelated; the last two are spurious. Of
    the other points, metastable ones hold for a finite time that is not short, and unstable ones do not.

    >>> import mnemoscope as ms
    >>> Xi = torch.tensor([[1.0, 1], [1, -1], [1, 1], [1, -1]]).double()
    >>> memory = ms.cells.EpisodicMemory(Xi)
    >>> fp = ms.find_fixed_points(ms.Dynamics(memory.discrete()))
    >>> points = ms.classify_memories(memory, fp)
    >>> sorted(name for name, number in zip(points.names, points.classes.tolist()) if number < 4)
    ['reversed 0', 'reversed 1', 'stored 0', 'stored 1']
    """

    noun: ClassVar[str] = "classes of memories"
    drawn_by: ClassVar[str] = "draw_classes"
    former_kinds: ClassVar[tuple[str, ...]] = ("MemoryKinds",)
    former_fields: ClassVar[dict[str, str]] = {"kind": "classes", "parts": "components"}

    classes: Int[Tensor, " points"]
    """Values of `MemoryClass`."""
    overlaps: Float[Tensor, "points memories"]
    """Overlap with each memory, a cosine (see `overlap`)."""
    components: Float[Tensor, "points memories"]
    """Lengths of the components of each point along the memories, by the duals; NaN if there are no duals."""
    dwell: Float[Tensor, " points"]
    """Steps (time of a flow) in which the least stable deviation grows by e; for a slow point at most the time in which
    it drifts by its length. Infinite for stable points."""
    slow: Bool[Tensor, " points"]
    """Whether a point is a slow point instead of a fixed point."""
    threshold: float
    """Overlap above which a stable point is stored or reversed."""
    lasting: float
    """Dwell time (for a flow in units of 1 / rate) above which a point that is not stable counts as metastable."""
    completeness: str
    """Sentence on whether fixed points are missing, from the index sum."""

    def __len__(self) -> int:
        return self.classes.shape[0]

    @property
    def nearest(self) -> Int[Tensor, " points"]:
        """Memory that each point has the largest |overlap| with."""
        return self.overlaps.abs().argmax(1)

    @property
    def lost(self) -> list[int]:
        """Memories without a stable point, stored or reversed."""
        held = self.nearest[self.classes <= MemoryClass.REVERSED].tolist()
        return sorted({*range(self.overlaps.shape[1])} - {*held})

    def members(self, point: int) -> list[tuple[int, int]]:
        """Return the memories that a point consists of, each with its sign."""
        components = self.components[point]
        if bool(torch.isnan(components).any()):
            raise ValueError("The members of a mixture need the duals, and so independent memories.")
        large = (components != 0) & (components.abs() >= MEMBER * components.abs().max())
        return [(memory, int(components[memory].sign())) for memory in large.nonzero()[:, 0].tolist()]

    @property
    def names(self) -> list[str]:
        """Name of each point, such as "stored 3", "mixture of +0 -2 +4" or "metastable near 1"."""
        return [self._name(point) for point in range(len(self))]

    @property
    def order(self) -> list[int]:
        """Points sorted by class, and by memory within a class."""
        nearest, classes = self.nearest.tolist(), self.classes.tolist()
        return sorted(range(len(self)), key=lambda point: (classes[point], nearest[point]))

    def _name(self, point: int) -> str:
        point_class = MemoryClass(int(self.classes[point]))
        label, nearest = point_class.label, int(self.nearest[point])
        if point_class <= MemoryClass.REVERSED:
            return f"{label} {nearest}"
        if point_class == MemoryClass.MIXTURE:
            members = " ".join(f"{'-' if sign < 0 else '+'}{memory}" for memory, sign in self.members(point))
            return f"mixture of {members}"
        overlap = float(self.overlaps[point, nearest])
        if point_class == MemoryClass.UNRELATED or abs(overlap) <= self.threshold:
            return label
        return f"{label} near {'-' if overlap < 0 else ''}{nearest}"

    def summary(self) -> str:
        count = Counter(self.classes.tolist())
        counts = [f"{count[each]} {each.label}" for each in MemoryClass if count[each]]
        sentences = [f"Of {len(self)} points, {', '.join(counts)}." if counts else "There is no point."]
        memories = self.overlaps.shape[1]
        if self.lost:
            some = ", ".join(map(str, self.lost[:10])) + (", ..." if len(self.lost) > 10 else "")
            sentences.append(f"No stable point was found at {len(self.lost)} of {memories} memories: {some}.")
        else:
            sentences.append(f"All {memories} memories have a stable point.")
        held = self.dwell[self.classes == MemoryClass.METASTABLE]
        if len(held):
            low, high = float(held.min()), float(held.max())
            sentences.append(f"Metastable states hold for {low:.3g} to {high:.3g} steps.")
        return " ".join([*sentences, self.completeness])


@show_slow("memory classes")
def classify_memories(
    memory: EpisodicMemory,
    fixed_points: FixedPoints,
    *,
    conjugate: bool = False,
    threshold: float = NEARER_THAN_ALL_OTHERS,
    lasting: float = 10.0,
) -> MemoryClasses:
    """Distinguish stored memories from spurious, metastable and unstable states.

    Args:
        memory: episodic memory that the fixed points belong to.
        fixed_points: answer of `find_fixed_points` for `Dynamics(memory.discrete())`, or for the memory as a flow,
            `Dynamics(memory, continuous=True)`.
        conjugate: whether they belong to `memory.conjugate()` instead, whose states are the rates of the features.
        threshold: |overlap| above which a stable point is stored or reversed.
        lasting: dwell time (for a flow in units of 1 / rate) above which a point that is not stable is metastable.

    """
    memory = frozen_copy(memory)
    if not isinstance(fixed_points, FixedPoints):
        raise TypeError(
            f"classify_memories takes the answer of find_fixed_points, but a {type(fixed_points).__name__} was given."
        )
    if not 0 < threshold < 1 or not lasting > 0:
        raise ValueError(f"threshold is between 0 and 1 and lasting positive, but they are {threshold} and {lasting}.")
    size = fixed_points.states.shape[1]
    if size not in (memory.features, 2 * memory.features + memory.memories):
        raise ValueError(
            f"The fixed points have {size} numbers, but those of this memory have {memory.features} (its map) or "
            f"{2 * memory.features + memory.memories} (its flow)."
        )
    if conjugate and size != memory.features:
        raise ValueError("conjugate=True belongs to the map, but these are fixed points of the flow.")
    slow = fixed_points.slow
    sets = [fixed_points] if slow is None or not len(slow) else [fixed_points, slow]
    states = torch.cat([points.states for points in sets])[:, : memory.features].to(memory.Xi)
    read = read_rates(memory, states) if conjugate else read_features(memory, states)
    dwell = torch.cat([_dwell(points, drifts=points is slow) for points in sets])
    overlaps, components = overlap_with(memory, read), _components(memory, read)
    stable = torch.isinf(dwell)
    classes = torch.where(dwell * fixed_points.rate > lasting, MemoryClass.METASTABLE, MemoryClass.UNSTABLE)
    classes[stable] = _classify_stable(memory, overlaps[stable], read[stable], components[stable], threshold)
    is_slow = torch.cat([torch.full((len(points),), points is slow) for points in sets])
    completeness = fixed_points.completeness
    return MemoryClasses(classes, overlaps, components, dwell, is_slow, float(threshold), float(lasting), completeness)


def duals(memory: EpisodicMemory) -> Float[Tensor, "memories features"]:
    """Return the dual of each memory in rows: its product is 1 with that memory and 0 with the others.

    Memories must be independent; for softmax features, which ignore the mean of a memory, after subtracting it.
    """
    Xi = directions(memory).double()
    if memory.memories > memory.features:
        raise ValueError(
            f"{memory.memories} memories of {memory.features} features depend on each other and have no duals; there "
            f"can be at most as many as features."
        )
    rank = int(torch.linalg.matrix_rank(Xi))
    if rank < memory.memories:
        centred = "" if Xi.equal(memory.Xi.detach().double()) else ", without their means, which softmax ignores,"
        raise ValueError(
            f"The {memory.memories} memories (columns of Xi){centred} depend on each other, their rank is {rank}, so "
            f"they have no duals. Omit those that are combinations of others."
        )
    return torch.linalg.pinv(Xi)


def _components(memory: EpisodicMemory, read: Tensor) -> Tensor:
    Xi = directions(memory)
    if memory.memories > memory.features or int(torch.linalg.matrix_rank(Xi)) < memory.memories:
        return torch.full((len(read), memory.memories), torch.nan, dtype=read.dtype)
    return read @ duals(memory).mT * Xi.norm(dim=0)


def _classify_stable(
    memory: EpisodicMemory, overlaps: Tensor, read: Tensor, components: Tensor, threshold: float
) -> Tensor:
    best, nearest = overlaps.abs().max(1)
    single = best > threshold
    if bool((~single & ~is_silent(read)).any()) and bool(torch.isnan(components).any()):
        duals(memory)  # raises with the reason why mixtures cannot be recognised
    length = read.norm(dim=1).clamp_min(torch.finfo(read.dtype).tiny)
    Xi = directions(memory)
    inside = (components / Xi.norm(dim=0) @ Xi.mT).norm(dim=1) / length
    mixed = (inside > NEARER_THAN_ALL_OTHERS) & ~is_silent(read)
    spurious = torch.where(mixed, MemoryClass.MIXTURE, MemoryClass.UNRELATED)
    signed = overlaps.gather(1, nearest.unsqueeze(1)).squeeze(1)
    return torch.where(single, torch.where(signed > 0, MemoryClass.STORED, MemoryClass.REVERSED), spurious)


def _dwell(points: FixedPoints, drifts: bool) -> Tensor:
    """Return the dwell times; infinite for stable points."""
    if not len(points):
        return torch.zeros(0, dtype=torch.float64)
    growth = points.growth[:, 0].double()
    leaves = torch.where(growth > 0, 1 / growth, torch.inf)
    if drifts:
        return torch.minimum(leaves, points.states.norm(dim=1) / (2 * points.q).sqrt())
    marginal = torch.tensor([kind == "marginal" for kind in points.kind])
    return torch.where(marginal, 1 / growth.abs(), leaves)
