"""Recall of a sequence of stored memories, with the delayed copy frozen for k steps at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EpisodicMemory
from mnemoscope.lenses.recall.arguments import frozen_copy, initial_features
from mnemoscope.lenses.recall.overlap import NEARER_THAN_ALL_OTHERS, overlap_with, read_features
from mnemoscope.lenses.recall.result import Recall


@show_slow("recall")
def measure_recall(
    memory: EpisodicMemory,
    start: int | Float[Tensor, "batch features"],
    periods: int,
    k: int = 20,
    *,
    threshold: float = NEARER_THAN_ALL_OTHERS,
) -> Recall:
    """Recall a sequence: freeze the delayed copy y for k steps, then set it to the rates of the features, and repeat.

    An inner step is `x+ = sqrt(alpha_s) Xi sigma_h(sqrt(alpha_s) Xi^T sigma_f(x) + alpha_c Phi^T Xi^T y)`. While y is
    frozen an energy falls (L_f, L_h are convex), so the features settle; y near memory a calls for memory b by
    `Phi[a, b]`. With k = 1 this is the map of Eq 8 of Karuvally et al. (2023).

    Args:
        memory: episodic memory; it is copied to float64, and its time constants play no role.
        start: V_f (batch, features), or the number of a memory: V_f is then that column with a mean square of 1. The
            delayed copy starts with its rates.
        periods: number of updates of the delayed copy.
        k: inner steps of a period.
        threshold: overlap above which a memory counts as recalled.

    """
    memory = frozen_copy(memory)
    check_whole(1, periods=periods, k=k)
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold is a cosine from 0 to below 1, but is {threshold}.")
    with torch.no_grad():
        x = initial_features(memory, start)
        states, delayed = [x], []
        for _ in range(periods):
            y = memory.sigma_f(x)
            delayed.append(y)
            for _ in range(k):
                x = memory.feature_drive(memory.memory_drive(memory.sigma_f(x), y))
                states.append(x)
        overlaps = overlap_with(memory, read_features(memory, torch.stack(states)))
        expected = _predict(memory, overlaps[0], periods)
    return Recall(torch.stack(states), torch.stack(delayed), overlaps, k, threshold, *expected)


def successors(memory: EpisodicMemory) -> tuple[Int[Tensor, " memories"], Int[Tensor, " memories"]] | None:
    """Return the memory that each one calls for and its sign, or None if one calls for several.

    A memory that calls for none is its own successor.

    >>> successors(EpisodicMemory(torch.eye(3), torch.tensor([[0.0, 2, 0], [0, 0, -1], [0, 0, 0]])))
    (tensor([1, 2, 2]), tensor([ 1, -1,  1]))
    """
    calls = (memory.alpha_c * memory.Phi).detach()
    nonzero = calls.abs() > 1e-9 * calls.abs().max().clamp_min(torch.finfo(calls.dtype).tiny)
    if bool((nonzero.sum(1) > 1).any()):
        return None
    itself = torch.arange(memory.memories, device=calls.device)
    silent = ~nonzero.any(1)
    signs = calls.sum(1).sign().long()
    return torch.where(silent, itself, nonzero.long().argmax(1)), torch.where(silent, 1, signs)


def _predict(memory: EpisodicMemory, overlaps: Tensor, periods: int) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """Return the sequence of memories and signs that Phi predicts from the overlaps at the start."""
    found = successors(memory)
    if found is None:
        return None, None
    successor, successor_sign = found
    now = overlaps.abs().argmax(1)
    sign = overlaps.gather(1, now.unsqueeze(1)).squeeze(1).sign().long()
    memories, signs = [], []
    for _ in range(periods):
        now, sign = successor[now], sign * successor_sign[now]
        memories.append(now)
        signs.append(sign)
    return torch.stack(memories), torch.stack(signs)
