"""Results of the attention lens: recorded attention, and the sparsity and dependency depth measured from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.plurals import pluralise
from mnemoscope.lenses.result import Result

NO_STEP = -1
"""Value of `AttentionDependencies` where a sequence has no step."""


@dataclass(frozen=True, repr=False)
class AttentionDependencies(Result):
    """Sparsity and dependency depth of attention weights (Kerg, 4.4.1 and 4.4.3).

    A gradient passes from s_T back to h_t over hidden states h_{t+i+1}. It leaves h_t through s_t, with a factor of at
    least 1, or through a later s, with the weight of that attention. The recurrent step, with its Jacobian, leads from
    s to the next h (Proposition 4.4.1: `E = 1_{k=0} + alpha`, `F = (alpha + 1_{k=j}) J`, with s = h + c). The depth
    counts the hidden states on the path, which is the number of Jacobians. A chain of depth s has s + 1 factors:
    `skips` attention weights, and others of 1 or more.
    """

    noun: ClassVar[str] = "dependencies"
    drawn_by: ClassVar[str] = "draw_dependencies"
    former_kinds: ClassVar[tuple[str, ...]] = ("Dependencies",)

    kappa: Int[Tensor, "time batch"]
    """Number of weights above the threshold at each step; -1 where there was no step."""
    depth: Int[Tensor, "time batch"]
    """Fewest hidden states between h_t and the last s, over weights above the threshold only; 0 where the last step
    attends to h_t itself."""
    skips: Int[Tensor, "time batch"]
    """Fewest attention weights on any path of this depth; at most depth + 1."""
    threshold: Float[Tensor, "time batch"]
    """Threshold that a weight of a step must exceed to count."""

    @property
    def sparsity(self) -> int:
        """kappa: the largest number of weights that count at any step."""
        return int(self.kappa.max())

    @property
    def maximal_depth(self) -> int:
        """d: the largest depth of any step."""
        return int(self.depth.max())

    def summary(self) -> str:
        there = self.kappa != NO_STEP
        kappa, depth = self.kappa[there].double().mean(), self.depth[there].double().mean()
        return (
            f"At each step {float(kappa):.1f} weights exceed the threshold on average, {self.sparsity} at most. From "
            f"the last step back to a state, a gradient passes {float(depth):.1f} other states on average, "
            f"{self.maximal_depth} at most."
        )


@dataclass(frozen=True, repr=False)
class Attention(Result):
    """The states that a network attended to (Kerg, Fig 1), and those that were in its memory.

    >>> import mnemoscope as ms
    >>> from mnemoscope.networks.attentive import relrnn
    >>> attention = ms.record_attention(relrnn(3, 8, short_term=2, relevant=2), torch.randn(9, 5, 3))
    >>> attention.weights.shape, attention.kept[-1].sum(0).tolist()
    (torch.Size([9, 9, 5]), [4, 4, 4, 4, 4])
    """

    noun: ClassVar[str] = "attention"
    drawn_by: ClassVar[str] = "draw_attention"

    weights: Float[Tensor, "time time batch"]
    """Row t, column j: attention paid at step t to the state of step j, averaged over heads. A row sums to 1."""
    kept: Bool[Tensor, "time time batch"]
    """Whether the state of step j was in memory at step t; the present state is included."""
    taken: Bool[Tensor, "time batch"]
    """Whether a sequence has a step here; the rows of other steps are 0."""
    scores: Float[Tensor, "time batch"] | None = None
    """Relevance beta of each state, by which a screen chose; final for states that left the short-term buffer. None
    without a screen."""
    short_term: int = 0
    """Number of newest states that a screen always holds."""
    past: str = ""
    """Description of the states that it may attend to."""

    def __len__(self) -> int:
        """Return the number of steps."""
        return self.weights.shape[0]

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.weights.shape[2]

    @property
    def received(self) -> Float[Tensor, "time batch"]:
        """Total attention that each state received."""
        return self.weights.sum(0)

    @property
    def age(self) -> Float[Tensor, "time batch"]:
        """Mean age of the attended states, in steps of their sequence; NaN where there was no step."""
        number = self.taken.to(self.weights).cumsum(0)  # of each step within its sequence
        back = number - torch.einsum("tjb,jb->tb", self.weights, number)
        return back.masked_fill(~self.taken, torch.nan)

    @property
    def chosen(self) -> Bool[Tensor, "time time batch"]:
        """Kept states older than the short-term buffer: those that a screen found relevant."""
        number = self.taken.long().cumsum(0)
        return self.kept & (number.unsqueeze(1) - number.unsqueeze(0) >= self.short_term)

    @property
    def last(self) -> Int[Tensor, " batch"]:
        """Last step of each sequence."""
        steps = torch.arange(len(self)).unsqueeze(1)
        return steps.masked_fill(~self.taken, 0).amax(0)

    @property
    def primacy(self) -> Float[Tensor, " batch"]:
        """Share of the n relevant states held at the end that are among the first n states; NaN for n = 0.

        It is 1 if the screen kept the first states, whatever they were.
        """
        held = self.chosen[self.last, :, torch.arange(self.batch)].T
        number = self.taken.long().cumsum(0)
        first = held & (number <= held.sum(0))
        return first.sum(0) / held.sum(0).to(self.weights)

    def dependencies(self, threshold: float | None = None) -> AttentionDependencies:
        """Return the sparsity and dependency depth of these weights.

        Args:
            threshold: a weight counts if it exceeds this; by default half of what each state in memory would receive
                under uniform attention, `1 / (2 slots)`.

        If every step attends to the present alone, the path leads back one step at a time; under uniform attention the
        last step reaches every state directly:

        >>> there, on = torch.ones(5, 5).tril().unsqueeze(-1).double(), torch.ones(5, 1, dtype=torch.bool)
        >>> present = Attention(torch.eye(5).double().unsqueeze(-1), there > 0, on)
        >>> present.dependencies().depth.flatten().tolist()
        [4, 3, 2, 1, 0]
        >>> uniform = Attention(there / there.sum(1, keepdim=True), there > 0, on)
        >>> uniform.dependencies().depth.flatten().tolist()
        [0, 0, 0, 0, 0]

        """
        if threshold is None:
            limit = 1 / (2 * self.kept.sum(1).clamp(min=1).to(self.weights))
        elif 0 <= threshold < 1:
            limit = torch.full(self.taken.shape, float(threshold), dtype=self.weights.dtype)
        else:
            raise ValueError(f"A threshold for attention weights must be from 0 to below 1, but {threshold} was given.")
        counted = self.weights > limit.unsqueeze(1)
        depth, skips = _shortest_paths(counted, self.taken)
        kappa, depth, skips = (count.masked_fill(~self.taken, NO_STEP) for count in (counted.sum(1), depth, skips))
        return AttentionDependencies(kappa, depth, skips, limit)

    def summary(self) -> str:
        back = self.age[self.taken]
        sentences = [
            f"{pluralise(self.batch, 'sequence')} of up to {pluralise(len(self), 'step')}. A step attends "
            f"{float(back.mean()):.1f} steps back on average."
        ]
        if self.scores is not None:
            old = self.weights.masked_fill(~self.chosen, 0.0).sum(1)[self.taken]
            sentences.append(
                f"{float(old.mean()):.0%} of the attention goes to states older than the {self.short_term} newest."
            )
            primacy = float(self.primacy.nanmean())
            if not isnan(primacy):
                sentences.append(f"{primacy:.0%} of the relevant states held at the end are the first ones seen.")
        return " ".join(sentences)


def _shortest_paths(
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
