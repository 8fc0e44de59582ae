"""The steps of a tape with one write head and one read head on a GPU (see `tape`): one kernel per time step.

A program takes one sequence. It computes the parameters of the heads from their raw outputs, addresses, writes and
reads. The controller runs between these kernels. The forward pass stores the memory and the
weights of every step, and the backward pass computes everything else again. The memory is read in blocks of rows, so
that a program needs few registers; a program never reads what it has written, except after a barrier.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.tape_types import Start, TapeOptions, Weights
from mnemoscope.kernels.triton_controllers import build_gradient, build_steps, product
from mnemoscope.kernels.triton_parts import nonlinear

TILE = 4096
"""Numbers of the memory that a program holds at a time."""


class TapeTrace(NamedTuple):
    """Results of the forward pass that the backward pass needs."""

    made: Tensor
    hs: Tensor
    cs: Tensor | None
    head_outputs: Float[Tensor, "time batch head_outputs"]
    """Outputs for the heads before their nonlinearities."""
    memory: Float[Tensor, "places batch numbers slots"]
    write: Float[Tensor, "places batch 1 slots"]
    read: Float[Tensor, "places batch 1 slots"]
    reads: Float[Tensor, "places batch 1 numbers"]


def forward(us: Tensor, start: Start, weights: Weights, options: TapeOptions) -> TapeTrace:
    """Run all steps; return the results for the backward pass."""
    time, batch, _ = us.shape
    new, (numbers, slots) = us.new_empty, start.memory.shape[1:]
    core = build_steps(us, start, weights.recurrent)
    trace = TapeTrace(
        core.made,
        core.hs,
        core.cs,
        head_outputs=new(time, batch, len(weights.bias)),
        memory=new(time + 1, batch, numbers, slots),
        write=new(time + 1, batch, 1, slots),
        read=new(time + 1, batch, 1, slots),
        reads=new(time + 1, batch, 1, numbers),
    )
    for name in ("memory", "write", "read", "reads"):
        getattr(trace, name)[0] = getattr(start, name)
    reader, to_heads, flat = weights.reader.T.contiguous(), weights.heads.T.contiguous(), trace.reads.flatten(2)
    tensors, sizes = trace[3:], _sizes(trace.memory, options)
    with on_device(us):
        for t in range(time):
            h = core.step(t, flat[t], reader)
            product(h, to_heads, trace.head_outputs[t], weights.bias)
            _forward_step[(batch,)](*tensors, t, batch, numbers, slots, options.least_strength, **sizes)
    return trace


def backward(
    grads: tuple[Any, ...], h0: Tensor, c0: Tensor | None, weights: Weights, trace: TapeTrace, options: TapeOptions
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the drive, the start and the weights, in their order."""
    grad_hidden, grad_reads, grad_h, grad_c, *ends = grads
    core = build_gradient(trace.made, trace.hs, trace.cs, h0, c0, weights.recurrent, grad_c)
    into, reader, to_heads = (
        torch.empty_like(trace.head_outputs),
        weights.reader.contiguous(),
        weights.heads.contiguous(),
    )
    grad_hidden, grad_reads, grad_h = (part.contiguous() for part in (grad_hidden, grad_reads, grad_h))
    g, grad_write, grad_read = (part.clone(memory_format=torch.contiguous_format) for part in ends)
    carried = torch.zeros_like(grad_reads[0])
    (_, batch, numbers, slots), limit = trace.memory.shape, options.gradient_limit
    sizes = {**_sizes(trace.memory, options), "LIMITED": limit is not None}
    with on_device(g):
        for t in reversed(range(len(trace.hs))):
            tensors = (*trace[3:7], grad_reads, carried, g, grad_write, grad_read, into)
            _backward_step[(batch,)](*tensors, t, batch, numbers, slots, options.least_strength, limit or 0.0, **sizes)
            grad_h = product(into[t], to_heads, torch.empty_like(grad_h), grad_h, grad_hidden[t])
            grad_h = core.pull(t, grad_h)
            carried = torch.empty_like(carried)
            product(core.into[t], reader, carried.flatten(1))
            if limit is not None:
                for part in (grad_h, core.carried, carried):
                    if part is not None:
                        part.clamp_(-limit, limit)
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


def _sizes(memory: Tensor, options: TapeOptions) -> dict[str, Any]:
    """Return the constants of the kernels."""
    numbers, slots = memory.shape[2:]
    columns = max(16, triton.next_power_of_2(slots))
    return {
        "REACH": options.reach,
        "MOVES": max(2, triton.next_power_of_2(2 * options.reach + 1)),
        "COLUMNS": columns,
        "ROWS": max(1, min(triton.next_power_of_2(numbers), TILE // columns)),
        "num_warps": 4 if columns <= 256 else 8,
    }


@triton.jit
def _softplus(x):
    """Return `log(1 + exp(x))`; log(1 + y) is 2 atanh(y / (2 + y)), as a series."""
    y = tl.exp(-tl.abs(x))
    u = y / (2 + y)
    v = u * u
    series = 1.0 / 9 + v * (1.0 / 11 + v * (1.0 / 13 + v / 15))
    series = 1.0 + v * (1.0 / 3 + v * (1.0 / 5 + v * (1.0 / 7 + v * series)))
    return tl.where(x > 0, x, 0.0) + 2 * u * series


@triton.jit
def _inverse_length(squares):
    return 1 / tl.sqrt(squares + 1e-16)  # the square of TINY of `tape_addressing`


@triton.jit
def _bounded(at, rows, numbers, PHI: tl.constexpr):
    """Return a vector of a head, which is 0 beyond its numbers."""
    vector = nonlinear(tl.load(at + rows, mask=rows < numbers, other=0.0).to(tl.float32), 0.0, PHI)
    return tl.where(rows < numbers, vector, 0.0)


@triton.jit
def _head(at, head, numbers, least, moves, REACH: tl.constexpr):
    """Return gate, strength, gamma and shifts of a head; 0 is the write head, 1 the read head."""
    scalars = at + 4 * numbers
    gate = nonlinear(tl.load(scalars + head), 0.0, "logistic")
    strength = _softplus(tl.load(scalars + 2 + head)) + least
    gamma = _softplus(tl.load(scalars + 4 + head)) + 1
    COUNT: tl.constexpr = 2 * REACH + 1
    shift = tl.load(scalars + 6 + head * COUNT + moves, mask=moves < COUNT, other=float("-inf"))
    return gate, strength, gamma, _softmax(shift)


@triton.jit
def _softmax(x):
    powers = tl.exp(x - tl.max(x, 0))
    return powers / tl.sum(powers, 0)


@triton.jit
def _softmax_pull(g, probabilities):
    shares = probabilities * g
    return shares - probabilities * tl.sum(shares, 0)


@triton.jit
def _neighbour(x, offset, columns, slots):
    """Return the values `offset` slots further on the ring."""
    return tl.gather(x, (columns + offset + slots) % slots, 0)


@triton.jit
def _mixed(similarity, scale, gate, before, columns, slots):
    """Return the weights by content, and their mixture with the previous weights."""
    content = _softmax(tl.where(columns < slots, similarity * scale, float("-inf")))
    return content, before + gate * (content - before)


@triton.jit
def _shifted(mixed, shift, moves, columns, slots, REACH: tl.constexpr):
    """Return the weights after the shift, at least FLOOR of `tape_addressing`."""
    shifted = tl.zeros_like(mixed)
    for k in tl.static_range(2 * REACH + 1):
        factor = tl.sum(tl.where(moves == k, shift, 0.0), 0)
        shifted += factor * _neighbour(mixed, k - REACH, columns, slots)
    return tl.maximum(shifted, 1e-30)


@triton.jit
def _address(similarity, scale, gate, gamma, shift, before, moves, columns, slots, REACH: tl.constexpr):
    """Return the weights of a head."""
    _, mixed = _mixed(similarity, scale, gate, before, columns, slots)
    logs = tl.log(_shifted(mixed, shift, moves, columns, slots, REACH))
    return _softmax(tl.where(columns < slots, gamma * logs, float("-inf")))


@triton.jit
def _address_pull(
    g,
    weights,
    similarity,
    inverse_length,
    inverse_key_length,
    gate,
    strength,
    gamma,
    shift,
    before,
    moves,
    columns,
    slots,
    REACH: tl.constexpr,
):
    """Return the gradients of an addressing from those of its weights (`AddressingBackward.pull`)."""
    scale = strength * inverse_key_length
    content, mixed = _mixed(similarity, scale, gate, before, columns, slots)
    shifted = _shifted(mixed, shift, moves, columns, slots, REACH)
    g = _softmax_pull(g, weights)
    into_gamma = tl.sum(g * tl.log(shifted), 0)
    g = tl.where(shifted > 1e-30, g * gamma / shifted, 0.0)
    into_shift = tl.zeros_like(shift)
    into_mixed = tl.zeros_like(g)
    for k in tl.static_range(2 * REACH + 1):
        product = tl.sum(g * _neighbour(mixed, k - REACH, columns, slots), 0)
        into_shift = tl.where(moves == k, product, into_shift)
        factor = tl.sum(tl.where(moves == k, shift, 0.0), 0)
        into_mixed += factor * _neighbour(g, REACH - k, columns, slots)
    into_mixed = tl.where(columns < slots, into_mixed, 0.0)
    into_gate = tl.sum(into_mixed * (content - before), 0)
    into_content = into_mixed * gate
    g = _softmax_pull(into_content, content)
    together = g * similarity
    into_strength = tl.sum(together, 0) * inverse_key_length
    slope = scale * inverse_length
    moves_gradient = _softmax_pull(into_shift, shift)
    return (
        into_mixed - into_content,
        g * slope,
        together * slope * inverse_length,
        into_gate,
        into_strength,
        into_gamma,
        moves_gradient,
    )


@triton.jit
def _store_head(
    into, at, head, numbers, gate, into_gate, into_strength, into_gamma, into_moves, moves, REACH: tl.constexpr
):
    """Store the gradients of the raw outputs for gate, strength, gamma and shifts."""
    COUNT: tl.constexpr = 2 * REACH + 1
    scalars = at + 4 * numbers
    to = into + 4 * numbers
    tl.store(to + head, into_gate * gate * (1 - gate))
    tl.store(to + 2 + head, into_strength * nonlinear(tl.load(scalars + 2 + head), 0.0, "logistic"))
    tl.store(to + 4 + head, into_gamma * nonlinear(tl.load(scalars + 4 + head), 0.0, "logistic"))
    tl.store(to + 6 + head * COUNT + moves, into_moves, mask=moves < COUNT)


@triton.jit(do_not_specialize=["t", "batch"])
def _forward_step(
    head_outputs,
    memory,
    write,
    read,
    reads,
    t,
    batch,
    numbers,
    slots,
    least,
    REACH: tl.constexpr,
    MOVES: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    now = b + t * batch
    then = now + batch
    at = head_outputs + now * (4 * numbers + 6 + 2 * (2 * REACH + 1))
    columns = tl.arange(0, COLUMNS)
    moves = tl.arange(0, MOVES)
    write_gate, write_strength, write_gamma, write_shift = _head(at, 0, numbers, least, moves, REACH)
    read_gate, read_strength, read_gamma, read_shift = _head(at, 1, numbers, least, moves, REACH)

    # the write head addresses the memory
    dots = tl.zeros([COLUMNS], tl.float32)
    squares = tl.zeros([COLUMNS], tl.float32)
    key_square = tl.sum(dots, 0)
    for first in range(0, numbers, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < numbers)[:, None] & (columns < slots)[None, :]
        M = tl.load(memory + (now * numbers + rows[:, None]) * slots + columns[None, :], mask=inside, other=0.0)
        key = _bounded(at, rows, numbers, "tanh")
        dots += tl.sum(key[:, None] * M, 0)
        squares += tl.sum(M * M, 0)
        key_square += tl.sum(key * key, 0)
    before = tl.load(write + now * slots + columns, mask=columns < slots, other=0.0)
    scale = write_strength * _inverse_length(key_square)
    similarity = dots * _inverse_length(squares)
    w = _address(similarity, scale, write_gate, write_gamma, write_shift, before, moves, columns, slots, REACH)
    tl.store(write + then * slots + columns, w, mask=columns < slots)

    # it writes, and the read head addresses the new memory
    dots = tl.zeros([COLUMNS], tl.float32)
    squares = tl.zeros([COLUMNS], tl.float32)
    key_square = tl.sum(dots, 0)
    for first in range(0, numbers, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < numbers)[:, None] & (columns < slots)[None, :]
        M = tl.load(memory + (now * numbers + rows[:, None]) * slots + columns[None, :], mask=inside, other=0.0)
        add = _bounded(at + 2 * numbers, rows, numbers, "tanh")
        erase = _bounded(at + 3 * numbers, rows, numbers, "logistic")
        M += (add[:, None] - erase[:, None] * M) * w[None, :]
        tl.store(memory + (then * numbers + rows[:, None]) * slots + columns[None, :], M, mask=inside)
        key = _bounded(at + numbers, rows, numbers, "tanh")
        dots += tl.sum(key[:, None] * M, 0)
        squares += tl.sum(M * M, 0)
        key_square += tl.sum(key * key, 0)
    before = tl.load(read + now * slots + columns, mask=columns < slots, other=0.0)
    scale = read_strength * _inverse_length(key_square)
    similarity = dots * _inverse_length(squares)
    r = _address(similarity, scale, read_gate, read_gamma, read_shift, before, moves, columns, slots, REACH)
    tl.store(read + then * slots + columns, r, mask=columns < slots)

    # it reads
    for first in range(0, numbers, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < numbers)[:, None] & (columns < slots)[None, :]
        M = tl.load(memory + (now * numbers + rows[:, None]) * slots + columns[None, :], mask=inside, other=0.0)
        add = _bounded(at + 2 * numbers, rows, numbers, "tanh")
        erase = _bounded(at + 3 * numbers, rows, numbers, "logistic")
        M += (add[:, None] - erase[:, None] * M) * w[None, :]
        tl.store(reads + then * numbers + rows, tl.sum(M * r[None, :], 1), mask=rows < numbers)


@triton.jit(do_not_specialize=["t", "batch"])
def _backward_step(
    head_outputs,
    memory,
    write,
    read,
    into_reads,
    carried,
    into_memory,
    into_write,
    into_read,
    into_heads,
    t,
    batch,
    numbers,
    slots,
    least,
    limit,
    REACH: tl.constexpr,
    MOVES: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    LIMITED: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    now = b + t * batch
    then = now + batch
    width = 4 * numbers + 6 + 2 * (2 * REACH + 1)
    at = head_outputs + now * width
    into = into_heads + now * width
    columns = tl.arange(0, COLUMNS)
    moves = tl.arange(0, MOVES)
    here = columns < slots
    write_gate, write_strength, write_gamma, write_shift = _head(at, 0, numbers, least, moves, REACH)
    read_gate, read_strength, read_gamma, read_shift = _head(at, 1, numbers, least, moves, REACH)
    w = tl.load(write + then * slots + columns, mask=here, other=0.0)
    r = tl.load(read + then * slots + columns, mask=here, other=0.0)

    # what the heads saw, and the gradient of the read weights from that of the reads
    write_dots = tl.zeros([COLUMNS], tl.float32)
    write_squares = tl.zeros([COLUMNS], tl.float32)
    read_dots = tl.zeros([COLUMNS], tl.float32)
    read_squares = tl.zeros([COLUMNS], tl.float32)
    into_r = tl.load(into_read + b * slots + columns, mask=here, other=0.0)
    write_key_square = tl.sum(write_dots, 0)
    read_key_square = write_key_square
    for first in range(0, numbers, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < numbers)[:, None] & here[None, :]
        M = tl.load(memory + (now * numbers + rows[:, None]) * slots + columns[None, :], mask=inside, other=0.0)
        key = _bounded(at, rows, numbers, "tanh")
        write_dots += tl.sum(key[:, None] * M, 0)
        write_squares += tl.sum(M * M, 0)
        write_key_square += tl.sum(key * key, 0)
        add = _bounded(at + 2 * numbers, rows, numbers, "tanh")
        erase = _bounded(at + 3 * numbers, rows, numbers, "logistic")
        M += (add[:, None] - erase[:, None] * M) * w[None, :]
        key = _bounded(at + numbers, rows, numbers, "tanh")
        read_dots += tl.sum(key[:, None] * M, 0)
        read_squares += tl.sum(M * M, 0)
        read_key_square += tl.sum(key * key, 0)
        g = tl.load(into_reads + now * numbers + rows, mask=rows < numbers, other=0.0)
        g += tl.load(carried + b * numbers + rows, mask=rows < numbers, other=0.0)
        into_r += tl.sum(g[:, None] * M, 0)
    inverse_length = _inverse_length(read_squares)
    inverse_key_length = _inverse_length(read_key_square)
    into_before, into_dots, radial, into_gate, into_strength, into_gamma, into_moves = _address_pull(
        into_r,
        r,
        read_dots * inverse_length,
        inverse_length,
        inverse_key_length,
        read_gate,
        read_strength,
        read_gamma,
        read_shift,
        tl.load(read + now * slots + columns, mask=here, other=0.0),
        moves,
        columns,
        slots,
        REACH,
    )
    if LIMITED:
        into_before = tl.minimum(tl.maximum(into_before, -limit), limit)
    tl.store(into_read + b * slots + columns, into_before, mask=here)
    _store_head(into, at, 1, numbers, read_gate, into_gate, into_strength, into_gamma, into_moves, moves, REACH)

    # the gradient of the new memory is complete; pull it back through the write
    shrink = inverse_key_length * inverse_key_length * read_strength * into_strength
    into_w = tl.load(into_write + b * slots + columns, mask=here, other=0.0)
    for first in range(0, numbers, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < numbers)[:, None] & here[None, :]
        M = tl.load(memory + (now * numbers + rows[:, None]) * slots + columns[None, :], mask=inside, other=0.0)
        G_at = into_memory + (b * numbers + rows[:, None]) * slots + columns[None, :]
        add = _bounded(at + 2 * numbers, rows, numbers, "tanh")
        erase = _bounded(at + 3 * numbers, rows, numbers, "logistic")
        change = add[:, None] - erase[:, None] * M
        new = M + change * w[None, :]
        key = _bounded(at + numbers, rows, numbers, "tanh")
        g = tl.load(into_reads + now * numbers + rows, mask=rows < numbers, other=0.0)
        g += tl.load(carried + b * numbers + rows, mask=rows < numbers, other=0.0)
        G = tl.load(G_at, mask=inside, other=0.0)
        G += g[:, None] * r[None, :] - new * radial[None, :] + key[:, None] * into_dots[None, :]
        into_key = tl.sum(new * into_dots[None, :], 1) - key * shrink
        tl.store(into + numbers + rows, into_key * (1 - key * key), mask=rows < numbers)
        into_w += tl.sum(tl.where(here[None, :], G * change, 0.0), 0)
        weighted = G * w[None, :]
        tl.store(into + 2 * numbers + rows, tl.sum(weighted, 1) * (1 - add * add), mask=rows < numbers)
        into_erase = -tl.sum(weighted * M, 1)
        tl.store(into + 3 * numbers + rows, into_erase * erase * (1 - erase), mask=rows < numbers)
        tl.store(G_at, G - weighted * erase[:, None], mask=inside)

    # the addressing of the write head
    inverse_length = _inverse_length(write_squares)
    inverse_key_length = _inverse_length(write_key_square)
    into_before, into_dots, radial, into_gate, into_strength, into_gamma, into_moves = _address_pull(
        into_w,
        w,
        write_dots * inverse_length,
        inverse_length,
        inverse_key_length,
        write_gate,
        write_strength,
        write_gamma,
        write_shift,
        tl.load(write + now * slots + columns, mask=here, other=0.0),
        moves,
        columns,
        slots,
        REACH,
    )
    if LIMITED:
        into_before = tl.minimum(tl.maximum(into_before, -limit), limit)
    tl.store(into_write + b * slots + columns, into_before, mask=here)
    _store_head(into, at, 0, numbers, write_gate, into_gate, into_strength, into_gamma, into_moves, moves, REACH)
    shrink = inverse_key_length * inverse_key_length * write_strength * into_strength
    tl.debug_barrier()  # other threads may have stored what this one loads
    for first in range(0, numbers, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < numbers)[:, None] & here[None, :]
        M = tl.load(memory + (now * numbers + rows[:, None]) * slots + columns[None, :], mask=inside, other=0.0)
        G_at = into_memory + (b * numbers + rows[:, None]) * slots + columns[None, :]
        key = _bounded(at, rows, numbers, "tanh")
        G = tl.load(G_at, mask=inside, other=0.0) - M * radial[None, :] + key[:, None] * into_dots[None, :]
        if LIMITED:
            G = tl.minimum(tl.maximum(G, -limit), limit)
        tl.store(G_at, G, mask=inside)
        into_key = tl.sum(M * into_dots[None, :], 1) - key * shrink
        tl.store(into + rows, into_key * (1 - key * key), mask=rows < numbers)
