"""The attention lens: what a network attended to at every step, what it kept, and why."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells import Cell
from mnemoscope.lenses.attention.dependencies import AttentionDependencies, dependencies
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.memory.attention import Attentive, RelevanceScreen
from mnemoscope.memory.attention.places import Seen
from mnemoscope.memory.attention.slots import Slots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LARGEST = 10**9
"""Weights that are recorded at most, of all sequences."""


@dataclass(frozen=True)
class Attention:
    """What a network attended to (Kerg, Fig 1), and which of its states lay in memory.

    >>> import mnemoscope as ms
    >>> from mnemoscope.networks.attentive import relrnn
    >>> attention = ms.record_attention(relrnn(3, 8, short_term=2, relevant=2), torch.randn(9, 5, 3))
    >>> attention.weights.shape, attention.kept[-1].sum(0).tolist()
    (torch.Size([9, 9, 5]), [4, 4, 4, 4, 4])
    """

    weights: Float[Tensor, "time time batch"]
    """Row t, column j: the attention paid at step t to the state of step j; the mean over heads. A row sums to 1."""
    kept: Bool[Tensor, "time time batch"]
    """Whether the state of step j lay in memory at step t, t itself among them."""
    taken: Bool[Tensor, "time batch"]
    """Where there was a step; rows of others are 0."""
    scores: Float[Tensor, "time batch"] | None = None
    """Relevance beta of each state, by which a screen chose: of states that left the short-term buffer it is final.
    None where nothing was screened."""
    short_term: int = 0
    """Newest states that a screen holds in any case."""
    past: str = ""
    """Which states it may attend to, in words."""

    def __len__(self) -> int:
        """Steps."""
        return self.weights.shape[0]

    @property
    def batch(self) -> int:
        """Sequences."""
        return self.weights.shape[2]

    @property
    def received(self) -> Float[Tensor, "time batch"]:
        """The attention that each state was given in all."""
        return self.weights.sum(0)

    @property
    def age(self) -> Float[Tensor, "time batch"]:
        """How many steps of its own sequence back a step looks, in the mean; NaN where there was none."""
        number = self.taken.to(self.weights).cumsum(0)  # of each step in its own sequence
        back = number - torch.einsum("tjb,jb->tb", self.weights, number)
        return back.masked_fill(~self.taken, torch.nan)

    @property
    def chosen(self) -> Bool[Tensor, "time time batch"]:
        """Which kept states are older than the short-term buffer: those that a screen found relevant."""
        number = self.taken.long().cumsum(0)
        return self.kept & (number.unsqueeze(1) - number.unsqueeze(0) >= self.short_term)

    @property
    def last(self) -> Int[Tensor, " batch"]:
        """The last step of each sequence."""
        steps = torch.arange(len(self)).unsqueeze(1)
        return steps.masked_fill(~self.taken, 0).amax(0)

    @property
    def primacy(self) -> Float[Tensor, " batch"]:
        """Of the n states that a screen holds at the end as relevant, the share that are among the first n that came;
        NaN where there are none. 1 where it kept what came first, whatever it was.
        """
        held = self.chosen[self.last, :, torch.arange(self.batch)].T
        number = self.taken.long().cumsum(0)
        first = held & (number <= held.sum(0))
        return first.sum(0) / held.sum(0).to(self.weights)

    def dependencies(self, threshold: float | None = None) -> AttentionDependencies:
        """Sparsity and dependency depth of these weights; a weight counts above `threshold`."""
        return dependencies(self, threshold)

    def summary(self) -> str:
        """The result in words."""
        back = self.age[self.taken]
        said = [
            f"{self.batch} sequence{'s' if self.batch > 1 else ''} of up to {len(self)} steps. A step looks "
            f"{float(back.mean()):.1f} steps back in the mean."
        ]
        if self.scores is not None:
            old = self.weights.masked_fill(~self.chosen, 0.0).sum(1)[self.taken]
            said.append(
                f"Of its attention {float(old.mean()):.0%} goes to states older than the {self.short_term} newest."
            )
            primacy = float(self.primacy.nanmean())
            said += [f"Of those held at the end {primacy:.0%} are the first that came."] * (not isnan(primacy))
        return " ".join(said)

    def __repr__(self) -> str:
        return f"Attention({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Attention.load` reads it back."""
        tensors = {"weights": self.weights, "kept": self.kept, "taken": self.taken}
        tensors |= {} if self.scores is None else {"scores": self.scores}
        save_result(path, "Attention", tensors, {"short_term": self.short_term, "past": self.past})

    @classmethod
    def load(cls, path: str | Path) -> Attention:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Attention", "attention")
        return cls(**tensors, **flags)

    def figure(self, sample: int = 0) -> Figure:
        """The weights, and what was kept by which score, of one sequence (needs the `report` extra)."""
        from mnemoscope.lenses.attention.figure import draw_attention

        return draw_attention(self, sample)


def record_attention(cell: Cell, xs: Float[Tensor, "time batch features"], mask: Tensor | None = None) -> Attention:
    """What `cell` attends to along `xs`, from its initial state; time^2 numbers of each sequence.

    A copy of the cell runs in float64. Where two relevances differ by less than float32 tells apart, the cell itself
    may keep the other state.

    Args:
        cell: attends to its past.
        xs: inputs (time, batch, features), as the cell sees them.
        mask: (time, batch), False where a sequence has no input.

    >>> from mnemoscope.networks.attentive import memrnn
    >>> cell = memrnn(3, 8)
    >>> _ = torch.nn.init.zeros_(cell.alignment.direction)  # all states are aligned alike
    >>> record_attention(cell, torch.randn(4, 1, 3)).weights[3, :, 0].tolist()
    [0.25, 0.25, 0.25, 0.25]

    """
    if not isinstance(cell, Attentive):
        raise TypeError(
            f"Attention is looked at in a cell that attends to its past, as Attentive(cell, FullHistory()), but a "
            f"{type(cell).__name__} was given. Of a model, give its cell."
        )
    frozen = cell.frozen(torch.float64)
    assert isinstance(frozen, Attentive)
    length, batch = xs.shape[:2]
    if length**2 * batch > LARGEST:
        raise ValueError(
            f"The weights of {length} steps to each other, of {batch} sequences, would take "
            f"{8 * length**2 * batch / 2**30:.0f} GiB: give fewer sequences, or shorter ones."
        )
    record = _Record(frozen.past.slots, length, batch, mask, xs.device)
    with torch.no_grad():
        frozen.watched(xs.to(torch.float64), mask=mask, watch=record)
    screened = isinstance(cell.past, RelevanceScreen)
    return Attention(
        weights=record.weights.cpu(),
        kept=record.kept.cpu(),
        taken=record.taken.cpu(),
        scores=record.scores.cpu() if screened else None,
        short_term=cell.past.short_term if isinstance(cell.past, RelevanceScreen) else 0,
        past=str(cell.past),
    )


class _Record:
    """Writes down what a scan tells of each step, in the order of states."""

    def __init__(self, begin: int, length: int, batch: int, mask: Tensor | None, device: torch.device) -> None:
        self.begin = begin  # slots of the initial state, which are empty
        self.weights = torch.zeros(length, length, batch, dtype=torch.float64, device=device)
        self.kept = torch.zeros(length, length, batch, dtype=torch.bool, device=device)
        self.scores = torch.zeros(length, batch, dtype=torch.float64, device=device)
        self.taken = torch.ones(length, batch, dtype=torch.bool, device=device) if mask is None else mask.clone()

    def __call__(self, t: int, seen: Seen, weights: Tensor, slots: Slots) -> None:
        places, valid = seen
        number, batch = weights.shape[:2]
        if isinstance(places, int):
            places = torch.arange(places, device=weights.device).unsqueeze(1).expand(-1, batch)
        there = self.taken[t] if valid is None else self.taken[t] & valid
        self.weights[t] = self._by_state(places, weights.mean(-1) * there)
        self.kept[t] = self._by_state(places, there.double().expand(number, -1)) > 0
        scores = self._by_state(places, slots.score.T[:number].masked_fill(~there, 0.0))
        self.scores = torch.maximum(self.scores, scores)  # a score never falls

    def _by_state(self, places: Tensor, values: Tensor) -> Tensor:
        """Empty slots, whose value is 0, may share a place."""
        length, batch = self.weights.shape[1:]
        whole = values.new_zeros(self.begin + length, batch, dtype=torch.float64)
        return whole.scatter_add_(0, places, values)[self.begin :]
