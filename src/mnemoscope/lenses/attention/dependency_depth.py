"""Dependency depth: over how many states a gradient must pass to reach each step (Kerg, 4.4.1 and 4.4.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int


def shortest_paths(
    counted: Bool[Tensor, "time time batch"], taken: Bool[Tensor, "time batch"]
) -> tuple[Int[Tensor, "time batch"], Int[Tensor, "time batch"]]:
    """Return the hidden states and the attention weights on the shortest path from each h to the last s.

    A path is shorter if it passes fewer hidden states, and among these if it uses fewer attention weights. Paths only
    lead forward in time, so one pass back in time finds what a breadth-first search would. Both counts are kept in one
    number, states times `base` plus weights.

    Args:
        counted: whether the attention of step t to the state of step j may be used.
        taken: where there was a step.

    """
    length, batch = taken.shape
    base = length + 2
    unreachable = base * base
    from_s = torch.zeros(length, batch, dtype=torch.long)  # 0 at the last step, where the paths end
    from_h = torch.full((length, batch), unreachable)
    for t in reversed(range(length)):
        if t + 1 < length:
            from_s[t] = torch.where(taken[t + 1], from_h[t + 1] + base, from_s[t + 1])  # without a step, s is held
        attended = (from_s[t:] + 1).masked_fill(~counted[t:, t], unreachable).amin(0)
        from_h[t] = torch.where(taken[t], torch.minimum(from_s[t], attended), unreachable)
    return from_h // base, from_h % base
