"""The scan of a neural Turing machine as one operator, without a graph per step (Graves et al. 2014, section 3).

The controller sees its drive, its state and the previous reads. One linear map of its output gives the parameters of
the heads; these write to the memory, then read it. Matrix controllers come in vector form, with Kronecker products as
weights.

The forward pass stores the memory of every step, and the weights of every head with the intermediate results of their
addressing. The backward pass runs through the steps in reverse. Slopes that depend on the forward pass only are
computed for all steps before the loop, and the gradients of matrices by one product each after it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.batched_gradients import loop_over_batch
from mnemoscope.kernels.devices import no_triton, useful_threads
from mnemoscope.kernels.tape_addressing import (
    TINY,
    Addressing,
    AddressingBackward,
    AddressingGradients,
    AddressingTrace,
    HeadParameters,
    Products,
    softmax_backward,
)
from mnemoscope.kernels.tape_controllers import build_gradient, build_steps
from mnemoscope.kernels.tape_types import Layout, Start, TapeOptions, Weights

MOST_SLOTS = 1024
"""Largest tape whose steps are single kernels on a GPU; the weights of a head stay in registers."""


def tape_scan(
    us: Float[Tensor, "time batch layers_width"], start: Start, weights: Weights, options: TapeOptions
) -> tuple[Tensor, Tensor, Start]:
    """Return the outputs of the controller, the reads, and the state after the last step.

    Outputs are (time, batch, units), reads (time, batch, readers, numbers).
    """
    hidden, reads, *last = _Tape.apply(options, us, *start, *weights)  # pyright: ignore[reportGeneralTypeIssues]
    return hidden, reads, Start(*last, reads=reads[-1])


class _Trace(NamedTuple):
    made: Tensor
    hs: Tensor
    cs: Tensor | None
    head_outputs: Tensor
    """After tanh and the logistic function; strengths, gammas and shifts are before their nonlinearity."""
    memory: Float[Tensor, "places batch numbers slots"]
    inverse_length: Float[Tensor, "places batch 1 slots"]
    write: Float[Tensor, "places batch writers slots"]
    read: Float[Tensor, "places batch readers slots"]
    reads: Float[Tensor, "places batch readers numbers"]
    inverse_key_length: Tensor
    positive: Tensor
    """Strengths and gammas."""
    shift: Tensor


def _head_parameters(layout: Layout, trace: _Trace) -> list[HeadParameters]:
    """Return the parameters of the write heads and of the read heads, at all steps."""
    key, _, _, gate, *_ = layout.parts(trace.head_outputs)
    strength, gamma = trace.positive.unflatten(-1, (2, -1)).unsqueeze(-1).unbind(-3)
    parts = (key, trace.inverse_key_length, strength, gate, trace.shift, gamma)
    heads = slice(layout.writers), slice(layout.writers, None)
    return [HeadParameters(*(part[..., which, :] for part in parts)) for which in heads]


class _Tape(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: TapeOptions, us: Tensor, *tensors: Any) -> tuple[Tensor | None, ...]:
        start, weights = Start(*tensors[:6]), Weights(*tensors[6:])
        ctx.options, ctx.kernels = options, _kernels(us, start, options)
        if ctx.kernels is not None:
            trace, addressing = ctx.kernels.forward(us, start, weights, options), ()
        else:
            with useful_threads(start.h):
                trace, write_trace, read_trace = _forward(us, start, weights, options)
            addressing = (*write_trace, *read_trace)
        ctx.save_for_backward(start.h, start.c, *weights, *trace, *addressing)
        last_c = None if trace.cs is None else trace.cs[-1].clone()
        ends = (part[-1].clone() for part in (trace.memory, trace.write, trace.read))
        return trace.hs, trace.reads[1:], trace.hs[-1].clone(), last_c, *ends

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("The fast scan of a Turing machine has no second derivative; pass backend='loop'.")
        h, c, *saved = ctx.saved_tensors
        weights, saved = Weights(*saved[:4]), saved[4:]

        def pull(*grads: Tensor | None) -> tuple[Tensor | None, ...]:
            if ctx.kernels is not None:
                return ctx.kernels.backward(grads, h, c, weights, ctx.kernels.TapeTrace(*saved), ctx.options)
            addressing = AddressingTrace(*saved[12:17]), AddressingTrace(*saved[17:])
            return _backward(grads, h, c, weights, _Trace(*saved[:12]), addressing, ctx.options)

        with torch.autocast(h.device.type, enabled=False), useful_threads(h):
            return (None, *loop_over_batch(pull, *grads))


def _kernels(us: Tensor, start: Start, options: TapeOptions) -> Any:
    """Return the module of the Triton kernels, or None if they do not suit the scan."""
    one_each = options.writers == options.readers == 1
    if not one_each or us.dtype != torch.float32 or start.memory.shape[-1] > MOST_SLOTS:
        return None
    if no_triton("tape", us.device) is not None:
        return None
    from mnemoscope.kernels import triton_tape

    return triton_tape


def _forward(
    us: Tensor, start: Start, weights: Weights, options: TapeOptions
) -> tuple[_Trace, AddressingTrace, AddressingTrace]:
    time, batch, _ = us.shape
    new, (numbers, slots) = us.new_empty, start.memory.shape[1:]
    layout = Layout.of(numbers, options)
    core = build_steps(us, start.h, start.c, weights.recurrent)
    trace = _Trace(
        core.made,
        core.hs,
        core.cs,
        head_outputs=new(time, batch, len(weights.bias)),
        memory=new(time + 1, batch, numbers, slots),
        inverse_length=new(time + 1, batch, 1, slots),
        write=new(time + 1, batch, options.writers, slots),
        read=new(time + 1, batch, options.readers, slots),
        reads=new(time + 1, batch, options.readers, numbers),
        inverse_key_length=new(time, batch, layout.heads, 1),
        positive=new(time, batch, 2 * layout.heads),
        shift=new(time, batch, layout.heads, layout.moves),
    )
    write_trace, read_trace = (
        AddressingTrace.empty(us, (time, batch, count, slots), options.reach)
        for count in (options.writers, options.readers)
    )
    products = Products(start.memory)
    by_write, by_read = _head_parameters(layout, trace)
    write = Addressing(products, by_write, trace.write, write_trace)
    read = Addressing(products, by_read, trace.read, read_trace)
    memories, lengths, flat = (part.unbind() for part in (trace.memory, trace.inverse_length, trace.reads.flatten(2)))
    for name in ("memory", "write", "read", "reads"):
        getattr(trace, name)[0] = getattr(start, name)
    products.inverse_lengths(start.memory, lengths[0])
    least = torch.cat([new(layout.heads).fill_(value) for value in (options.least_strength, 1.0)])
    keys, adds, erases, *_, moves = (part.unbind() for part in layout.parts(trace.head_outputs))
    bounded, gates, raw, _ = (part.unbind() for part in layout.by_function(trace.head_outputs))
    reader, to_heads = weights.reader.T.contiguous(), weights.heads.T.contiguous()
    for t in range(time):
        h = core.step(t, flat[t], reader)
        torch.addmm(weights.bias, h, to_heads, out=trace.head_outputs[t])
        bounded[t].tanh_()
        gates[t].sigmoid_()
        torch.add(softplus(raw[t]), least, out=trace.positive[t])
        torch.softmax(moves[t], -1, out=trace.shift[t])
        torch.sum(keys[t].square(), -1, keepdim=True, out=trace.inverse_key_length[t]).add_(TINY**2).rsqrt_()
        write.address(t, memories[t], lengths[t])
        _write(products, memories[t], write.weights[t + 1], erases[t], adds[t], memories[t + 1])
        products.inverse_lengths(memories[t + 1], lengths[t + 1])
        read.address(t, memories[t + 1], lengths[t + 1])
        flat[t + 1].copy_(products.means(read.weights[t + 1], memories[t + 1]).flatten(1))
    return trace, write_trace, read_trace


def _write(products: Products, memory: Tensor, w: Tensor, erase: Tensor, add: Tensor, out: Tensor) -> None:
    """Write `M prod_h (1 - e_h w_h) + sum_h a_h w_h` (Graves et al., Eq 3-4) to `out`."""
    if w.shape[1] == 1:
        torch.addcmul(memory, _change(products, memory, erase, add), w, out=out)
        return
    out.copy_(_erased(memory, w, erase)[-1])
    products.add_outer(out, add, w)


def _change(products: Products, memory: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """Return `a - e M`, the change by a single write head of weight 1, in the buffer.

    It takes two passes, because `addcmul` is several times slower if it broadcasts two arguments along the slots.
    """
    return torch.sub(add.mT, torch.mul(memory, erase.mT, out=products.buffer), out=products.buffer)


def _erased(memory: Tensor, w: Tensor, erase: Tensor) -> list[Tensor]:
    """Return the memory before and after each head has erased."""
    steps = [memory]
    for one, e in zip(w.unbind(1), erase.unbind(1), strict=True):
        steps.append(torch.addcmul(steps[-1], steps[-1], one.unsqueeze(1) * e.unsqueeze(2), value=-1))
    return steps


def _write_backward(
    products: Products, g: Tensor, memory: Tensor, w: Tensor, erase: Tensor, add: Tensor, into: list[Tensor]
) -> Tensor:
    """Return the gradient of the weights from that of the memory.

    `g` becomes the gradient of the memory before the write; `into` receives those of the add and erase vectors.
    """
    if w.shape[1] == 1:
        buffer = _change(products, memory, erase, add).mul_(g)
        grad_weights = buffer.sum(1, keepdim=True)
        weighted = torch.mul(g, w, out=buffer)
        torch.sum(weighted, -1, out=into[0][:, 0])
        g.addcmul_(weighted, erase.mT, value=-1)
        torch.sum(weighted.mul_(memory), -1, out=into[1][:, 0]).neg_()
        return grad_weights
    into[0].copy_(products.means(w, g))
    grad_weights = products.dots(add, g)
    before = _erased(memory, w[:, :-1], erase[:, :-1])  # the memory after the last head is not needed
    for head in reversed(range(w.shape[1])):
        one, e = w[:, head : head + 1], erase[:, head : head + 1]
        product = g * before[head]
        grad_weights[:, head : head + 1] -= products.dots(e, product)
        into[1][:, head : head + 1] = -products.means(one, product)
        g.addcmul_(g, e.mT * one, value=-1)
    return grad_weights


def _add_addressing_gradients(
    products: Products, g: Tensor, memory: Tensor, gradients: list[AddressingGradients]
) -> None:
    """Add the gradients from addressing to the gradient of a memory."""
    if gradients:
        g.addcmul_(memory, sum([part.radial for part in gradients[1:]], gradients[0].radial), value=-1)
        for part in gradients:
            products.add_outer(g, part.key, part.similarity)


def _backward(
    grads: tuple,
    h0: Tensor,
    c0: Tensor | None,
    weights: Weights,
    trace: _Trace,
    addressing: tuple[AddressingTrace, AddressingTrace],
    options: TapeOptions,
) -> tuple[Tensor | None, ...]:
    grad_hidden, grad_reads, grad_h, grad_c, grad_memory, grad_write, grad_read = grads
    layout = Layout.of(trace.memory.shape[2], options)
    core = build_gradient(trace.made, trace.hs, trace.cs, h0, c0, weights.recurrent, grad_c)
    gradients = {name: torch.empty_like(getattr(trace, name)) for name in ("head_outputs", "positive", "shift")}
    into_trace, into = trace._replace(**gradients), gradients["head_outputs"]
    bounded, gates, raw, _ = layout.by_function(trace.head_outputs)
    slopes = torch.cat([1 - bounded * bounded, gates * (1 - gates), torch.sigmoid(raw)], dim=-1)
    _, adds, erases, *_ = (part.unbind() for part in layout.parts(trace.head_outputs))
    _, into_adds, into_erases, *_ = (part.unbind() for part in layout.parts(into))
    *_, into_raw, into_moves = layout.by_function(into)
    g = grad_memory.clone(memory_format=torch.contiguous_format)
    products = Products(g)
    by_write, by_read = _head_parameters(layout, trace)
    into_write, into_read = _head_parameters(layout, into_trace)
    lengths = trace.inverse_length
    write = AddressingBackward(products, by_write, trace.write, addressing[0], lengths[:-1], into_write)
    read = AddressingBackward(products, by_read, trace.read, addressing[1], lengths[1:], into_read)
    memories = trace.memory.unbind()
    carried = torch.zeros_like(grad_reads[0])
    # The addressing of the write heads contributes to the gradient of the memory before the write. It is added together
    # with that of the read heads, which addressed the same memory a step earlier.
    pending: list[AddressingGradients] = []
    for t in reversed(range(len(trace.hs))):
        r = grad_reads[t] + carried
        products.add_outer(g, r, read.weights[t + 1])
        gradients = read.pull(t, grad_read + products.dots(r, memories[t + 1]), memories[t + 1])
        grad_read = gradients.before
        _add_addressing_gradients(products, g, memories[t + 1], [gradients, *pending])
        grad_write = grad_write + _write_backward(
            products, g, memories[t], write.weights[t + 1], erases[t], adds[t], [into_adds[t], into_erases[t]]
        )
        gradients = write.pull(t, grad_write, memories[t])
        grad_write, pending = gradients.before, [gradients]
        into_raw[t] = into_trace.positive[t]
        into[t, :, : slopes.shape[-1]].mul_(slopes[t])
        into_moves[t] = softmax_backward(into_trace.shift[t], trace.shift[t], -1, into.dtype).flatten(1)
        grad_h = torch.addmm(grad_h, into[t], weights.heads).add_(grad_hidden[t])
        grad_h = core.pull(t, grad_h)
        carried = (core.into[t] @ weights.reader).view_as(carried)
        if options.gradient_limit is not None:
            _add_addressing_gradients(products, g, memories[t], pending)
            pending = []
            for part in (grad_h, core.carried, g, grad_write, grad_read, carried):
                if part is not None:
                    part.clamp_(-options.gradient_limit, options.gradient_limit)
    _add_addressing_gradients(products, g, memories[0], pending)
    flat = core.into.flatten(0, 1)
    return (
        core.into,
        grad_h,
        core.carried,
        g,
        grad_write,
        grad_read,
        carried,
        core.recurrent(),
        flat.T @ trace.reads[:-1].flatten(0, 1).flatten(1),
        into.flatten(0, 1).T @ trace.hs.flatten(0, 1),
        into.sum((0, 1)),
    )
