"""Split what a query reads into the value asked for and the interference of all others, and exchange the latter.

What a layer reads at step t is linear in the values v_s that it wrote before,

    q_t^T S_t = sum_{s < t} M_ts v_s + (the rest),      M_ts = q_t^T A_t W_s,      W_s = A_{t-1} ... A_{s+1} k_s,

where the rest is written at t, or comes from the state before the first input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Inexact
from mnemoscope.cells import Cell, Model, scan
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import scan_parts, transition
from mnemoscope.cells.state import State, map_state
from mnemoscope.lenses.interference.trials import RecallTrials


@dataclass(frozen=True)
class Query:
    """The reads of a layer at one step at which values are due, in all sequences, as deviations from mean values.

    The mean of a value is that over the sequences, at its step. The part of a read that the means make is not changed.
    """

    step: int
    asked: Bool[Tensor, " batch"]
    """Sequences that ask for a value at this step."""
    state: State
    """State of the network before this step."""
    reader: Inexact[Tensor, "batch heads keys"]
    """`A_t^T q_t`, by which the state before this step is read."""
    signal: Inexact[Tensor, "batch heads values"]
    """The part of the read that the value asked for makes."""
    others: Inexact[Tensor, "batch heads values"]
    """The part that all other values make."""
    power: Float[Tensor, "batch heads 1"]
    """Power of `others` for independent values: `sum_s M_ts^2 |v_s - mean v_s|^2`."""
    participation: Float[Tensor, " batch"]
    """Effective number of other values in the sum, `(sum_s p_s)^2 / sum_s p_s^2` of their powers p_s; 1 if there is
    none."""

    def direction(self) -> Inexact[Tensor, "batch heads values"]:
        """Return the interference over the square root of its power; 0 where no other value is read."""
        return self.others / self.power.sqrt().masked_fill(self.power == 0, 1.0)


@dataclass(frozen=True)
class Recalling:
    """A layer of a network on trials of recall, ready to answer its queries with other reads."""

    model: Model
    trials: RecallTrials
    layer: AffineLayer
    reach: int
    """Number of steps, from its source on, whose values belong to what is asked for."""

    def queries(self) -> Iterator[Query]:
        """Yield the queries, step by step."""
        written = values_written(self.layer)
        deviations = written - written.mean(0)
        cell, xs, state, reached = self.model.cell, self.model.encode(self.trials.inputs), None, 0
        for step in self.trials.query_steps():
            state = scan(cell, xs[reached:step], state)[1]
            reached = step
            parts, W = self.layer.at(step), carried_writes(self.layer, step)
            reader = (parts.queries.to(W.dtype).unsqueeze(-2) @ transition(parts).to(W.dtype)).squeeze(-2)
            M = torch.einsum("bhd,bhds->bhs", reader, W).unsqueeze(-1)
            M = M if written.is_complex() else M.real
            own = self.asked_for(step).repeat_interleave(self.layer.parts.micro_steps, 1)[:, None, :, None]
            terms = M * deviations[:, :, : M.shape[2]]
            signal, others, powers = (terms * own).sum(2), (terms * ~own).sum(2), (terms * ~own).abs().square().sum(3)
            each = powers.sum(1)  # (batch, writes)
            participation = (each.sum(1).square() / each.square().sum(1)).nan_to_num(nan=1.0)
            power = powers.sum(2).unsqueeze(-1)
            yield Query(step, self.trials.asked[step], state, reader, signal, others, power, participation)

    def asked_for(self, step: int) -> Bool[Tensor, "batch steps"]:
        """Return which steps before this one hold the value that is due."""
        source = self.trials.sources[step].unsqueeze(1)
        steps = torch.arange(step, device=source.device)
        return (steps >= source) & (steps < source + self.reach) & (source >= 0)

    def right(self, query: Query, change: Inexact[Tensor, "batch heads values"]) -> Float[Tensor, " batch"]:
        """Return whether the answer is right if the layer reads so much more; NaN where nothing is due.

        The state before the query is changed along its reader, so that the read changes by just this. Everything after
        it, in this layer and in those above, is computed by the network.
        """
        cell, size = self.model.cell, query.reader.abs().square().sum(-1, keepdim=True)
        along = query.reader.conj() / size.masked_fill(size == 0, 1.0)
        by = along.unsqueeze(-1) * change.to(along.dtype).unsqueeze(-2)
        name = f"{self.layer.name}.S" if self.layer.name else "S"
        x = self.model.encode(self.trials.inputs[query.step : query.step + 1])[0]
        outputs, _ = cell.step(x, _shifted(cell, query.state, name, by))
        right = self.model.readout(outputs).argmax(-1) == self.trials.targets[query.step]
        return right.double().masked_fill(~query.asked, torch.nan).cpu()


def values_written(layer: AffineLayer) -> Inexact[Tensor, "batch heads writes values"]:
    """Return v of every write."""
    values = layer.parts.values
    return (values if layer.parts.micro_steps == 1 else values.movedim(-3, 1).flatten(0, 1)).permute(1, 2, 0, 3)


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
