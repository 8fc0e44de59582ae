"""A cell with screened attention to its past as one operator: no graph per step, no attention kept (Kerg, Algorithm 1).

The slots are a ring of the newest states and behind it the relevant set, each state as a row [h; key]. A step computes
h and a query from s_{t-1}, moves the row that the ring gives up to the least relevant place if it is more relevant,
writes its own row in the ring, attends to all rows, and gives `s_t = scale (h_t + c_t)`.

The backward pass holds the slots' rows and their gradients and undoes the moves in reverse: when a step takes its row
out of the ring, every later use of it has been counted, wherever the row lay. What was dropped comes back from the list
of all rows. So per step are kept its row, its query, its weights and one move; the products that give the gradients of
matrices are taken once, after the loop.

A slot's score is -1 where it is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.threads import threads_that_help
from mnemoscope.shapes import Float

_HAS_TRITON = find_spec("triton") is not None
EMPTY = -1.0
"""Score of an empty slot: below that of any state."""


@dataclass(frozen=True)
class Screening:
    """What a scan does, but for its weights."""

    cell: str
    """"lstm", or the name of an elementwise nonlinearity."""
    short_term: int
    relevant: int
    normalised: bool
    """Whether a score counts attention times the number of states that compete for it."""
    scale: float

    @property
    def slots(self) -> int:
        return self.short_term + self.relevant


class Weights(NamedTuple):
    """What a scan learns."""

    recurrent: Float[Tensor, "gates hidden"]
    """Of s_{t-1}: all gates of an LSTM (i, f, g, o), or V."""
    bias: Float[Tensor, " hidden"] | None
    """Of modReLU."""
    query: Float[Tensor, "hidden hidden"]
    key: Float[Tensor, "hidden hidden"]
    direction: Float[Tensor, " hidden"] | None
    """v_a of the additive alignment; None: scaled dot products."""


class Start(NamedTuple):
    """The state before the first step."""

    s: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"] | None
    """Of an LSTM."""
    rows: Float[Tensor, "batch slots width"]
    score: Float[Tensor, "batch slots"]
    """-1 where a slot is empty."""


class Trace(NamedTuple):
    """What a forward pass leaves behind for the backward pass. Places count the first rows, then those of the steps."""

    outputs: Float[Tensor, "time batch hidden"]
    queries: Float[Tensor, "time batch hidden"]
    rows: Tensor
    """(slots + time, batch, 2 hidden): those of the start, then one of every step."""
    weights: Tensor
    """(time, slots, batch): attention."""
    moved: Tensor
    """(time, batch): the slot of the relevant set that took what left the ring; -1: none did."""
    dropped: Tensor
    """(time, batch): the place of what was in that slot before."""
    gates: Tensor | None
    """(time, batch, 4 hidden), and the memory c (time, batch, hidden), of an LSTM."""
    c: Tensor | None
    last: Tensor
    """(slots, batch, 2 hidden): the rows in the slots at the end, the ring as it then stands."""
    score: Tensor
    """(slots, batch), at the end."""


class Pulled(NamedTuple):
    """Gradients that a backward pass leaves behind."""

    drive: Float[Tensor, "time batch gates"]
    queries: Float[Tensor, "time batch hidden"]
    keys: Float[Tensor, "time batch hidden"]
    direction: Float[Tensor, " hidden"] | None
    s: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"] | None
    rows: Tensor
    """(slots, batch, 2 hidden)."""


def no_screened_scan(device: torch.device, dtype: torch.dtype, how: Screening, hidden: int) -> str | None:
    """Why there is no fused screened scan for these, or None if there is one."""
    if how.cell != "lstm" and how.cell not in ACTIVATIONS:
        return f"{how.cell!r} has no description in mnemoscope.kernels.ACTIVATIONS"
    if device.type == "cpu":
        return None if dtype in (torch.float32, torch.float64) else f"it computes in float32 or float64, not in {dtype}"
    if device.type != "cuda":
        return f"there is no screened scan for the device {device.type}"
    if not _HAS_TRITON:
        return "the screened scan for CUDA needs Triton, which is not installed"
    from mnemoscope.kernels import triton_screened

    return triton_screened.unavailable(device, dtype, how, hidden)


def screened_scan(
    us: Float[Tensor, "time batch gates"], start: Start, weights: Weights, how: Screening
) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """Outputs s (time, batch, hidden); then of the last step h, c, the rows (batch, slots, 2 hidden), oldest first in
    the ring, and their scores (batch, slots).
    """
    outputs, h, c, rows, score = _Screened.apply(
        us, start.s, start.c, start.rows, *weights, start.score, how
    )  # pyright: ignore[reportGeneralTypeIssues]
    return outputs, h, c, rows, score


def forward_on_cpu(us: Tensor, start: Start, weights: Weights, how: Screening) -> Trace:
    """The steps, into preallocated buffers."""
    time, batch, width = us.shape
    size, nu = start.s.shape[1], how.short_term
    core = _LSTM(us, start.c) if how.cell == "lstm" else _Elementwise(how.cell, weights.bias, start.s)
    both = torch.cat([weights.recurrent, weights.query]).T.contiguous()
    key = weights.key.T.contiguous()
    # the drive with room for queries, turned in place into gates (or h) and queries
    made = torch.cat([us, us.new_zeros(time, batch, size)], dim=-1)
    rows = us.new_empty(how.slots + time, batch, 2 * size)
    rows[: how.slots] = start.rows.transpose(0, 1)
    held, score = rows[: how.slots].clone(), start.score.T.contiguous()
    place = torch.arange(how.slots).unsqueeze(1).repeat(1, batch)
    values, keys = held[..., :size], held[..., size:]
    all_weights, outputs = us.new_empty(time, how.slots, batch), us.new_empty(time, batch, size)
    moved, dropped = torch.full((time, batch), -1), torch.zeros(time, batch, dtype=torch.long)
    compared, mixed = torch.empty_like(values), torch.empty_like(values)
    column, h, s = torch.arange(batch), start.s, start.s
    free = int((score < 0).sum(0).max())  # the ring fills one slot a step, and the relevant set by what it gives up
    full_from = free + nu if free else 0
    steps = zip(made.unbind(), rows[how.slots :].unbind(), all_weights.unbind(), outputs.unbind(), strict=True)
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
        place[ring].fill_(how.slots + t)
        scores = _scores(compared, z[:, width:], keys, weights.direction)
        empty = score < 0 if t < full_from else None
        if empty is not None:
            scores = scores.masked_fill(empty, -torch.inf)
        torch.softmax(scores, 0, out=attention)
        torch.mul(attention.unsqueeze(-1), values, out=mixed)
        torch.add(h, mixed.sum(0), out=out)
        if how.scale != 1:
            out.mul_(how.scale)
        new = attention[:nu]
        if how.normalised:
            new = new * (how.slots if empty is None else how.slots - empty.sum(0))
        score[:nu].add_(new if empty is None else new.masked_fill(empty[:nu], 0.0))
        s = out
    gates, c = core.kept(made[..., :width])
    return Trace(outputs, made[..., width:], rows, all_weights, moved, dropped, gates, c, held, score)


def backward_on_cpu(
    grads: tuple[Tensor, Tensor | None, Tensor | None, Tensor], start: Start, weights: Weights, how: Screening,
    trace: Trace,
) -> Pulled:  # fmt: skip
    """The steps in reverse; `grads` are those of outputs, last h, last c, and the slots' rows at the end."""
    into_outputs, into_h, into_c, into_rows = grads
    time, batch, size = trace.outputs.shape
    core = _LSTM.pulling(trace, start, into_c) if how.cell == "lstm" else _Elementwise.pulling(trace, weights, how)
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
        if how.scale != 1:
            g.mul_(how.scale)
        a, query, ring = trace.weights[t], trace.queries[t], t % how.short_term
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
        # what was in the ring before this step, and what the relevant set lost for it
        if moves[t]:
            moved = (trace.moved[t] >= 0).unsqueeze(1)
            flat = trace.moved[t].clamp(min=how.short_term) * batch + column  # where none moved: what stays as it is
            grads_of_slots, of_slots = into_held.flatten(0, 1), held.flatten(0, 1)
            from_slot = grads_of_slots[flat]
            of_row.copy_(torch.where(moved, from_slot, 0.0))
            grads_of_slots.index_copy_(0, flat, torch.where(moved, 0.0, from_slot))
            back = trace.rows.flatten(0, 1)[trace.dropped[t] * batch + column]
            of_slots.index_copy_(0, flat, torch.where(moved, back, of_slots[flat]))
        else:
            of_row.zero_()
        held[ring].copy_(trace.rows[left_by(t, how)])
        s = into @ both
    return Pulled(made[..., :width], made[..., width:], key_grads, direction, s, core.carried(), into_held)


def left_by(t: int, how: Screening) -> int:
    """The place of the row that leaves the ring at step t."""
    return t if t < how.short_term else how.slots + t - how.short_term


def _scores(compared: Tensor, query: Tensor, keys: Tensor, direction: Tensor | None) -> Float[Tensor, "slots batch"]:
    if direction is None:
        return torch.mul(query * query.shape[-1] ** -0.5, keys, out=compared).sum(-1)
    return torch.add(query, keys, out=compared).tanh_() @ direction


def _pull_scores(
    compared: Tensor, query: Tensor, keys: Tensor, direction: Tensor | None, grad: Tensor, into_keys: Tensor,
    into_query: Tensor, into_direction: Tensor | None,
) -> None:  # fmt: skip
    """Add to the gradient of the keys and of v_a, and write that of the query."""
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


class _Elementwise:
    """`h = phi(z)`."""

    def __init__(self, name: str, bias: Tensor | None, like: Tensor) -> None:
        self.apply = ACTIVATIONS[name].in_place(like, bias)

    def step(self, t: int, z: Tensor) -> Tensor:
        self.apply(z)
        return z

    def kept(self, made: Tensor) -> tuple[None, None]:
        return None, None

    @classmethod
    def pulling(cls, trace: Trace, weights: Weights, how: Screening) -> _Elementwise:
        core = cls.__new__(cls)
        core.phi = ACTIVATIONS[how.cell]
        hs = trace.rows[how.slots :, :, : trace.outputs.shape[-1]]
        gates = core.phi.gates(hs, weights.bias)
        core.gates = list(zip(*(gate.unbind() for gate in gates), strict=True)) if gates else [()] * len(hs)
        return core

    def pull(self, t: int, g: Tensor, into: Tensor) -> None:
        self.phi.pull_back_(g, *self.gates[t])
        into.copy_(g)

    def carried(self) -> None:
        return None


class _LSTM:
    """`c' = f c + i g`, `h' = o tanh(c')`."""

    def __init__(self, us: Tensor, c: Tensor | None) -> None:
        assert c is not None
        self.c, self.cs = c, us.new_empty(*us.shape[:2], c.shape[-1])

    def step(self, t: int, z: Tensor) -> Tensor:
        size = self.c.shape[-1]
        z[:, : 2 * size].sigmoid_()
        z[:, 2 * size : 3 * size].tanh_()
        z[:, 3 * size :].sigmoid_()
        i, f, g, o = z.chunk(4, dim=1)
        torch.mul(f, self.c, out=self.cs[t]).addcmul_(i, g)
        self.c = self.cs[t]
        return o * torch.tanh(self.c)

    def kept(self, made: Tensor) -> tuple[Tensor, Tensor]:
        return made, self.cs

    @classmethod
    def pulling(cls, trace: Trace, start: Start, into_c: Tensor | None) -> _LSTM:
        """The slopes of all steps at once: dz = slopes * (dc, dc, dc, dh)."""
        assert trace.gates is not None and trace.c is not None and start.c is not None
        core = cls.__new__(cls)
        i, f, g, o = trace.gates.chunk(4, dim=-1)
        before, seen = torch.cat([start.c.unsqueeze(0), trace.c[:-1]]), torch.tanh(trace.c)
        core.slopes = torch.stack(
            [g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), seen * o * (1 - o)], dim=2
        )  # fmt: skip
        core.into_c, core.forget = o * (1 - seen * seen), f
        core.grad = torch.zeros_like(start.c) if into_c is None else into_c.clone()
        return core

    def pull(self, t: int, g: Tensor, into: Tensor) -> None:
        self.grad.addcmul_(g, self.into_c[t])
        into, slopes = into.unflatten(-1, (4, -1)), self.slopes[t]
        torch.mul(slopes[:, :3], self.grad.unsqueeze(1), out=into[:, :3])
        torch.mul(slopes[:, 3], g, out=into[:, 3])
        self.grad.mul_(self.forget[t])

    def carried(self) -> Tensor:
        return self.grad


class _Screened(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, us: Tensor, s: Tensor, c: Tensor | None, rows: Tensor, recurrent: Tensor, bias: Tensor | None,
        query: Tensor, key: Tensor, direction: Tensor | None, score: Tensor, how: Screening,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        start, weights = Start(s, c, rows, score), Weights(recurrent, bias, query, key, direction)
        if us.is_cuda:
            from mnemoscope.kernels import triton_screened

            trace = triton_screened.forward(us, start, weights, how)
        else:
            with threads_that_help(s):
                trace = forward_on_cpu(us, start, weights, how)
        ctx.how = how
        ctx.save_for_backward(us, *start, *weights, *trace)
        size = s.shape[-1]
        order = _oldest_first(len(us), how, s.device)
        last, scores = trace.last[order].transpose(0, 1), trace.score[order].T
        ctx.mark_non_differentiable(scores)
        c = None if trace.c is None else trace.c[-1].clone()
        return trace.outputs, trace.rows[-1, :, :size].clone(), c, last.contiguous(), scores.contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "Second derivatives through a shared history of attention are not computed. Ask scan for the steps "
                "themselves: backend='loop'."
            )
        how: Screening = ctx.how
        us, *saved = ctx.saved_tensors
        start, weights, trace = Start(*saved[:4]), Weights(*saved[4:9]), Trace(*saved[9:])
        order = _oldest_first(len(us), how, us.device)
        into_rows = torch.empty_like(trace.last)
        into_rows[order] = grads[3].transpose(0, 1)
        given = (grads[0], grads[1], grads[2], into_rows)
        with torch.autocast(us.device.type, enabled=False):
            if us.is_cuda:
                from mnemoscope.kernels import triton_screened

                pulled = triton_screened.backward(given, start, weights, how, trace)
                return (*_products(pulled, start, trace, weights, how), None, None)
            with threads_that_help(start.s):
                pulled = backward_on_cpu(given, start, weights, how, trace)
                return (*_products(pulled, start, trace, weights, how), None, None)


def _products(
    pulled: Pulled, start: Start, trace: Trace, weights: Weights, how: Screening
) -> tuple[Tensor | None, ...]:
    """The gradients of drive, start and weights."""
    size = start.s.shape[-1]
    before = torch.cat([start.s.unsqueeze(0), trace.outputs[:-1]]).flatten(0, 1)
    hs = trace.rows[how.slots :, :, :size]
    bias = None if weights.bias is None else ACTIVATIONS[how.cell].bias_gradient(pulled.drive, hs)
    # a key of the start was formed before the scan: its gradient is that of its row
    return (
        pulled.drive,
        pulled.s,
        pulled.c,
        pulled.rows.transpose(0, 1),
        pulled.drive.flatten(0, 1).T @ before,
        bias,
        pulled.queries.flatten(0, 1).T @ before,
        pulled.keys.flatten(0, 1).T @ hs.flatten(0, 1),
        pulled.direction,
    )


def _oldest_first(time: int, how: Screening, device: torch.device) -> Tensor:
    """The ring's slots from the oldest on, then the relevant ones."""
    ring = (torch.arange(how.short_term, device=device) + time) % how.short_term
    return torch.cat([ring, torch.arange(how.short_term, how.slots, device=device)])
