"""Split what a query reads into the value asked for and the interference of all others, and exchange the latter.

What a layer reads at step t is linear in the values v_s that it wrote before,

    q_t^T S_t = sum_{s < t} M_ts v_s + (the rest),      M_ts = q_t^T A_t W_s,      W_s = A_{t-1} ... A_{s+1} k_s,

where the rest is written at t, or comes from the state before the first input. The value asked for is written at its
step, and at later steps to which a convolution or the layers below carry it (`own_parts`). Signal and
interference are the sums over both parts of the values, `v_s = own_s + (v_s - own_s)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Inexact
from mnemoscope.cells import Cell, Model, scan
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import scan_parts, transition
from mnemoscope.cells.state import State, map_state
from mnemoscope.lenses.interference.asked_for import own_parts, values_written
from mnemoscope.lenses.interference.trials import RecallTrials


@dataclass(frozen=True)
class LayerRead:
    """The read of one layer at a step at which values are due, in all sequences."""

    name: str
    """Name of the tensor S in the state of the network."""
    reader: Inexact[Tensor, "batch heads keys"]
    """`A_t^T q_t`, by which the state before this step is read."""
    signal: Inexact[Tensor, "batch heads values"]
    """The part of the read that the value asked for makes."""
    others: Inexact[Tensor, "batch heads values"]
    """The part that all other inputs make."""
    power: Float[Tensor, "batch heads 1"]
    """Power of `others` if its terms were independent: `sum_s M_ts^2 |v_s - own_s|^2`."""
    participation: Float[Tensor, " batch"]
    """Effective number of terms in that sum, `(sum_s p_s)^2 / sum_s p_s^2` of their powers p_s; 1 if all are 0."""

    def direction(self) -> Inexact[Tensor, "batch heads values"]:
        """Return the interference over the square root of its power; 0 if both are 0."""
        return self.others / self.power.sqrt().masked_fill(self.power == 0, 1.0)


@dataclass(frozen=True)
class Query:
    """A step at which values are due, in all sequences."""

    step: int
    asked: Bool[Tensor, " batch"]
    """Sequences that ask for a value at this step."""
    state: State
    """State of the network before this step."""
    reads: tuple[LayerRead, ...]
    """Reads of the affine layers."""


@dataclass(frozen=True)
class Recalling:
    """A network on trials of recall, ready to answer its queries with other reads."""

    model: Model
    trials: RecallTrials
    layers: Sequence[AffineLayer]

    def queries(self) -> Iterator[Query]:
        """Yield the queries, step by step."""
        cell, xs, state, reached = self.model.cell, self.model.encode(self.trials.inputs), None, 0
        for step in self.trials.query_steps():
            state = scan(cell, xs[reached:step], state)[1]
            reached = step
            own = own_parts(self.model, self.trials, self.layers, step)
            reads = tuple(_read(layer, part, step) for layer, part in zip(self.layers, own, strict=True))
            yield Query(step, self.trials.asked[step], state, reads)

    def right(
        self, query: Query, changes: Mapping[int, Inexact[Tensor, "batch heads values"]]
    ) -> Float[Tensor, " batch"]:
        """Return whether the answer is right if some layers read so much more; NaN where nothing is due.

        The states before the query are changed along their readers, so that the reads change by just this. Everything
        else, such as the queries of the layers above, is computed by the network.
        """
        cell, state = self.model.cell, query.state
        for which, change in changes.items():
            read = query.reads[which]
            size = read.reader.abs().square().sum(-1, keepdim=True)
            along = read.reader.conj() / size.masked_fill(size == 0, 1.0)
            state = _shifted(cell, state, read.name, along.unsqueeze(-1) * change.to(along.dtype).unsqueeze(-2))
        x = self.model.encode(self.trials.inputs[query.step : query.step + 1])[0]
        outputs, _ = cell.step(x, state)
        right = self.model.readout(outputs).argmax(-1) == self.trials.targets[query.step]
        return right.double().masked_fill(~query.asked, torch.nan).cpu()


def signal_of(
    layer: AffineLayer, own: Inexact[Tensor, "batch heads writes values"], step: int
) -> Inexact[Tensor, "batch heads values"]:
    """Return what a layer reads at a step of these parts of the values."""
    return (_weights(layer, own, step)[1] * own).sum(2)


def _weights(
    layer: AffineLayer, own: Inexact[Tensor, "batch heads writes values"], step: int
) -> tuple[Inexact[Tensor, "batch heads keys"], Inexact[Tensor, "batch heads writes 1"]]:
    """Return the reader of a step and its weights M, real if the values are."""
    parts, W = layer.at(step), carried_writes(layer, step)
    reader = (parts.queries.to(W.dtype).unsqueeze(-2) @ transition(parts).to(W.dtype)).squeeze(-2)
    M = torch.einsum("bhd,bhds->bhs", reader, W).unsqueeze(-1)
    return reader, M if own.is_complex() else M.real


def _read(layer: AffineLayer, own: Inexact[Tensor, "batch heads writes values"], step: int) -> LayerRead:
    """Split what a layer reads at a step, given the part of every value that is asked for."""
    reader, M = _weights(layer, own, step)
    terms = M * (values_written(layer)[:, :, : M.shape[2]] - own)
    powers = terms.abs().square().sum(3)
    each = powers.sum(1)  # (batch, writes)
    participation = (each.sum(1).square() / each.square().sum(1)).nan_to_num(nan=1.0)
    name = f"{layer.name}.S" if layer.name else "S"
    return LayerRead(name, reader, (M * own).sum(2), terms.sum(2), powers.sum(2).unsqueeze(-1), participation)


def carried_writes(layer: AffineLayer, step: int) -> Inexact[Tensor, "batch heads keys writes"]:
    """Return W: the part of the state before `step` that each earlier write makes for every unit of its value."""
    parts = layer.between(0, step)
    micro, batch, heads = parts.micro_steps, *parts.queries.shape[1:3]
    identity = torch.eye(step * micro, dtype=parts.values.dtype.to_real(), device=parts.values.device)
    written = identity.unflatten(0, (step, micro))[:, None, :, None].expand(-1, batch, -1, heads, -1)
    parts = parts._replace(values=written.squeeze(2) if micro == 1 else written)
    return scan_parts(parts, layer.start.new_zeros(*layer.start.shape[:-1], step * micro))[1]


def _shifted(cell: Cell, state: State, name: str, by: Tensor) -> State:
    """Return the state with this tensor added to that of the name."""
    names = cell.state_names(state)
    if name not in names:
        raise TypeError(
            f"{type(cell).__name__} does not hold the memory of a layer as {name!r}, but has {', '.join(names)}; "
            f"recall_interference takes cells, blocks and stacks of mnemoscope.cells."
        )
    remaining = iter(names)
    add: Callable[[Tensor], Tensor] = lambda old: old + by if next(remaining) == name else old  # noqa: E731
    return map_state(add, state)
