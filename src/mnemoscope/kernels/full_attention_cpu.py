"""Scans with full attention on the CPU (see `full_attention`): loops over time in preallocated buffers."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.full_attention_types import FullAttention, Trace
from mnemoscope.kernels.history import HistoryGradients, HistoryStart, OutputGradients
from mnemoscope.kernels.screened_cells import build_gradient, build_steps

CHUNK = 32
"""Steps whose outer products are added to the gradients of earlier rows as one product."""


def forward_on_cpu(us: Tensor, start: HistoryStart, weights: Weights, options: FullAttention) -> Trace:
    """Run all steps in preallocated buffers."""
    time, batch, width = us.shape
    size, given = start.s.shape[1], start.rows.shape[1]
    core = build_steps(options.cell, us, start.s, start.c, weights.bias)
    both = torch.cat([weights.recurrent, weights.query]).T.contiguous()
    key = weights.key.T.contiguous()
    # the drive with room for queries; becomes gates (or h) and queries in place
    made = torch.cat([us, us.new_zeros(time, batch, size)], dim=-1)
    rows = us.new_empty(batch, given + time, 2 * size)
    rows[:, :given] = start.rows
    outputs, contexts = us.new_empty(2, time, batch, size).unbind()
    norms, s = us.new_empty(time, batch), start.s
    room = us.new_empty(batch * (given + time) * size)
    for t, z in enumerate(made.unbind()):
        z.addmm_(s, both)
        h = core.step(t, z[:, :width])
        row, past = rows[:, given + t], rows[:, : given + t + 1]
        row[:, :size] = h
        row[:, size:] = h @ key
        scores, _ = _scores(room, z[:, width:], past[..., size:], weights.direction, start.filled)
        norms[t] = scores.logsumexp(1)
        attention = scores.sub_(norms[t].unsqueeze(1)).exp_()
        torch.bmm(attention.unsqueeze(1), past[..., :size], out=contexts[t].unsqueeze(1))
        s = torch.add(h, contexts[t], out=outputs[t])
        if options.scale != 1:
            s.mul_(options.scale)
    gates, c = core.kept(made[..., :width])
    return Trace(outputs, made[..., width:], contexts, norms, rows, gates, c)


def backward_on_cpu(
    grads: OutputGradients, start: HistoryStart, weights: Weights, options: FullAttention, trace: Trace
) -> HistoryGradients:
    """Run the steps in reverse."""
    into_outputs, into_h, into_c, into_rows = grads
    time, batch, size = trace.outputs.shape
    given, width = start.rows.shape[1], len(weights.recurrent)
    core = build_gradient(options.cell, trace.hs, weights.bias, trace.gates, trace.c, start.c, into_c)
    both = torch.cat([weights.recurrent, weights.query]).contiguous()
    rows = torch.zeros_like(trace.rows) if into_rows is None else into_rows.clone()
    into_values, into_keys = rows[..., :size], rows[..., size:]
    made = trace.outputs.new_empty(time, batch, width + size)
    direction = None if weights.direction is None else torch.zeros_like(weights.direction)
    room = trace.outputs.new_empty(batch * trace.rows.shape[1] * size)
    # weights and score gradients of the steps of a chunk, and the vectors that they multiply
    attention, into_scores = trace.outputs.new_empty(2, batch, CHUNK, trace.rows.shape[1]).unbind()
    gs, queries = trace.outputs.new_empty(2, batch, CHUNK, size).unbind()
    s = torch.zeros_like(start.s)
    for t in reversed(range(time)):
        at, n = t % CHUNK, given + t + 1
        last = min(CHUNK, time - (t - at)) - 1
        keys, query = trace.rows[:, :n, size:], trace.queries[t]
        g = into_outputs[t] + s
        if options.scale != 1:
            g.mul_(options.scale)
        scores, compared = _scores(room, query, keys, weights.direction, start.filled)
        a = torch.exp(scores.sub_(trace.norms[t].unsqueeze(1)))
        of_context = (g * trace.contexts[t]).sum(1, keepdim=True)
        de = torch.bmm(trace.rows[:, :n, :size], g.unsqueeze(2)).squeeze(2).sub_(of_context).mul_(a)
        attention[:, at, :n], gs[:, at] = a, g
        into = made[t]
        if direction is None:
            de.mul_(size**-0.5)
            into_scores[:, at, :n], queries[:, at] = de, query
            torch.bmm(de.unsqueeze(1), keys, out=into[:, width:].unsqueeze(1))
        else:
            assert weights.direction is not None
            direction.addmv_(compared.flatten(0, 1).T, de.flatten())
            torch.addcmul(weights.direction, compared.square_(), weights.direction, value=-1, out=compared)
            into_keys[:, :n].addcmul_(compared, de.unsqueeze(2))
            torch.bmm(de.unsqueeze(1), compared, out=into[:, width:].unsqueeze(1))
        # the row of this step: all its uses have been counted, but those of this chunk
        these = slice(at, last + 1)
        into_values[:, n - 1] += _sum_of_steps(attention, gs, these, n - 1)
        if direction is None:
            into_keys[:, n - 1] += _sum_of_steps(into_scores, queries, these, n - 1)
        g += into_values[:, n - 1]
        g.addmm_(into_keys[:, n - 1], weights.key)
        if t == time - 1 and into_h is not None:
            g += into_h
        core.pull(t, g, into[:, :width])
        s = into @ both
        if at == 0:
            these = slice(0, last + 1)
            into_values[:, : n - 1].baddbmm_(attention[:, these, : n - 1].mT, gs[:, these])
            if direction is None:
                into_keys[:, : n - 1].baddbmm_(into_scores[:, these, : n - 1].mT, queries[:, these])
    return HistoryGradients(made[..., :width], made[..., width:], direction, s, core.carried, rows)


def _sum_of_steps(factors: Tensor, vectors: Tensor, steps: slice, row: int) -> Float[Tensor, "batch hidden"]:
    """Return the sum of the vectors of some steps of a chunk, times their factors for a row."""
    return torch.bmm(factors[:, steps, row].unsqueeze(1), vectors[:, steps]).squeeze(1)


def _scores(
    room: Tensor,
    query: Tensor,
    keys: Float[Tensor, "batch slots hidden"],
    direction: Tensor | None,
    filled: Float[Tensor, "batch given"] | None,
) -> tuple[Float[Tensor, "batch slots"], Tensor]:
    """Return the scores, -inf for empty rows, and for the additive alignment the tanh in them, in `room`."""
    if direction is None:
        scores, compared = torch.bmm(keys, (query * query.shape[-1] ** -0.5).unsqueeze(2)).squeeze(2), keys
    else:
        compared = room[: keys.numel()].view(keys.shape)
        torch.add(query.unsqueeze(1), keys, out=compared).tanh_()
        scores = compared @ direction
    if filled is not None:
        scores[:, : filled.shape[1]].masked_fill_(filled == 0, -inf)
    return scores, compared
