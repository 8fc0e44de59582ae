"""A controller with a tape as one operator, without a graph per step (Graves et al. 2014, section 3).

A step of the controller sees its drive, its state and what was read a step ago; from what it shows, one linear map
tells the heads what to do; they write, and read what is there afterwards. Matrix controllers come as vectors with
Kronecker products for matrices.

The forward pass keeps the memory of every step, the weights of every head and what led to them. The backward pass goes
through the steps in reverse; all products that give the gradients of matrices are taken once, after the loop, and the
slopes of all steps that do not wait for anything before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.batched_gradients import loop_over_batch
from mnemoscope.kernels.tape_addressing import (
    TINY,
    Looks,
    Products,
    Pulled,
    Ring,
    Slopes,
    Told,
    at_each,
    look,
    pull_look,
)
from mnemoscope.kernels.tape_controllers import pull_of, steps_of
from mnemoscope.kernels.threads import threads_that_help

_softmax_backward = torch._softmax_backward_data  # pyright: ignore[reportPrivateImportUsage]


class Machine(NamedTuple):
    """What does not change from step to step and is no tensor."""

    lstm: bool
    """Whether the controller is an LSTM, with gates i, f, g, o; else it has layers of tanh within one step."""
    writers: int
    readers: int
    reach: int
    least_strength: float
    gradient_limit: float | None
    """To which each number of a gradient is cut that a step hands back to the one before."""


class Weights(NamedTuple):
    """Of the controller and of the map to the orders (see `Layout`)."""

    recurrent: Float[Tensor, "layers width units"] | None
    """None where the controller has no memory of its own."""
    reader: Float[Tensor, "layers_width reads"]
    """From what was read to all layers."""
    heads: Float[Tensor, "orders units"]
    bias: Float[Tensor, " orders"]


class Start(NamedTuple):
    """The state before the first step."""

    h: Float[Tensor, "batch units"]
    c: Float[Tensor, "batch units"] | None
    memory: Float[Tensor, "batch numbers slots"]
    write: Float[Tensor, "batch writers slots"]
    read: Float[Tensor, "batch readers slots"]
    reads: Float[Tensor, "batch readers numbers"]


class Layout(NamedTuple):
    """How orders lie side by side: keys, what to add, what to erase, gates, strengths, gammas, moves.

    Heads that write come first in each; of the moves of a head the furthest on comes first.
    """

    heads: int
    writers: int
    numbers: int
    moves: int

    @property
    def ends(self) -> tuple[int, ...]:
        """Where what tanh is for ends, then what the logistic function is for, then the strengths and gammas."""
        tanh = (self.heads + self.writers) * self.numbers
        logistic = tanh + self.writers * self.numbers + self.heads
        return tanh, logistic, logistic + 2 * self.heads

    def parts(self, orders: Float[Tensor, "*steps orders"]) -> list[Tensor]:
        """Views with the heads in a dimension of their own."""
        one, two, H = self.numbers * self.writers, self.heads, self.heads
        sizes = [self.numbers * self.heads, one, one, two, H, H, self.moves * self.heads]
        counts = [self.heads, self.writers, self.writers, H, H, H, H]
        parts = orders.split(sizes, dim=-1)
        return [part.unflatten(-1, (count, -1)) for part, count in zip(parts, counts, strict=True)]


def tape_scan(
    us: Float[Tensor, "time batch layers_width"], start: Start, weights: Weights, how: Machine
) -> tuple[Tensor, Tensor, Start]:
    """What the controller shows (time, batch, units), what is read (time, batch, readers, numbers), and the state after
    the last step.
    """
    shown, reads, *last = _Tape.apply(us, *start, *weights, how)  # pyright: ignore[reportGeneralTypeIssues]
    return shown, reads, Start(*last, reads=reads[-1])


class _Trace(NamedTuple):
    made: Tensor
    hs: Tensor
    cs: Tensor | None
    orders: Tensor
    """After tanh and the logistic function, but for strengths, gammas and moves."""
    memory: Float[Tensor, "places batch numbers slots"]
    over_length: Float[Tensor, "places batch 1 slots"]
    write: Float[Tensor, "places batch writers slots"]
    read: Float[Tensor, "places batch readers slots"]
    reads: Float[Tensor, "places batch readers numbers"]
    over_key: Tensor
    positive: Tensor
    """Strengths and gammas."""
    shift: Tensor


def _told(layout: Layout, orders: Tensor, over_key: Tensor, positive: Tensor, shift: Tensor) -> tuple[Told, Told]:
    """What the heads that write and those that read are told, at all steps."""
    key, _, _, gate, *_ = layout.parts(orders)
    strength, gamma = positive.unflatten(-1, (2, -1)).unsqueeze(-1).unbind(-3)
    parts = (key, over_key, strength, gate, shift, gamma)
    writers = (part[..., : layout.writers, :] for part in parts)
    return Told(*writers), Told(*(part[..., layout.writers :, :] for part in parts))


class _Tape(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        us: Tensor,
        h: Tensor,
        c: Tensor | None,
        memory: Tensor,
        write: Tensor,
        read: Tensor,
        reads: Tensor,
        recurrent: Tensor | None,
        reader: Tensor,
        heads: Tensor,
        bias: Tensor,
        how: Machine,
    ) -> tuple[Tensor | None, ...]:
        start, weights = Start(h, c, memory, write, read, reads), Weights(recurrent, reader, heads, bias)
        with threads_that_help(h):
            trace, written, seen = _forward(us, start, weights, how)
        ctx.how, ctx.looks = how, len(written)
        ctx.save_for_backward(h, c, *weights, *trace, *written, *seen)
        last_c = None if trace.cs is None else trace.cs[-1].clone()
        ends = (part[-1].clone() for part in (trace.memory, trace.write, trace.read))
        return trace.hs, trace.reads[1:], trace.hs[-1].clone(), last_c, *ends

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("The fast scan of a Turing machine has no second derivative; pass backend='loop'.")
        h, c, *saved = ctx.saved_tensors
        weights, trace = Weights(*saved[:4]), _Trace(*saved[4:16])
        written, seen = Looks(*saved[16 : 16 + ctx.looks]), Looks(*saved[16 + ctx.looks :])

        def pull(*grads: Tensor | None) -> tuple[Tensor | None, ...]:
            return _backward(grads, h, c, weights, trace, written, seen, ctx.how)

        with torch.autocast(h.device.type, enabled=False), threads_that_help(h):
            return (*loop_over_batch(pull, *grads), None)


def _forward(us: Tensor, start: Start, weights: Weights, how: Machine) -> tuple[_Trace, Looks, Looks]:
    time, batch, _ = us.shape
    layout = _layout(start, how)
    core = steps_of(us, start.h, start.c, weights.recurrent)
    reader, to_heads = weights.reader.T.contiguous(), weights.heads.T.contiguous()
    new, shape = us.new_empty, start.memory.shape[1:]
    orders = new(time, batch, len(weights.bias))
    memory, over_length = new(time + 1, batch, *shape), new(time + 1, batch, 1, shape[1])
    write, read = new(time + 1, batch, how.writers, shape[1]), new(time + 1, batch, how.readers, shape[1])
    reads = new(time + 1, batch, how.readers, shape[0])
    over_key = new(time, batch, layout.heads, 1)
    positive, shift = new(time, batch, 2 * layout.heads), new(time, batch, layout.heads, layout.moves)
    for buffer, first in ((memory, start.memory), (write, start.write), (read, start.read), (reads, start.reads)):
        buffer[0] = first
    products = Products(start.memory)
    products.over_lengths(start.memory, over_length[0])
    written, seen = (Looks.empty(us, (time, batch, count, shape[1]), how.reach) for count in (how.writers, how.readers))
    tanh, logistic, rest = layout.ends
    least = us.new_tensor([how.least_strength] * layout.heads + [1.0] * layout.heads)
    parts = layout.parts(orders)
    keys, adds, erases, moves = (parts[place].unbind() for place in (0, 1, 2, 6))
    bounded, gates, raw = (
        part.unbind() for part in (orders[..., :tanh], orders[..., tanh:logistic], orders[..., logistic:rest])
    )
    by_write, by_read = map(at_each, _told(layout, orders, over_key, positive, shift))
    into_write, into_read = at_each(written), at_each(seen)
    write_ring, read_ring = (Ring(one.around[0], shape[1]) for one in (written, seen))
    memories, lengths, writes, views, flat = (
        part.unbind() for part in (memory, over_length, write, read, reads.flatten(2))
    )
    for t in range(time):
        h = core.step(t, flat[t], reader)
        torch.addmm(weights.bias, h, to_heads, out=orders[t])
        bounded[t].tanh_()
        gates[t].sigmoid_()
        torch.add(softplus(raw[t]), least, out=positive[t])
        torch.softmax(moves[t], -1, out=shift[t])
        torch.sum(keys[t].square(), -1, keepdim=True, out=over_key[t]).add_(TINY**2).rsqrt_()
        look(products, memories[t], lengths[t], writes[t], by_write[t], into_write[t], write_ring, writes[t + 1])
        _write(products, memories[t], writes[t + 1], erases[t], adds[t], memories[t + 1])
        products.over_lengths(memories[t + 1], lengths[t + 1])
        look(products, memories[t + 1], lengths[t + 1], views[t], by_read[t], into_read[t], read_ring, views[t + 1])
        flat[t + 1].copy_(products.means(views[t + 1], memories[t + 1]).flatten(1))
    trace = _Trace(
        core.made, core.hs, core.cs, orders, memory, over_length, write, read, reads, over_key, positive, shift
    )
    return trace, written, seen


def _write(products: Products, memory: Tensor, w: Tensor, erase: Tensor, add: Tensor, out: Tensor) -> None:
    """`M prod_h (1 - e_h w_h) + sum_h a_h w_h` (Graves et al., Eq 3-4)."""
    if w.shape[1] == 1:
        torch.addcmul(memory, _change(products, memory, erase, add), w, out=out)
        return
    out.copy_(_erased(memory, w, erase)[-1])
    products.add_outer(out, add, w)


def _change(products: Products, memory: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """`a - e M`, what a single head adds where it writes, in the buffer; in two passes, as `addcmul` is several times
    slower where it has to repeat two numbers along the slots.
    """
    return torch.sub(add.mT, torch.mul(memory, erase.mT, out=products.buffer), out=products.buffer)


def _erased(memory: Tensor, w: Tensor, erase: Tensor) -> list[Tensor]:
    """The memory before and after each head erased."""
    steps = [memory]
    for one, e in zip(w.unbind(1), erase.unbind(1), strict=True):
        steps.append(torch.addcmul(steps[-1], steps[-1], one.unsqueeze(1) * e.unsqueeze(2), value=-1))
    return steps


def _pull_write(
    products: Products, g: Tensor, memory: Tensor, w: Tensor, erase: Tensor, add: Tensor, into: list[Tensor]
) -> Tensor:
    """From the gradient of the memory to that of the weights; `g` becomes that of the memory before, `into` gets those
    of what was added and erased.
    """
    if w.shape[1] == 1:
        buffer = _change(products, memory, erase, add).mul_(g)
        of_weights = buffer.sum(1, keepdim=True)
        weighted = torch.mul(g, w, out=buffer)
        torch.sum(weighted, -1, out=into[0][:, 0])
        g.addcmul_(weighted, erase.mT, value=-1)
        torch.sum(weighted.mul_(memory), -1, out=into[1][:, 0]).neg_()
        return of_weights
    into[0].copy_(products.means(w, g))
    of_weights = products.dots(add, g)
    before = _erased(memory, w[:, :-1], erase[:, :-1])  # after the last one is of no use here
    for head in reversed(range(w.shape[1])):
        one, e = w[:, head : head + 1], erase[:, head : head + 1]
        product = g * before[head]
        of_weights[:, head : head + 1] -= products.dots(e, product)
        into[1][:, head : head + 1] = -products.means(one, product)
        g.addcmul_(g, e.mT * one, value=-1)
    return of_weights


def _add_looks(products: Products, g: Tensor, memory: Tensor, looks: list[Pulled]) -> None:
    """Add to the gradient of a memory what looks at it have to do with it."""
    if looks:
        g.addcmul_(memory, sum([one.radial for one in looks[1:]], looks[0].radial), value=-1)
        for one in looks:
            products.add_outer(g, one.key, one.alike)


def _backward(
    grads: tuple,
    h0: Tensor,
    c0: Tensor | None,
    weights: Weights,
    trace: _Trace,
    written: Looks,
    seen: Looks,
    how: Machine,
) -> tuple[Tensor | None, ...]:
    of_shown, of_reads, of_h, of_c, of_memory, of_write, of_read = grads
    time = len(trace.hs)
    layout = Layout(how.writers + how.readers, how.writers, trace.memory.shape[2], trace.shift.shape[-1])
    core = pull_of(trace.made, trace.hs, trace.cs, h0, c0, weights.recurrent, of_c)
    tanh, logistic, rest = layout.ends
    into = torch.empty_like(trace.orders)
    into_positive, into_shift = torch.empty_like(trace.positive), torch.empty_like(trace.shift)
    bend = _bend(trace.orders, tanh, logistic, rest)
    parts, into_parts = layout.parts(trace.orders), layout.parts(into)
    adds, erases = (parts[place].unbind() for place in (1, 2))
    into_adds, into_erases = (into_parts[place].unbind() for place in (1, 2))
    told = _told(layout, trace.orders, trace.over_key, trace.positive, trace.shift)
    into_told = _told(layout, into, trace.over_key, into_positive, into_shift)
    steep_write = at_each(Slopes.of(told[0], written, trace.write[:-1], trace.over_length[:-1]))
    steep_read = at_each(Slopes.of(told[1], seen, trace.read[:-1], trace.over_length[1:]))
    by_write, by_read = map(at_each, told)
    into_write, into_read = map(at_each, into_told)
    at_write, at_read = at_each(written), at_each(seen)
    memories, writes, views = (part.unbind() for part in (trace.memory, trace.write, trace.read))
    write_ring, read_ring = (Ring(one.around[0], memories[0].shape[-1]) for one in (written, seen))
    g = of_memory.clone(memory_format=torch.contiguous_format)
    products = Products(g)
    carried = torch.zeros_like(of_reads[0])
    # A look that writes gives the gradient of the memory before it something; that waits for the look that reads
    # there, a step earlier, so that both are added at once.
    waits: list[Pulled] = []
    for t in reversed(range(time)):
        r = of_reads[t] + carried
        products.add_outer(g, r, views[t + 1])
        of_read = of_read + products.dots(r, memories[t + 1])
        pulled = pull_look(
            products,
            of_read,
            memories[t + 1],
            views[t + 1],
            by_read[t],
            at_read[t],
            steep_read[t],
            read_ring,
            into_read[t],
        )
        of_read = pulled.before
        _add_looks(products, g, memories[t + 1], [pulled, *waits])
        of_write = of_write + _pull_write(
            products, g, memories[t], writes[t + 1], erases[t], adds[t], [into_adds[t], into_erases[t]]
        )
        pulled = pull_look(
            products,
            of_write,
            memories[t],
            writes[t + 1],
            by_write[t],
            at_write[t],
            steep_write[t],
            write_ring,
            into_write[t],
        )
        of_write, waits = pulled.before, [pulled]
        orders = into[t]
        orders[:, logistic:rest] = into_positive[t]
        orders[:, :rest].mul_(bend[t])
        orders[:, rest:] = _softmax_backward(into_shift[t], trace.shift[t], -1, orders.dtype).flatten(1)
        of_h = torch.addmm(of_h, orders, weights.heads).add_(of_shown[t])
        of_h = core.pull(t, of_h)
        carried = (core.into[t] @ weights.reader).view_as(carried)
        if how.gradient_limit is not None:
            _add_looks(products, g, memories[t], waits)
            waits = []
            for part in (of_h, core.carried, g, of_write, of_read, carried):
                if part is not None:
                    part.clamp_(-how.gradient_limit, how.gradient_limit)
    _add_looks(products, g, memories[0], waits)
    flat = core.into.flatten(0, 1)
    return (
        core.into,
        of_h,
        core.carried,
        g,
        of_write,
        of_read,
        carried,
        core.recurrent(),
        flat.T @ trace.reads[:-1].flatten(0, 1).flatten(1),
        into.flatten(0, 1).T @ trace.hs.flatten(0, 1),
        into.sum((0, 1)),
    )


def _bend(orders: Tensor, tanh: int, logistic: int, rest: int) -> Tensor:
    """Slopes of tanh, of the logistic function, and of softplus, at all steps."""
    bounded, gates, raw = orders[..., :tanh], orders[..., tanh:logistic], orders[..., logistic:rest]
    return torch.cat([1 - bounded * bounded, gates * (1 - gates), torch.sigmoid(raw)], dim=-1)


def _layout(start: Start, how: Machine) -> Layout:
    return Layout(how.writers + how.readers, how.writers, start.memory.shape[1], 2 * how.reach + 1)
