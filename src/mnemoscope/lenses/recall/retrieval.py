"""How many patterns an episodic memory holds, and from how far away it finds one: measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.cells import EpisodicMemory
from mnemoscope.cells.lagrangians import Lagrangian, make_lagrangian
from mnemoscope.lenses.recall.overlap import overlap_with, read_of
from mnemoscope.lenses.recall.sequences import copied, start_of
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETRIEVED = 0.95
"""Overlap above which a pattern counts as retrieved: where firing is all or nothing 2.5% of its signs may be wrong."""


@dataclass(frozen=True)
class Load:
    """Shares of random patterns that a memory of them holds, for each number of patterns and each seed.

    >>> import mnemoscope as ms
    >>> load = ms.measure_load(50, [2, 40], seeds=4)
    >>> [round(share, 1) for share in load.mean("recalled").tolist()]
    [1.0, 0.0]
    """

    memories: Int[Tensor, " loads"]
    stable: Float[Tensor, "loads seeds"]
    """Share of the patterns from which the memory does not go away."""
    recalled: Float[Tensor, "loads seeds"]
    """Share of the patterns that are found from a corrupted start."""
    features: int
    corruption: float
    """Share of signs that were flipped, as a whole number of signs."""
    threshold: float
    sigma_f: str
    sigma_h: str

    def mean(self, which: str = "recalled") -> Float[Tensor, " loads"]:
        """Over the seeds, of "recalled" or "stable"."""
        return self._shares(which).mean(1)

    def error(self, which: str = "recalled") -> Float[Tensor, " loads"]:
        """Standard error of the mean, from the spread over the seeds; NaN for a single seed."""
        shares = self._shares(which)
        if shares.shape[1] == 1:
            return torch.full_like(shares[:, 0], torch.nan)
        return shares.std(1) / sqrt(shares.shape[1])

    def _shares(self, which: str) -> Tensor:
        if which not in ("recalled", "stable"):
            raise ValueError(f'Shares are of "recalled" or "stable" patterns, not {which!r}.')
        return getattr(self, which)

    @property
    def capacity(self) -> float | None:
        """Number of memories, between those tried, at which the share recalled first falls below one half; None where
        it does not, or has done so from the first on.
        """
        return _half(self.memories.double(), self.mean())

    def summary(self) -> str:
        """The result in words."""
        seeds = self.recalled.shape[1]
        what = f"{self.features} features ({self.sigma_f}), memories {self.sigma_h}, {seeds} seed{'s' * (seeds > 1)}"
        most = int(self.memories[-1])
        if self.capacity is not None:
            return (
                f"{what}: half of the patterns are recalled, with {self.corruption:.0%} of signs flipped, up to "
                f"{self.capacity:.3g} memories, {self.capacity / self.features:.3g} per feature."
            )
        if float(self.mean()[0]) < 0.5:
            return f"{what}: less than half of the patterns are recalled from {int(self.memories[0])} memories on."
        return f"{what}: half of the patterns or more are recalled up to {most} memories at least."

    def __repr__(self) -> str:
        return f"Load({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Load.load` reads it back."""
        tensors = {name: getattr(self, name) for name in ("memories", "stable", "recalled")}
        names = ("features", "corruption", "threshold", "sigma_f", "sigma_h")
        save_result(path, "MemoryLoad", tensors, {name: getattr(self, name) for name in names})

    @classmethod
    def load(cls, path: str | Path) -> Load:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "MemoryLoad", "a memory load")
        return cls(**tensors, **flags)

    def figure(self) -> Figure:
        """Shares against the load, with error bars (needs the `report` extra)."""
        from mnemoscope.lenses.recall.figure import draw_load

        return draw_load(self)


@dataclass(frozen=True)
class Basin:
    """From how far away a memory is found: starts with flipped signs that return to it.

    >>> import mnemoscope as ms
    >>> patterns = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)).sign()
    >>> found = ms.measure_basin(ms.cells.EpisodicMemory(patterns), 0, [0.0, 0.2, 0.5], trials=50)
    >>> found.share.tolist()[:2], bool(found.share[2] < 0.5)
    ([1.0, 1.0], True)
    """

    corruptions: Float[Tensor, " corruptions"]
    """Share of signs that were flipped, as a whole number of signs."""
    returned: Int[Tensor, " corruptions"]
    """How many starts came back."""
    trials: int
    which: int
    threshold: float

    @property
    def share(self) -> Float[Tensor, " corruptions"]:
        """That came back."""
        return self.returned.double() / self.trials

    @property
    def interval(self) -> tuple[Float[Tensor, " corruptions"], Float[Tensor, " corruptions"]]:
        """Lowest and highest share that 95% of the samples of so many trials agree with (Wilson 1927)."""
        z, p, n = 1.959963984540054, self.share, self.trials
        middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * (p * (1 - p) / n + z**2 / (4 * n**2)).sqrt()
        return torch.minimum((middle - half).clamp_min(0), p), torch.maximum(
            (middle + half).clamp_max(1), p
        )  # rounding

    @property
    def radius(self) -> float | None:
        """Share of flipped signs, between those tried, at which the share that returns first falls below one half; None
        where it does not, or has done so from the first on.
        """
        return _half(self.corruptions, self.share)

    def summary(self) -> str:
        """The result in words."""
        if float(self.share[0]) < 0.5:
            return f"Memory {self.which} is not found again from {float(self.corruptions[0]):.0%} of flipped signs on."
        if self.radius is None:
            return f"Memory {self.which} is found again up to {float(self.corruptions[-1]):.0%} of flipped signs."
        return f"Memory {self.which} is found again by half of the starts up to {self.radius:.0%} of flipped signs."

    def __repr__(self) -> str:
        return f"Basin({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Basin.load` reads it back."""
        tensors = {"corruptions": self.corruptions, "returned": self.returned}
        save_result(path, "Basin", tensors, {name: getattr(self, name) for name in ("trials", "which", "threshold")})

    @classmethod
    def load(cls, path: str | Path) -> Basin:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Basin", "a basin")
        return cls(**tensors, **flags)

    def figure(self) -> Figure:
        """Share that returns against the share of flipped signs (needs the `report` extra)."""
        from mnemoscope.lenses.recall.figure import draw_basin

        return draw_basin(self)


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
    """Store random patterns of +-1, and see which are held, for each number of them.

    Patterns are stored as they are. With linear memories what drives a feature is as large as there are features, and
    its tanh is a sign: this is the network of Hopfield (1982) in parallel steps, with the diagonal of W left in. Where
    there are many memories that diagonal holds any state in place, so that to stay is no sign of memory; capacity is
    read from recall. With polynomial or softmax memories it is a dense associative memory; those of softmax share out a
    drive of 1, of which tanh is no sign, but the same for all features of a pattern. What is held is told by the
    overlap (see `overlap`), a direction, so that a state which keeps its direction while it fades is held too.
    Features that fire where V_f = 0 (logistic, softmax) drive each memory by the mean of its pattern as well, which
    costs capacity.

    Args:
        features: N_f.
        memories: numbers of patterns, rising.
        sigma_h: nonlinearity of the memories.
        sigma_f: nonlinearity of the features.
        corruption: share of signs that are flipped at the start of a recall; rounded to a whole number of signs.
        seeds: memories that are drawn for each number of patterns.
        tried: patterns of each memory that are tried, at most.
        steps: of the map.
        threshold: overlap above which a pattern counts as held.

    """
    counts = _counts(features, memories, seeds, tried, steps)
    _check_shares([corruption], threshold)
    of_features, of_memories = make_lagrangian(sigma_f), make_lagrangian(sigma_h)
    flips = round(corruption * features)

    def shares(number: int, seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(1000 * seed + number)
        patterns = _signs((features, number), generator)
        memory = copied(EpisodicMemory(patterns, None, of_features, of_memories))
        starts = patterns[:, :tried].mT
        begin = starts, _flipped(starts, flips, generator)
        return [float((_ends(memory, one, steps).diagonal() > threshold).double().mean()) for one in begin]

    found = torch.tensor([[shares(number, seed) for seed in range(seeds)] for number in counts], dtype=torch.float64)
    stable, recalled = found.unbind(2)
    return Load(torch.tensor(counts), stable, recalled, features, flips / features, float(threshold),
                      of_features.extra_repr(), of_memories.extra_repr())  # fmt: skip


def measure_basin(
    memory: EpisodicMemory,
    which: int,
    corruptions: Sequence[float],
    trials: int = 200,
    *,
    seed: int = 0,
    steps: int = 200,
    threshold: float = RETRIEVED,
) -> Basin:
    """Start the discrete map at a stored memory with some signs flipped, and count how often it comes back.

    Args:
        memory: it is copied, and looked at in float64.
        which: the number of the memory; V_f starts as its column with a mean square of 1.
        corruptions: shares of signs that are flipped, rising.
        trials: starts for each of them.
        seed: for which signs are flipped.
        steps: of the map.
        threshold: overlap with the memory above which a start has come back.

    """
    own = copied(memory)
    shares = [float(one) for one in corruptions]
    _check_shares(shares, threshold)
    if not shares or sorted(shares) != shares:
        raise ValueError(f"corruptions must be one or more shares that rise, but are {shares}.")
    for name, count in (("trials", trials), ("steps", steps)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name} must be a whole number, at least 1, but is {count!r}.")
    generator = torch.Generator().manual_seed(seed)
    column = start_of(own, which).expand(trials, -1)
    flips = [round(share * own.features) for share in shares]
    returned = [
        int((_ends(own, _flipped(column, number, generator), steps)[:, which] > threshold).sum()) for number in flips
    ]
    done = torch.tensor(flips, dtype=torch.float64) / own.features
    return Basin(done, torch.tensor(returned), trials, which, float(threshold))


def _half(places: Tensor, shares: Tensor) -> float | None:
    """Where shares first fall below one half, on the line between the two places about it."""
    below = (shares < 0.5).nonzero()[:, 0].tolist()
    if not below or below[0] == 0:
        return None
    after = below[0]
    way = (float(shares[after - 1]) - 0.5) / float(shares[after - 1] - shares[after])
    return float(places[after - 1] + way * (places[after] - places[after - 1]))


def _ends(memory: EpisodicMemory, V_f: Tensor, steps: int) -> Float[Tensor, "starts memories"]:
    """Overlaps after so many steps of the map, or as soon as nothing moves any more."""
    cell = memory.discrete()
    with torch.no_grad():
        nothing, step = cell.prepare(V_f.new_zeros(1, memory.features))
        for _ in range(steps):
            new = step(nothing, V_f)
            still = torch.equal(new, V_f)
            V_f = new
            if still:
                break
        return overlap_with(memory, read_of(memory, V_f))


def _flipped(V_f: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """With so many signs of each row turned, drawn anew for each."""
    chosen = torch.rand(V_f.shape, generator=generator).argsort(1)[:, :number]
    return V_f.scatter(1, chosen, -V_f.gather(1, chosen))


def _signs(shape: tuple[int, int], generator: torch.Generator) -> Float[Tensor, "features memories"]:
    return 2.0 * torch.randint(0, 2, shape, generator=generator).double() - 1


def _counts(features: int, memories: Sequence[int], seeds: int, tried: int, steps: int) -> list[int]:
    counts = [int(number) for number in memories]
    for name, count in (("features", features), ("seeds", seeds), ("tried", tried), ("steps", steps)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name} must be a whole number, at least 1, but is {count!r}.")
    if not counts or min(counts) < 1 or sorted(set(counts)) != counts:
        raise ValueError(f"memories must be one or more whole numbers that rise, each at least 1, but are {counts}.")
    return counts


def _check_shares(corruptions: list[float], threshold: float) -> None:
    for share in corruptions:
        if not 0 <= share <= 1:
            raise ValueError(f"A share of flipped signs lies between 0 and 1, but is {share}.")
    if not 0 < threshold < 1:
        raise ValueError(f"threshold is a cosine between 0 and 1, but is {threshold}.")
