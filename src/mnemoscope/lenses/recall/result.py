"""The answer of the recall lens: which memory each period ends at, and how clearly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Recall(Result):
    """Memories that an episodic memory recalls, period by period. `batch` runs over the starts.

    >>> import torch, mnemoscope as ms
    >>> Xi = torch.linalg.qr(torch.randn(30, 3, generator=torch.Generator().manual_seed(0)).sign())[0].double()
    >>> memory = ms.cells.EpisodicMemory(2 * Xi, 1.5 * torch.eye(3).roll(1, 1))  # 0 calls for 1, 1 for 2, 2 for 0
    >>> recalled = ms.measure_recall(memory, 0, periods=7)
    >>> recalled.sequence[:, 0].tolist(), bool(recalled.exact.all())
    ([1, 2, 0, 1, 2, 0, 1], True)
    """

    noun: ClassVar[str] = "a recall"
    drawn_by: ClassVar[str] = "draw_recall"

    states: Float[Tensor, "steps batch features"]
    """V_f at the start and after every inner step."""
    delayed: Float[Tensor, "periods batch features"]
    """V_d, frozen during each period."""
    overlaps: Float[Tensor, "steps batch memories"]
    """Overlap of V_f with each memory (see `overlap`); negative if the memory is recalled reversed."""
    k: int
    """Inner steps of a period."""
    threshold: float
    """Overlap above which a memory counts as recalled."""
    expected: Int[Tensor, "periods batch"] | None = None
    """Memories that Phi predicts from the start on; None if a memory calls for several."""
    expected_sign: Int[Tensor, "periods batch"] | None = None
    """1, or -1 if the memory is predicted to be reversed."""

    @property
    def periods(self) -> int:
        """Number of updates of V_d."""
        return self.delayed.shape[0]

    @property
    def at_ends(self) -> Float[Tensor, "periods batch memories"]:
        """Overlaps at the end of each period."""
        return self.overlaps[self.k :: self.k]

    @property
    def sequence(self) -> Int[Tensor, "periods batch"]:
        """Memory nearest to the end of each period, whatever its sign."""
        return self.at_ends.abs().argmax(2)

    @property
    def overlap(self) -> Float[Tensor, "periods batch"]:
        """Overlap with the nearest memory at the end of each period."""
        return self.at_ends.gather(2, self.sequence.unsqueeze(2)).squeeze(2)

    @property
    def margin(self) -> Float[Tensor, "periods batch"]:
        """Confidence: the |overlap| with the nearest memory minus that with the second nearest."""
        if self.overlaps.shape[2] == 1:
            return self.overlap.abs()
        best, second = self.at_ends.abs().topk(2, dim=2).values.unbind(2)
        return best - second

    @property
    def exact(self) -> Bool[Tensor, "periods batch"]:
        """Whether a period ends at the memory that Phi predicts from the start on, with its sign."""
        if self.expected is None or self.expected_sign is None:
            raise ValueError("Phi calls for several memories at once, so it predicts no sequence; use `sequence`.")
        right = (self.sequence == self.expected) & (self.overlap.sign().long() == self.expected_sign)
        return right & (self.overlap.abs() > self.threshold)

    def summary(self) -> str:
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        starts = self.states.shape[1]
        counts = ((self.periods, "period"), (self.k, "inner step"), (starts, "start"))
        periods, steps, runs = (f"{number} {noun}{'s' * (number > 1)}" for number, noun in counts)
        yield f"{periods} of {steps} from {runs}."
        if self.expected is not None:
            right = self.exact
            yield (
                f"{float(right.double().mean()):.0%} of the periods end at the memory that Phi predicts, "
                f"{int(right.all(0).sum())} of {starts} starts in every period."
            )
        else:
            yield "Phi calls for several memories at once, so it predicts no sequence."
        yield (
            f"The overlap with the nearest memory is at least {float(self.overlap.abs().min()):.2f}, the margin over "
            f"the next at least {float(self.margin.min()):.2f}."
        )
