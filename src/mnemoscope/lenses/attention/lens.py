"""The attention lens: record what a network attends to at every step, which states it keeps, and their scores."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.cells import Cell, Lengths, read_inputs
from mnemoscope.lenses.attention.result import Attention
from mnemoscope.memory.attention import Attentive, RelevanceScreen
from mnemoscope.memory.attention.scan_memory import Attended
from mnemoscope.memory.attention.state import Slots

LARGEST = 10**9
"""Most weights that are recorded, over all sequences."""


@show_slow("attention")
def record_attention(
    cell: Cell,
    xs: Float[Tensor, "time batch features"] | PackedSequence,
    mask: Tensor | None = None,
    *,
    lengths: Lengths | None = None,
) -> Attention:
    """Record what `cell` attends to along `xs`, from its initial state; this takes time^2 numbers per sequence.

    A copy of the cell runs in float64. If two relevances differ by less than the resolution of float32, the original
    cell may keep the other state.

    Args:
        cell: a cell that attends to its past.
        xs: inputs (time, batch, features) of the cell.
        mask: (time, batch), False where a sequence has no input.
        lengths: number of steps of each sequence, instead of a mask.

    >>> from mnemoscope.networks.attentive import memrnn
    >>> cell = memrnn(3, 8)
    >>> _ = torch.nn.init.zeros_(cell.alignment.direction)  # all states get the same score
    >>> record_attention(cell, torch.randn(4, 1, 3)).weights[3, :, 0].tolist()
    [0.25, 0.25, 0.25, 0.25]

    """
    if not isinstance(cell, Attentive):
        raise TypeError(
            f"Attention is recorded from a cell that attends to its past, as Attentive(cell, FullHistory()), but a "
            f"{type(cell).__name__} was given. For a model, pass its cell."
        )
    frozen = cell.frozen(torch.float64)
    assert isinstance(frozen, Attentive)
    given = read_inputs(xs, batch_first=cell.batch_first, mask=mask, lengths=lengths)
    length, batch = given.xs.shape[:2]
    if length**2 * batch > LARGEST:
        raise ValueError(
            f"The weights of {length} steps to each other, for {batch} sequences, would take "
            f"{8 * length**2 * batch / 2**30:.0f} GiB: give fewer sequences, or shorter ones."
        )
    recorder = _Recorder(frozen.past.slots, length, batch, given.mask, given.xs.device)
    with torch.no_grad():
        frozen.scan_outputs(given.xs.to(torch.float64), mask=given.mask, callback=recorder)
    screen = cell.past if isinstance(cell.past, RelevanceScreen) else None
    return Attention(
        weights=recorder.weights.cpu(),
        kept=recorder.kept.cpu(),
        taken=recorder.taken.cpu(),
        scores=None if screen is None else recorder.scores.cpu(),
        short_term=0 if screen is None else screen.short_term,
        past=str(cell.past),
    )


class _Recorder:
    """Collects the weights, kept states and scores of each step of a scan, in the order of states."""

    def __init__(self, initial_slots: int, length: int, batch: int, mask: Tensor | None, device: torch.device) -> None:
        self.initial_slots = initial_slots  # slots of the initial state, which are empty
        self.weights = torch.zeros(length, length, batch, dtype=torch.float64, device=device)
        self.kept = torch.zeros(length, length, batch, dtype=torch.bool, device=device)
        self.scores = torch.zeros(length, batch, dtype=torch.float64, device=device)
        self.taken = torch.ones(length, batch, dtype=torch.bool, device=device) if mask is None else mask.clone()

    def __call__(self, t: int, attended: Attended, weights: Tensor, slots: Slots) -> None:
        places, valid = attended
        number, batch = weights.shape[:2]
        if isinstance(places, int):
            places = torch.arange(places, device=weights.device).unsqueeze(1).expand(-1, batch)
        there = self.taken[t] if valid is None else self.taken[t] & valid
        self.weights[t] = self._by_state(places, weights.mean(-1) * there)
        self.kept[t] = self._by_state(places, there.double().expand(number, -1)) > 0
        scores = self._by_state(places, slots.score.T[:number].masked_fill(~there, 0.0))
        self.scores = torch.maximum(self.scores, scores)  # a score never decreases

    def _by_state(self, places: Tensor, values: Tensor) -> Tensor:
        """Return values by state instead of by slot; empty slots, with value 0, may share a place."""
        length, batch = self.weights.shape[1:]
        everywhere = values.new_zeros(self.initial_slots + length, batch, dtype=torch.float64)
        return everywhere.scatter_add_(0, places, values)[self.initial_slots :]
