"""Basin of a stored memory: from how many flipped signs it is recalled, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EpisodicMemory
from mnemoscope.lenses.recall.arguments import check_shares, frozen_copy, initial_features
from mnemoscope.lenses.recall.corruption import RETRIEVED, final_overlaps, flip_signs, half_crossing
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Basin(Result):
    """Starts with flipped signs that return to a stored memory.

    >>> import mnemoscope as ms
    >>> patterns = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)).sign()
    >>> found = ms.measure_basin(ms.cells.EpisodicMemory(patterns), 0, [0.0, 0.2, 0.5], trials=50)
    >>> found.share.tolist()[:2], bool(found.share[2] < 0.5)
    ([1.0, 1.0], True)
    """

    noun: ClassVar[str] = "a basin"
    drawn_by: ClassVar[str] = "draw_basin"
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
        z, p, n = 1.959963984540054, self.share, self.trials
        middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * (p * (1 - p) / n + z**2 / (4 * n**2)).sqrt()
        low, high = (middle - half).clamp_min(0), (middle + half).clamp_max(1)
        return torch.minimum(low, p), torch.maximum(high, p)  # rounding may exclude p

    @property
    def radius(self) -> float | None:
        """Share of flipped signs at which `share` first falls below one half, by linear interpolation.

        It is None if the share never does, or is below from the first corruption on.
        """
        return half_crossing(self.corruptions, self.share)

    def summary(self) -> str:
        if float(self.share[0]) < 0.5:
            return f"Memory {self.index} is not recalled from {float(self.corruptions[0]):.0%} of flipped signs on."
        if self.radius is None:
            return f"Memory {self.index} is recalled up to {float(self.corruptions[-1]):.0%} of flipped signs."
        return f"Memory {self.index} is recalled from half of the starts up to {self.radius:.0%} of flipped signs."


def measure_basin(
    memory: EpisodicMemory,
    index: int,
    corruptions: Sequence[float],
    trials: int = 200,
    *,
    seed: int = 0,
    steps: int = 200,
    threshold: float = RETRIEVED,
) -> Basin:
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
    check_shares(shares, threshold)
    if not shares or sorted(shares) != shares:
        raise ValueError(f"corruptions must be one or more shares that rise, but are {shares}.")
    check_whole(1, trials=trials, steps=steps)
    generator = torch.Generator().manual_seed(seed)
    column = initial_features(memory, index).expand(trials, -1)
    flips = [round(share * memory.features) for share in shares]
    overlaps = [final_overlaps(memory, flip_signs(column, number, generator), steps)[:, index] for number in flips]
    returned = torch.tensor([int((overlap > threshold).sum()) for overlap in overlaps])
    flipped = torch.tensor(flips, dtype=torch.float64) / memory.features
    return Basin(flipped, returned, trials, index, float(threshold))
