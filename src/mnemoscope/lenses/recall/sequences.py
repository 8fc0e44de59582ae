"""Recall of a sequence of stored memories, with the delayed copy frozen for k steps at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EpisodicMemory
from mnemoscope.lenses.recall.overlap import NEARER_THAN_ALL_OTHERS, overlap_with, read_of
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Recall:
    """What an episodic memory recalls, period by period. `batch` runs over the starts.

    >>> import mnemoscope as ms
    >>> Xi = torch.linalg.qr(torch.randn(30, 3, generator=torch.Generator().manual_seed(0)).sign())[0].double()
    >>> memory = ms.cells.EpisodicMemory(2 * Xi, 1.5 * torch.eye(3).roll(1, 1))  # 0 calls for 1, 1 for 2, 2 for 0
    >>> recalled = ms.measure_recall(memory, 0, periods=7)
    >>> recalled.sequence[:, 0].tolist(), bool(recalled.exact.all())
    ([1, 2, 0, 1, 2, 0, 1], True)
    """

    states: Float[Tensor, "steps batch features"]
    """V_f at the start and after every inner step."""
    delayed: Float[Tensor, "periods batch features"]
    """V_d, frozen during each period."""
    overlaps: Float[Tensor, "steps batch memories"]
    """Cosine of V_f, by what it fires (see `overlap`), with each memory; negative where that is reversed."""
    k: int
    """Inner steps of a period."""
    threshold: float
    """Overlap above which a memory counts as recalled."""
    expected: Int[Tensor, "periods batch"] | None = None
    """The memory that Phi predicts from the start on; None where Phi calls for several at once."""
    expected_sign: Int[Tensor, "periods batch"] | None = None
    """1, or -1 where it is predicted to come reversed."""

    @property
    def periods(self) -> int:
        """How often V_d was renewed."""
        return self.delayed.shape[0]

    @property
    def at_ends(self) -> Float[Tensor, "periods batch memories"]:
        """Overlaps at the end of each period."""
        return self.overlaps[self.k :: self.k]

    @property
    def sequence(self) -> Int[Tensor, "periods batch"]:
        """The memory that the end of each period is nearest to, as it is or reversed."""
        return self.at_ends.abs().argmax(2)

    @property
    def overlap(self) -> Float[Tensor, "periods batch"]:
        """Overlap with that memory."""
        return self.at_ends.gather(2, self.sequence.unsqueeze(2)).squeeze(2)

    @property
    def margin(self) -> Float[Tensor, "periods batch"]:
        """How much nearer that memory is than the next, in cosines: the confidence."""
        if self.overlaps.shape[2] == 1:
            return self.overlap.abs()
        best, second = self.at_ends.abs().topk(2, dim=2).values.unbind(2)
        return best - second

    @property
    def exact(self) -> Bool[Tensor, "periods batch"]:
        """Whether a period ends at the memory that Phi predicts from the start on, with its sign."""
        if self.expected is None or self.expected_sign is None:
            raise ValueError(
                "Phi calls for several memories at once, so that it predicts no sequence; look at `sequence`."
            )
        right = (self.sequence == self.expected) & (self.overlap.sign().long() == self.expected_sign)
        return right & (self.overlap.abs() > self.threshold)

    def summary(self) -> str:
        """The result in words."""
        return " ".join(_sentences(self))

    def __repr__(self) -> str:
        return f"Recall({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Recall.load` reads it back."""
        names = ("states", "delayed", "overlaps", "expected", "expected_sign")
        tensors = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        save_result(path, "Recall", tensors, {"k": self.k, "threshold": self.threshold})

    @classmethod
    def load(cls, path: str | Path) -> Recall:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Recall", "a recall")
        return cls(**tensors, **flags)

    def figure(self, which: int = 0) -> Figure:
        """Overlaps over time, and how sure each period is, of one start (needs the `report` extra)."""
        from mnemoscope.lenses.recall.figure import draw_recall

        return draw_recall(self, which)


def measure_recall(
    memory: EpisodicMemory,
    start: int | Float[Tensor, "batch features"],
    periods: int,
    k: int = 20,
    *,
    threshold: float = NEARER_THAN_ALL_OTHERS,
) -> Recall:
    """Recall a sequence: k steps with the delayed copy y frozen, then y takes what the features fire, and so on.

    An inner step is `x+ = sqrt(alpha_s) Xi sigma_h(sqrt(alpha_s) Xi^T sigma_f(x) + alpha_c Phi^T Xi^T y)`. While y is
    frozen an energy falls (L_f, L_h are convex), so that the features settle; y near memory a calls for memory b by
    `Phi[a, b]`. With k = 1 this is the map of Eq 8 of Karuvally et al. (2023).

    Args:
        memory: what is to recall. It is copied, and looked at in float64; its time constants play no part.
        start: V_f (batch, features), or the number of a memory: V_f is then that column with a mean square of 1. The
            delayed copy starts with what these fire.
        periods: how often the delayed copy is renewed.
        k: inner steps of a period.
        threshold: overlap above which a memory counts as recalled.

    """
    own = copied(memory)
    check_whole(1, periods=periods, k=k)
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold is a cosine from 0 to below 1, but is {threshold}.")
    with torch.no_grad():
        x = start_of(own, start)
        states, delayed = [x], []
        for _ in range(periods):
            y = own.sigma_f(x)
            delayed.append(y)
            for _ in range(k):
                x = own.feature_drive(own.memory_drive(own.sigma_f(x), y))
                states.append(x)
        overlaps = overlap_with(own, read_of(own, torch.stack(states)))
        expected = _predicted(own, overlaps[0], periods)
    return Recall(torch.stack(states), torch.stack(delayed), overlaps, k, threshold, *expected)


def successors(memory: EpisodicMemory) -> tuple[Int[Tensor, " memories"], Int[Tensor, " memories"]] | None:
    """Which memory each one calls for, and with which sign; itself where it calls for none. None where one calls for
    several.

    >>> successors(EpisodicMemory(torch.eye(3), torch.tensor([[0.0, 2, 0], [0, 0, -1], [0, 0, 0]])))
    (tensor([1, 2, 2]), tensor([ 1, -1,  1]))
    """
    calls = (memory.alpha_c * memory.Phi).detach()
    there = calls.abs() > 1e-9 * calls.abs().max().clamp_min(torch.finfo(calls.dtype).tiny)
    if bool((there.sum(1) > 1).any()):
        return None
    own = torch.arange(memory.memories, device=calls.device)
    silent = ~there.any(1)
    signs = calls.sum(1).sign().long()
    return torch.where(silent, own, there.long().argmax(1)), torch.where(silent, 1, signs)


def start_of(memory: EpisodicMemory, start: int | Tensor) -> Float[Tensor, "batch features"]:
    """V_f of a start: as it is given, or a column of Xi with a mean square of 1."""
    if isinstance(start, Tensor):
        if start.dim() != 2 or start.shape[1] != memory.features or len(start) == 0:
            raise ValueError(
                f"A start is the number of a memory, or V_f of shape (batch, {memory.features}), but has shape "
                f"{tuple(start.shape)}."
            )
        if not start.is_floating_point() or not torch.isfinite(start).all():
            raise ValueError("V_f at the start must be real and finite.")
        return start.detach().to(memory.Xi)
    if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start < memory.memories:
        raise ValueError(f"There are {memory.memories} memories, 0 to {memory.memories - 1}, but start is {start!r}.")
    column = memory.Xi[:, start]
    size = column.square().mean().sqrt()
    if size == 0:
        raise ValueError(f"Memory {start} is empty: its column of Xi is 0.")
    return (column / size).unsqueeze(0)


def copied(memory: EpisodicMemory) -> EpisodicMemory:
    """A constant copy in float64, of an episodic memory only."""
    if not isinstance(memory, EpisodicMemory):
        raise TypeError(f"An EpisodicMemory is wanted, but a {type(memory).__name__} was given.")
    own = memory.frozen(torch.float64)
    assert isinstance(own, EpisodicMemory)
    return own


def _predicted(memory: EpisodicMemory, overlaps: Tensor, periods: int) -> tuple[Tensor, Tensor] | tuple[None, None]:
    found = successors(memory)
    if found is None:
        return None, None
    follows, turns = found
    now = overlaps.abs().argmax(1)
    sign = overlaps.gather(1, now.unsqueeze(1)).squeeze(1).sign().long()
    memories, signs = [], []
    for _ in range(periods):
        now, sign = follows[now], sign * turns[now]
        memories.append(now)
        signs.append(sign)
    return torch.stack(memories), torch.stack(signs)


def _sentences(seen: Recall) -> list[str]:
    starts = seen.states.shape[1]
    said = [f"{seen.periods} period{'s' * (seen.periods > 1)} of {seen.k} inner step{'s' * (seen.k > 1)} from "
            f"{starts} start{'s' * (starts > 1)}."]  # fmt: skip
    if seen.expected is not None:
        right = seen.exact
        said.append(f"{float(right.double().mean()):.0%} of the periods end at the memory that Phi predicts, "
                    f"{int(right.all(0).sum())} of {starts} starts in every period.")  # fmt: skip
    else:
        said.append("Phi calls for several memories at once, and so predicts no sequence.")
    said.append(f"Overlap with the nearest memory {float(seen.overlap.abs().min()):.2f} or more, margin over the next "
                f"{float(seen.margin.min()):.2f} or more.")  # fmt: skip
    return said
