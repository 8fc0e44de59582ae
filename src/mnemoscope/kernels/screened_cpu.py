"""Screened scans on the CPU (see `screened`): loops over time in preallocated buffers."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.screened_cells import build_gradient, build_steps
from mnemoscope.kernels.screened_types import EMPTY, OutputGradients, ScanGradients, Screening, Start, Trace


def forward_on_cpu(us: Tensor, start: Start, weights: Weights, options: Screening) -> Trace:
    """Run all steps in preallocated buffers."""
    time, batch, width = us.shape
    size, nu = start.s.shape[1], options.short_term
    core = build_steps(options.cell, us, start.s, start.c, weights.bias)
    both = torch.cat([weights.recurrent, weights.query]).T.contiguous()
    key = weights.key.T.contiguous()
    # the drive with room for queries; becomes gates (or h) and queries in place
    made = torch.cat([us, us.new_zeros(time, batch, size)], dim=-1)
    rows = us.new_empty(options.slots + time, batch, 2 * size)
    rows[: options.slots] = start.rows.transpose(0, 1)
    # a clone: with one sequence, the transposed scores are contiguous already, and steps would write into the start
    held, score = rows[: options.slots].clone(), start.score.T.clone(memory_format=torch.contiguous_format)
    place = torch.arange(options.slots).unsqueeze(1).repeat(1, batch)
    values, keys = held[..., :size], held[..., size:]
    all_weights, outputs = us.new_empty(time, options.slots, batch), us.new_empty(time, batch, size)
    moved, dropped = torch.full((time, batch), -1), torch.zeros(time, batch, dtype=torch.long)
    compared, mixed = torch.empty_like(values), torch.empty_like(values)
    column, h, s = torch.arange(batch), start.s, start.s
    # each step fills one slot of the ring; rows that leave the ring fill the relevant set
    free = int((score == EMPTY).sum(0).amax()) if batch else 0
    full_from = free + nu if free else 0
    steps = zip(made.unbind(), rows[options.slots :].unbind(), all_weights.unbind(), outputs.unbind(), strict=True)
    for t, (z, row, attention, out) in enumerate(steps):
        z.addmm_(s, both)
        h = core.step(t, z[:, :width])
        torch.cat([h, h @ key], dim=1, out=row)
        ring, relevant = t % nu, score[nu:]
        least, at = relevant.min(0)
        leaves = score[ring] > least
        if leaves.any():
            relevant.scatter_(0, at.unsqueeze(0), torch.maximum(score[ring], least).unsqueeze(0))
            flat = (at + nu) * batch + column
            of_slots = held.flatten(0, 1)
            of_slots.index_copy_(0, flat, torch.where(leaves.unsqueeze(1), held[ring], of_slots[flat]))
            moved[t].copy_((at + nu).masked_fill_(~leaves, -1))
            dropped[t].copy_(place.view(-1)[flat])
            place.view(-1).index_copy_(0, flat, torch.where(leaves, place[ring], dropped[t]))
        held[ring].copy_(row)
        score[ring].zero_()
        place[ring].fill_(options.slots + t)
        scores = _scores(compared, z[:, width:], keys, weights.direction)
        empty = score == EMPTY if t < full_from else None
        if empty is not None:
            scores = scores.masked_fill(empty, -torch.inf)
        torch.softmax(scores, 0, out=attention)
        torch.mul(attention.unsqueeze(-1), values, out=mixed)
        torch.add(h, mixed.sum(0), out=out)
        if options.scale != 1:
            out.mul_(options.scale)
        new = attention[:nu]
        if options.normalised:
            new = new * (options.slots if empty is None else options.slots - empty.sum(0))
        score[:nu].add_(new if empty is None else new.masked_fill(empty[:nu], 0.0))
        s = out
    gates, c = core.kept(made[..., :width])
    return Trace(outputs, made[..., width:], rows, all_weights, moved, dropped, gates, c, held, score)


def backward_on_cpu(
    grads: OutputGradients, start: Start, weights: Weights, options: Screening, trace: Trace
) -> ScanGradients:
    """Run the steps in reverse."""
    into_outputs, into_h, into_c, into_rows = grads
    time, batch, size = trace.outputs.shape
    hs = trace.rows[options.slots :, :, :size]
    core = build_gradient(options.cell, hs, weights.bias, trace.gates, trace.c, start.c, into_c)
    both = torch.cat([weights.recurrent, weights.query]).contiguous()
    width = len(weights.recurrent)
    held, into_held = trace.last.clone(), into_rows.clone()
    values, keys = held[..., :size], held[..., size:]
    into_values, into_keys = into_held[..., :size], into_held[..., size:]
    made, key_grads = trace.outputs.new_empty(time, batch, width + size), trace.outputs.new_empty(time, batch, size)
    direction = None if weights.direction is None else torch.zeros_like(weights.direction)
    compared, mixed = torch.empty_like(values), torch.empty_like(values)
    column, s = torch.arange(batch), torch.zeros_like(trace.outputs[0])
    moves = (trace.moved >= 0).any(1).tolist()
    for t in reversed(range(time)):
        g = into_outputs[t] + s
        if options.scale != 1:
            g.mul_(options.scale)
        a, query, ring = trace.weights[t], trace.queries[t], t % options.short_term
        share = a * torch.mul(values, g, out=mixed).sum(-1)
        into_scores = share.addcmul(a, share.sum(0), value=-1)
        into_values.addcmul_(a.unsqueeze(-1), g)
        into = made[t]
        into_query = into[:, width:]
        _pull_scores(compared, query, keys, weights.direction, into_scores, into_keys, into_query, direction)
        of_row = into_held[ring]
        g += of_row[:, :size]
        key_grads[t] = of_row[:, size:]
        g.addmm_(key_grads[t], weights.key)
        if t == time - 1 and into_h is not None:
            g += into_h
        core.pull(t, g, into[:, :width])
        # restore the row that left the ring at this step, and the row of the relevant set that it replaced
        if moves[t]:
            moved = (trace.moved[t] >= 0).unsqueeze(1)
            # without a move, the first slot of the relevant set, which is not changed
            flat = trace.moved[t].clamp(min=options.short_term) * batch + column
            grads_of_slots, of_slots = into_held.flatten(0, 1), held.flatten(0, 1)
            from_slot = grads_of_slots[flat]
            of_row.copy_(torch.where(moved, from_slot, 0.0))
            grads_of_slots.index_copy_(0, flat, torch.where(moved, 0.0, from_slot))
            back = trace.rows.flatten(0, 1)[trace.dropped[t] * batch + column]
            of_slots.index_copy_(0, flat, torch.where(moved, back, of_slots[flat]))
        else:
            of_row.zero_()
        held[ring].copy_(trace.rows[departing_row(t, options)])
        s = into @ both
    return ScanGradients(made[..., :width], made[..., width:], key_grads, direction, s, core.carried, into_held)


def departing_row(t: int, options: Screening) -> int:
    """Return the position of the row that leaves the ring at step t."""
    return t if t < options.short_term else options.slots + t - options.short_term


def _scores(compared: Tensor, query: Tensor, keys: Tensor, direction: Tensor | None) -> Float[Tensor, "slots batch"]:
    if direction is None:
        return torch.mul(query * query.shape[-1] ** -0.5, keys, out=compared).sum(-1)
    return torch.add(query, keys, out=compared).tanh_() @ direction


def _pull_scores(
    compared: Tensor,
    query: Tensor,
    keys: Tensor,
    direction: Tensor | None,
    grad: Tensor,
    into_keys: Tensor,
    into_query: Tensor,
    into_direction: Tensor | None,
) -> None:
    """Add to the gradients of the keys and of v_a, and write that of the query."""
    if direction is None:
        scaled = (grad * query.shape[-1] ** -0.5).unsqueeze(-1)
        into_keys.addcmul_(scaled, query)
        torch.sum(torch.mul(scaled, keys, out=compared), 0, out=into_query)
        return
    assert into_direction is not None
    torch.add(query, keys, out=compared).tanh_()
    into_direction.addmv_(compared.flatten(0, 1).T, grad.flatten())
    torch.addcmul(direction, compared.square_(), direction, value=-1, out=compared)
    into_keys.add_(compared.mul_(grad.unsqueeze(-1)))
    torch.sum(compared, 0, out=into_query)
