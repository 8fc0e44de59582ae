"""Continue a network from changed states, with the later inputs of the same sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, State, scan
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.lenses.intervention.scores import Scale, Scores
from mnemoscope.lenses.intervention.sequences import Readout
from mnemoscope.lenses.intervention.state_part import StatePart

MOST_SEQUENCES, MOST_NUMBERS = 4096, 2**22
"""Sequences that run together, and numbers of their changes, at most."""


@dataclass(frozen=True)
class Continuation:
    """Runs the later inputs of sequences from any states."""

    cell: Cell
    read: Readout
    xs: Tensor
    """Inputs (steps, batch, features), or token numbers (steps, batch)."""

    def __call__(self, state: State) -> Float[Tensor, "steps batch outputs"]:
        """Return the answers from one state of each sequence, or from several: first one of each, then the next."""
        copies = len(leaves(state)[0]) // self.xs.shape[1]
        xs = self.xs if copies == 1 else self.xs.repeat(1, copies, *[1] * (self.xs.dim() - 2))
        return self.read(scan(self.cell, xs, state)[0]).double().cpu()


@dataclass(frozen=True)
class Experiment:
    """Sequences whose state can be changed, and the scale on which the effects are measured."""

    run: Continuation
    part: StatePart
    state: State
    """State of each sequence after the step of the change."""
    scale: Scale

    def scores(self, changes: Sequence[Float[Tensor, "batch size"]]) -> list[Scores]:
        """Return the scores of several changes of the state; as many as fit run together."""
        batch, size = changes[0].shape
        together = max(1, min(MOST_SEQUENCES // batch, MOST_NUMBERS // (batch * size)))
        return [
            scores
            for first in range(0, len(changes), together)
            for scores in self._some(changes[first : first + together])
        ]

    def _some(self, changes: Sequence[Float[Tensor, "batch size"]]) -> Iterator[Scores]:
        copies = len(changes)
        states = map_state(lambda tensor: tensor.repeat(copies, *[1] * (tensor.dim() - 1)), self.state)
        changed = self.part.changed(states, torch.cat(tuple(changes)).to(leaves(states)[0].device))
        for outputs in self.run(changed).unflatten(1, (copies, -1)).unbind(1):
            yield self.scale.score(outputs)
