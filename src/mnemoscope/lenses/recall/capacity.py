"""Load of an episodic memory: how many random patterns it holds, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EpisodicMemory
from mnemoscope.cells.lagrangians import Lagrangian, make_lagrangian
from mnemoscope.lenses.recall.arguments import check_shares, frozen_copy
from mnemoscope.lenses.recall.corruption import RETRIEVED, final_overlaps, flip_signs, half_crossing
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Load(Result):
    """Shares of random patterns that an episodic memory holds, for each number of patterns and each seed.

    >>> import mnemoscope as ms
    >>> load = ms.measure_load(50, [2, 40], seeds=4)
    >>> [round(share, 1) for share in load.mean("recalled").tolist()]
    [1.0, 0.0]
    """

    noun: ClassVar[str] = "a memory load"
    drawn_by: ClassVar[str] = "draw_load"
    former_kinds: ClassVar[tuple[str, ...]] = ("MemoryLoad",)

    memories: Int[Tensor, " loads"]
    """Numbers of patterns."""
    stable: Float[Tensor, "loads seeds"]
    """Share of the patterns at which the memory stays."""
    recalled: Float[Tensor, "loads seeds"]
    """Share of the patterns that are recalled from a corrupted start."""
    features: int
    corruption: float
    """Share of flipped signs, rounded to a whole number of signs."""
    threshold: float
    """Overlap above which a pattern counts as held."""
    sigma_f: str
    sigma_h: str

    def mean(self, quantity: str = "recalled") -> Float[Tensor, " loads"]:
        """Return the mean share of patterns "recalled" or "stable", over the seeds."""
        return self._shares(quantity).mean(1)

    def error(self, quantity: str = "recalled") -> Float[Tensor, " loads"]:
        """Return the standard error of the mean over the seeds; NaN for a single seed."""
        shares = self._shares(quantity)
        if shares.shape[1] == 1:
            return torch.full_like(shares[:, 0], torch.nan)
        return shares.std(1) / sqrt(shares.shape[1])

    def _shares(self, quantity: str) -> Tensor:
        if quantity not in ("recalled", "stable"):
            raise ValueError(f'quantity must be "recalled" or "stable", but is {quantity!r}.')
        return getattr(self, quantity)

    @property
    def capacity(self) -> float | None:
        """Number of memories at which the mean share recalled first falls below one half, by linear interpolation.

        It is None if the share never does, or is below from the first number on.
        """
        return half_crossing(self.memories.double(), self.mean())

    def summary(self) -> str:
        seeds = self.recalled.shape[1]
        what = f"{self.features} features ({self.sigma_f}), memories {self.sigma_h}, {seeds} seed{'s' * (seeds > 1)}"
        if self.capacity is not None:
            return (
                f"{what}: half of the patterns are recalled, with {self.corruption:.0%} of signs flipped, up to "
                f"{self.capacity:.3g} memories, {self.capacity / self.features:.3g} per feature."
            )
        if float(self.mean()[0]) < 0.5:
            return f"{what}: less than half of the patterns are recalled from {int(self.memories[0])} memories on."
        return f"{what}: at least half of the patterns are recalled up to at least {int(self.memories[-1])} memories."


def measure_load(
    features: int,
    memories: Sequence[int],
    sigma_h: str | Lagrangian = "linear",
    *,
    sigma_f: str | Lagrangian = "tanh",
    corruption: float = 0.1,
    seeds: int = 10,
    tried: int = 50,
    steps: int = 100,
    threshold: float = RETRIEVED,
) -> Load:
    """Store random patterns of +-1, and measure which are held, for each number of patterns.

    Patterns are stored without scaling. With linear memories the drive of a feature is of the order of the number of
    features, and its tanh is a sign: this is the network of Hopfield (1982) in parallel steps, including the diagonal
    of W. If there are many memories, that diagonal holds any state in place, so a stable pattern is no sign of memory;
    capacity is defined by recall. With polynomial or softmax memories the network is a dense associative memory.
    Softmax memories share a drive of 1, whose tanh is no sign but is equal for all features of a pattern. A pattern
    counts as held by its overlap (see `overlap`), a direction, so a state that fades without turning is held too.
    Features with nonzero rates at V_f = 0 (logistic, softmax) also drive each memory by the mean of its pattern, which
    costs capacity.

    Args:
        features: N_f.
        memories: numbers of patterns, in rising order.
        sigma_h: nonlinearity of the memories.
        sigma_f: nonlinearity of the features.
        corruption: share of signs flipped at the start of a recall; rounded to a whole number of signs.
        seeds: random sets of patterns for each number of patterns.
        tried: most patterns of each set that are tested.
        steps: steps of the map.
        threshold: overlap above which a pattern counts as held.

    """
    check_whole(1, features=features, seeds=seeds, tried=tried, steps=steps)
    counts = [int(number) for number in memories]
    if not counts or min(counts) < 1 or sorted(set(counts)) != counts:
        raise ValueError(f"memories must be one or more whole numbers that rise, each at least 1, but are {counts}.")
    check_shares([corruption], threshold)
    feature_function, memory_function = make_lagrangian(sigma_f), make_lagrangian(sigma_h)
    flips = round(corruption * features)

    def shares(number: int, seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(1000 * seed + number)
        patterns = 2.0 * torch.randint(0, 2, (features, number), generator=generator).double() - 1
        memory = frozen_copy(EpisodicMemory(patterns, None, feature_function, memory_function))
        clean = patterns[:, :tried].mT
        corrupted = flip_signs(clean, flips, generator)
        overlaps = [final_overlaps(memory, start, steps).diagonal() for start in (clean, corrupted)]
        return [float((overlap > threshold).double().mean()) for overlap in overlaps]

    found = torch.tensor([[shares(number, seed) for seed in range(seeds)] for number in counts], dtype=torch.float64)
    stable, recalled = found.unbind(2)
    names = feature_function.extra_repr(), memory_function.extra_repr()
    return Load(torch.tensor(counts), stable, recalled, features, flips / features, float(threshold), *names)
