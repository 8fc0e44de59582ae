"""Scans with sparse attention on the CPU (see `sparse_attention`): loops over time in preallocated buffers."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.history import HistoryGradients, HistoryStart, OutputGradients
from mnemoscope.kernels.screened_cells import build_gradient, build_steps
from mnemoscope.kernels.sparse_attention_types import EPSILON, SparseAttention, Trace


def forward_on_cpu(us: Tensor, start: HistoryStart, weights: Weights, options: SparseAttention) -> Trace:
    """Run all steps in preallocated buffers."""
    time, batch, _ = us.shape
    size, n, k = start.s.shape[1], start.rows.shape[1], options.top_k
    core = build_steps(options.cell, us, start.s, start.c, weights.bias)
    recurrent, query, key = (W.T.contiguous() for W in (weights.recurrent, weights.query, weights.key))
    made = us.clone(memory_format=torch.contiguous_format)  # becomes gates or h in place
    rows = us.new_empty(batch, n + options.stored(time), 2 * size)
    rows[:, :n] = start.rows
    outputs = us.new_zeros(time, batch, 2 * size)
    hs, queries = us.new_empty(2, time, batch, size).unbind()
    chosen = torch.full((time, batch, k + 1), -1)
    attention, sums = us.new_zeros(time, batch, k + 1), us.new_zeros(time, batch)
    s = start.s
    for t, z in enumerate(made.unbind()):
        z.addmm_(s, recurrent)
        h = core.step(t, z)
        hs[t] = h
        torch.mm(h, query, out=queries[t])
        s, context = outputs[t, :, :size], outputs[t, :, size:]
        if n:
            scores, _ = _scores(queries[t], rows[:, :n, size:], weights.direction)
            some = min(n, k + 1)
            largest = scores.topk(some, dim=1)
            chosen[t, :, :some] = largest.indices
            if n <= k:
                attention[t, :, :some] = largest.values.softmax(1)
            else:
                above = largest.values - largest.values[:, -1:]
                sums[t] = above.sum(1) + EPSILON
                torch.div(above, sums[t].unsqueeze(1), out=attention[t])
            values = _gather(rows, largest.indices)[..., :size]
            context += torch.bmm(attention[t, :, :some].unsqueeze(1), values).squeeze(1)
        torch.add(h, context, out=s)
        if options.scale != 1:
            s.mul_(options.scale)
        if options.stores(t):
            rows[:, n, :size] = s
            rows[:, n, size:] = s @ key
            n += 1
    return Trace(outputs, hs, queries, chosen, attention, sums, rows, *core.kept(made))


def backward_on_cpu(
    grads: OutputGradients, start: HistoryStart, weights: Weights, options: SparseAttention, trace: Trace
) -> HistoryGradients:
    """Run the steps in reverse."""
    into_outputs, into_h, into_c, into_rows = grads
    time, batch, size = trace.hs.shape
    k, n = options.top_k, trace.rows.shape[1]
    core = build_gradient(options.cell, trace.hs, weights.bias, trace.gates, trace.c, start.c, into_c)
    rows = torch.zeros_like(trace.rows) if into_rows is None else into_rows.clone()
    drive = trace.hs.new_empty(time, batch, len(weights.recurrent))
    queries = torch.zeros_like(trace.hs)
    direction = None if weights.direction is None else torch.zeros_like(weights.direction)
    s = torch.zeros_like(start.s)
    for t in reversed(range(time)):
        s = s + into_outputs[t, :, :size]
        if options.stores(t):
            n -= 1
            s += rows[:, n, :size]
            s.addmm_(rows[:, n, size:], weights.key)
        g = s if options.scale == 1 else s.mul_(options.scale)
        into_context = g + into_outputs[t, :, size:]
        some = min(n, k + 1)
        if some:
            a, positions = trace.attention[t, :, :some], trace.chosen[t, :, :some]
            attended = _gather(trace.rows, positions)
            into_scores = torch.bmm(attended[..., :size], into_context.unsqueeze(2)).squeeze(2)
            into_scores -= (into_scores * a).sum(1, keepdim=True)
            if n > k:
                # only scores above the threshold count; that of the threshold, the last, is subtracted from them
                into_scores = torch.where(a > 0, into_scores / trace.sums[t].unsqueeze(1), 0.0)
                into_scores[:, -1] = -into_scores.sum(1)
            else:
                into_scores.mul_(a)
            into_keys = _pull_scores(
                trace.queries[t], attended[..., size:], weights.direction, into_scores, queries[t], direction
            )
            into = torch.cat([a.unsqueeze(2) * into_context.unsqueeze(1), into_keys], dim=2)
            rows.flatten(0, 1).index_add_(0, _flat(rows, positions), into.flatten(0, 1))
            g = torch.addmm(g, queries[t], weights.query)
        if t == time - 1 and into_h is not None:
            g = g + into_h
        core.pull(t, g, drive[t])
        s = drive[t] @ weights.recurrent
        if options.ends(t):
            s.zero_()
            if core.carried is not None:
                core.carried.zero_()
    return HistoryGradients(drive, queries, direction, s, core.carried, rows)


def _flat(rows: Tensor, positions: Tensor) -> Tensor:
    """Return the indices of the positions (batch, slots) in the flat list of all rows."""
    return (torch.arange(len(rows)).unsqueeze(1) * rows.shape[1] + positions).flatten()


def _gather(rows: Tensor, positions: Tensor) -> Float[Tensor, "batch slots width"]:
    return rows.flatten(0, 1).index_select(0, _flat(rows, positions)).unflatten(0, positions.shape)


def _scores(query: Tensor, keys: Tensor, direction: Tensor | None) -> tuple[Float[Tensor, "batch slots"], Tensor]:
    """Return the scores, and for the additive alignment the tanh in them."""
    if direction is None:
        return torch.bmm(keys, (query * query.shape[-1] ** -0.5).unsqueeze(2)).squeeze(2), keys
    compared = torch.add(query.unsqueeze(1), keys).tanh_()
    return compared @ direction, compared


def _pull_scores(
    query: Tensor,
    keys: Tensor,
    direction: Tensor | None,
    grad: Tensor,
    into_query: Tensor,
    into_direction: Tensor | None,
) -> Float[Tensor, "batch slots hidden"]:
    """Return the gradient of the keys, write that of the query, and add to that of v_a."""
    if direction is None:
        scaled = (grad * query.shape[-1] ** -0.5).unsqueeze(2)
        torch.sum(scaled * keys, 1, out=into_query)
        return scaled * query.unsqueeze(1)
    assert into_direction is not None
    compared = torch.add(query.unsqueeze(1), keys).tanh_()
    into_direction.addmv_(compared.flatten(0, 1).T, grad.flatten())
    into_keys = (1 - compared.square_()).mul_(direction).mul_(grad.unsqueeze(2))
    torch.sum(into_keys, 1, out=into_query)
    return into_keys
