"""Recall from corrupted starts, measured: how many random patterns a memory holds, and the basin of one memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EpisodicMemory
from mnemoscope.cells.lagrangians import Lagrangian, make_lagrangian
from mnemoscope.lenses.bootstrap import wilson_interval
from mnemoscope.lenses.crossings import half_crossing
from mnemoscope.lenses.recall.arguments import frozen_copy, initial_features
from mnemoscope.lenses.recall.overlap import overlap_with, read_features
from mnemoscope.lenses.result import Result

RETRIEVED = 0.95
"""Overlap above which a pattern counts as retrieved; if rates are all or nothing, 2.5% of its signs may be wrong."""


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
        """Number of memories at which the mean share recalled falls below one half, as in `half_crossing`."""
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


@dataclass(frozen=True, repr=False)
class RecallBasin(Result):
    """Starts with flipped signs that return to a stored memory.

    >>> import mnemoscope as ms
    >>> patterns = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)).sign()
    >>> found = ms.measure_recall_basin(ms.cells.EpisodicMemory(patterns), 0, [0.0, 0.2, 0.5], trials=50)
    >>> found.share.tolist()[:2], bool(found.share[2] < 0.5)
    ([1.0, 1.0], True)
    """

    noun: ClassVar[str] = "a basin of recall"
    drawn_by: ClassVar[str] = "draw_recall_basin"
    former_kinds: ClassVar[tuple[str, ...]] = ("Basin",)
    former_fields: ClassVar[dict[str, str]] = {"which": "index"}

    corruptions: Float[Tensor, " corruptions"]
    """Shares of flipped signs, rounded to whole numbers of signs."""
    returned: Int[Tensor, " corruptions"]
    """Number of starts that returned."""
    trials: int
    """Starts for each share."""
    index: int
    """Number of the memory."""
    threshold: float
    """Overlap above which a start counts as returned."""

    @property
    def share(self) -> Float[Tensor, " corruptions"]:
        """Share of the starts that returned."""
        return self.returned.double() / self.trials

    @property
    def interval(self) -> tuple[Float[Tensor, " corruptions"], Float[Tensor, " corruptions"]]:
        """Lower and upper edge of the 95% confidence interval of `share` (Wilson 1927)."""
        return wilson_interval(self.returned, self.trials)

    @property
    def radius(self) -> float | None:
        """Share of flipped signs at which `share` falls below one half, as in `half_crossing`."""
        return half_crossing(self.corruptions, self.share)

    def summary(self) -> str:
        if float(self.share[0]) < 0.5:
            return f"Memory {self.index} is not recalled from {float(self.corruptions[0]):.0%} of flipped signs on."
        if self.radius is None:
            return f"Memory {self.index} is recalled up to {float(self.corruptions[-1]):.0%} of flipped signs."
        return f"Memory {self.index} is recalled from half of the starts up to {self.radius:.0%} of flipped signs."


@show_slow("load")
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
    _check_shares([corruption], threshold)
    feature_function, memory_function = make_lagrangian(sigma_f), make_lagrangian(sigma_h)
    flips = round(corruption * features)

    def shares(number: int, seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(1000 * seed + number)
        patterns = 2.0 * torch.randint(0, 2, (features, number), generator=generator).double() - 1
        memory = frozen_copy(EpisodicMemory(patterns, None, feature_function, memory_function))
        clean = patterns[:, :tried].mT
        corrupted = _flip_signs(clean, flips, generator)
        overlaps = [_final_overlaps(memory, start, steps).diagonal() for start in (clean, corrupted)]
        return [float((overlap > threshold).double().mean()) for overlap in overlaps]

    found = torch.tensor([[shares(number, seed) for seed in range(seeds)] for number in counts], dtype=torch.float64)
    stable, recalled = found.unbind(2)
    names = feature_function.extra_repr(), memory_function.extra_repr()
    return Load(torch.tensor(counts), stable, recalled, features, flips / features, float(threshold), *names)


@show_slow("recall basin")
def measure_recall_basin(
    memory: EpisodicMemory,
    index: int,
    corruptions: Sequence[float],
    trials: int = 200,
    *,
    seed: int = 0,
    steps: int = 200,
    threshold: float = RETRIEVED,
) -> RecallBasin:
    """Start the discrete map at a stored memory with some signs flipped, and count how often it returns.

    Args:
        memory: episodic memory; it is copied to float64.
        index: number of the memory; V_f starts as its column with a mean square of 1.
        corruptions: shares of flipped signs, in rising order.
        trials: starts for each share.
        seed: seed of the choice of signs.
        steps: steps of the map.
        threshold: overlap with the memory above which a start counts as returned.

    """
    memory = frozen_copy(memory)
    shares = [float(share) for share in corruptions]
    _check_shares(shares, threshold)
    if not shares or sorted(shares) != shares:
        raise ValueError(f"corruptions must be one or more shares that rise, but are {shares}.")
    check_whole(1, trials=trials, steps=steps)
    generator = seeded_generator(seed)
    column = initial_features(memory, index).expand(trials, -1)
    flips = [round(share * memory.features) for share in shares]
    overlaps = [_final_overlaps(memory, _flip_signs(column, number, generator), steps)[:, index] for number in flips]
    returned = torch.tensor([int((overlap > threshold).sum()) for overlap in overlaps])
    flipped = torch.tensor(flips, dtype=torch.float64) / memory.features
    return RecallBasin(flipped, returned, trials, index, float(threshold))


def _final_overlaps(memory: EpisodicMemory, V_f: Tensor, steps: int) -> Float[Tensor, "starts memories"]:
    """Return the overlaps after `steps` steps of the map, or once the state is constant."""
    cell = memory.discrete()
    with torch.no_grad():
        nothing, step = cell.prepare(V_f.new_zeros(1, memory.features))
        for _ in range(steps):
            last, V_f = V_f, step(nothing, V_f)
            if torch.equal(V_f, last):
                break
        return overlap_with(memory, read_features(memory, V_f))


def _flip_signs(V_f: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Return V_f with `number` random signs of each row flipped."""
    chosen = torch.rand(V_f.shape, generator=generator).argsort(1)[:, :number]
    return V_f.scatter(1, chosen, -V_f.gather(1, chosen))


def _check_shares(corruptions: list[float], threshold: float) -> None:
    """Raise unless shares of flipped signs are in [0, 1] and the threshold is in (0, 1)."""
    for share in corruptions:
        if not 0 <= share <= 1:
            raise ValueError(f"A share of flipped signs lies between 0 and 1, but is {share}.")
    if not 0 < threshold < 1:
        raise ValueError(f"threshold is a cosine between 0 and 1, but is {threshold}.")
