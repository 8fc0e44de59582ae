"""How sparse attention is, and over how many states a gradient must go to reach each step (Kerg, 4.4.1 and 4.4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from mnemoscope.lenses.attention.lens import Attention

NONE = -1
"""Where there was no step."""


@dataclass(frozen=True)
class AttentionDependencies:
    """Sparsity and dependency depth, measured from attention weights.

    A gradient goes from s_T back to h_t over hidden states h_{t+i+1}. From h_t it is read by s_t itself, with a factor
    of at least 1, or by a later s, with the weight of that attention; from s to the next h leads the recurrent step and
    its Jacobian (Proposition 4.4.1: `E = 1_{k=0} + alpha`, `F = (alpha + 1_{k=j}) J` where s = h + c). The depth counts
    the hidden states on the way, which is the number of Jacobians; a chain of depth s has s + 1 factors, of which
    `skips` are attention and the others are 1 or more.
    """

    kappa: Int[Tensor, "time batch"]
    """Weights above the threshold at each step; -1 where there was none."""
    depth: Int[Tensor, "time batch"]
    """Fewest hidden states between h_t and the last s, over weights above the threshold alone. 0 where the last step
    attends to h_t itself."""
    skips: Int[Tensor, "time batch"]
    """Attention weights along such a way: of all ways of this depth, one with the fewest. At most depth + 1."""
    threshold: Float[Tensor, "time batch"]
    """What a weight of a step must exceed to count."""

    @property
    def sparsity(self) -> int:
        """kappa: the most weights that count at any step."""
        return int(self.kappa.max())

    @property
    def maximal_depth(self) -> int:
        """d: the largest depth of any step."""
        return int(self.depth.max())

    def summary(self) -> str:
        """The result in words."""
        there = self.kappa != NONE
        kappa, depth = self.kappa[there].double().mean(), self.depth[there].double().mean()
        return (
            f"{float(kappa):.1f} weights of a step count in the mean, {self.sparsity} at most. From the last step back "
            f"to a state a gradient passes {float(depth):.1f} other states in the mean, {self.maximal_depth} at most."
        )

    def __repr__(self) -> str:
        return f"AttentionDependencies({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `AttentionDependencies.load` reads it back."""
        names = ("kappa", "depth", "skips", "threshold")
        save_result(path, "Dependencies", {name: getattr(self, name).clone() for name in names}, {})

    @classmethod
    def load(cls, path: str | Path) -> AttentionDependencies:
        """Read what `save` wrote."""
        return cls(**load_result(path, "Dependencies", "dependencies")[0])


def dependencies(attention: Attention, threshold: float | None = None) -> AttentionDependencies:
    """Sparsity and dependency depth of recorded attention.

    Args:
        attention: weights of every step.
        threshold: what a weight must exceed to count; by default, half of what each state in memory would get if all
            were attended to alike, `1 / (2 slots)`.

    One step back after the other, where nothing but the present is attended to; at once, where all is:

    >>> from mnemoscope.lenses.attention.lens import Attention
    >>> there, on = torch.ones(5, 5).tril().unsqueeze(-1).double(), torch.ones(5, 1, dtype=torch.bool)
    >>> present = Attention(torch.eye(5).double().unsqueeze(-1), there > 0, on)
    >>> dependencies(present).depth.flatten().tolist()
    [4, 3, 2, 1, 0]
    >>> uniform = Attention(there / there.sum(1, keepdim=True), there > 0, on)
    >>> dependencies(uniform).depth.flatten().tolist()
    [0, 0, 0, 0, 0]

    """
    weights, taken = attention.weights, attention.taken
    if threshold is None:
        limit = 1 / (2 * attention.kept.sum(1).clamp(min=1).to(weights))
    elif 0 <= threshold < 1:
        limit = torch.full(taken.shape, float(threshold), dtype=weights.dtype)
    else:
        raise ValueError(f"A threshold for weights of attention lies from 0 to below 1, but {threshold} was given.")
    counted = weights > limit.unsqueeze(1)
    depth, skips = _fewest(counted, taken)
    kappa = counted.sum(1).masked_fill(~taken, NONE)
    return AttentionDependencies(kappa, depth.masked_fill(~taken, NONE), skips.masked_fill(~taken, NONE), limit)


def _fewest(counted: Tensor, taken: Tensor) -> tuple[Int[Tensor, "time batch"], Int[Tensor, "time batch"]]:
    """Hidden states and attention weights on the way from each h to the last s, fewest states first.

    Ways lead forward in time alone, so that one pass back in time finds what a breadth-first search would. Both numbers
    are kept in one, states times `base` plus weights.
    """
    length, batch = taken.shape
    base = length + 2
    far = base * base
    from_s = torch.zeros(length, batch, dtype=torch.long)  # 0 at the last step: it is there
    from_h = torch.full((length, batch), far)
    for t in reversed(range(length)):
        if t + 1 < length:
            from_s[t] = torch.where(taken[t + 1], from_h[t + 1] + base, from_s[t + 1])  # no step: s is held
        skipping = (from_s[t:] + 1).masked_fill(~counted[t:, t], far).amin(0)
        from_h[t] = torch.where(taken[t], torch.minimum(from_s[t], skipping), far)
    return from_h // base, from_h % base
