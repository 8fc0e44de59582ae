"""Affine recurrences in chunks: the chunks in parallel, then a loop over their states.

Inside a chunk that starts from the state S_0, the rows `u_i = b_i^T S_{i-1}` solve a triangular system, and states and
outputs are linear in S_0. With the decayed products of `affine_decays`, such as `(BA)_ij`,

    (I - BA) [W, Z] = [B_in, BK V],     U   = W S_0 + Z
    O   = Q_in S_0 + QK V + QA U,       S_C = (diag(e^G) + A_out^T W) S_0 + K_out^T V + A_out^T Z

where `in` means decayed from the chunk's start, `out` decayed to its end, and G is the decay over the chunk.

The gradient dS of the states obeys the same recurrence in reverse, with a and b exchanged. With y_i = a_i^T dS_i,

    (I - BA)^T Y = A_out dS_C + QA^T dO,    dS_0 = (diag(e^G) + A_out^T W)^T dS_C + (Q_in + QA W)^T dO,
    dV = K_out dS_C + QK^T dO + BK^T Y,

and the gradients of the products are `[dO, Y] [V, U]^T`, of the reads `[dO, Y] S_0^T`, of the writes `[V, U] dS_C^T`.

Memory is linear in the number of steps: besides the sequences, the backward pass keeps the products (4 numbers for each
step and step of its chunk, 1 without erasure), the first state of every chunk, and with erasure U, and W and BA in
float64. It recomputes the decays. The triangular system and the factor of S_0 in S_C are computed in float64: their
errors multiply from chunk to chunk, while all others only add up.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.kernels.affine_decays import Blocks, decay_backward, decayed_products, decaying_blocks, times_transposed


class Chunks(NamedTuple):
    """Sequences in chunks, (heads, chunks, steps, features), and a state; or their gradients.

    The steps of a chunk are a power of 2. A step that is all zeros has no effect.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    a: Tensor | None
    b: Tensor | None
    state: Tensor
    """The state before the first step, (heads, keys, values)."""


class Trace(NamedTuple):
    """Results of the forward pass that the backward pass needs; heads and chunks share the first dimension."""

    products: Tensor
    """Decayed products, (heads chunks, steps, kinds of reads, steps, kinds of writes)."""
    BA: Tensor | None
    """BA in float64, (heads chunks, steps, steps), with erasure."""
    starts: Tensor
    """First state of every chunk, (heads chunks, keys, values)."""
    W: Tensor | None
    """In float64, (heads chunks, steps, keys), with erasure."""
    U: Tensor | None
    """(heads chunks, steps, values), with erasure."""


def chunked(given: Chunks) -> tuple[Tensor, Tensor, Trace]:
    """Return the outputs (heads, chunks, steps, values), the final state (heads, keys, values) and the trace.

    Every operation is differentiable, to any order.
    """
    sizes, state, W, U = given.q.shape[:2], given.state, None, None
    reads, writes, g, v = _stacked(given)
    products, BA, (reads_in, writes_out, keep) = decayed_products(reads, writes, g)
    keep = keep.unsqueeze(-1)  # (heads chunks, keys or 1, 1)
    added = writes_out[:, :, 0].mT @ v
    if BA is None:
        starts, state = _carried(keep.unflatten(0, sizes), added.unflatten(0, sizes), state)
    else:
        right = torch.cat([reads_in[:, :, 1], _block(products, 1, 0) @ v], -1)
        solved = torch.linalg.solve_triangular(-BA, right.to(BA), upper=False, unitriangular=True)
        W, Z = solved.split([reads.shape[-1], v.shape[-1]], -1)
        A_out, Z = writes_out[:, :, 1].mT, Z.to(v)
        moved, added = _transition(keep, A_out, W), added + A_out @ Z
        starts, state = _carried(moved.unflatten(0, sizes), added.unflatten(0, sizes), state)
        U = W.to(Z) @ starts + Z
    outputs = reads_in[:, :, 0] @ starts + products[:, :, 0].flatten(2) @ _kinds(v, U).flatten(1, 2)
    return outputs.unflatten(0, sizes), state, Trace(products, BA, starts, W, U)


def _stacked(given: Chunks) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return reads and writes, (heads chunks, steps, kinds, keys), g and v."""
    q, k, v, g, a, b, _ = given
    reads, writes = (_kinds(q, b).flatten(0, 1), _kinds(k, a).flatten(0, 1))
    return reads, writes, g.flatten(0, 1), v.flatten(0, 1)


def _kinds(first: Tensor, second: Tensor | None) -> Tensor:
    """Stack features of two kinds."""
    return first.unsqueeze(-2) if second is None else torch.stack([first, second], -2)


def _block(products: Tensor, read: int, write: int) -> Tensor:
    """Return the products of a kind of reads with a kind of writes, (heads chunks, steps, steps).

    They are copied, since a product of matrices on a CPU would copy the matrix of each head and chunk separately.
    """
    return products[:, :, read, :, write].contiguous()


def _transition(keep: Tensor, A_out: Tensor, W: Tensor) -> Tensor:
    """Return the factor of the state over a chunk, (heads chunks, keys, keys), rounded once."""
    return (torch.diag_embed(keep.squeeze(-1).expand(-1, W.shape[-1])) + A_out.to(W) @ W).to(keep)


def _carried(moved: Tensor, added: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first state of every chunk, (heads chunks, keys, values), and the last state."""
    starts = []
    for factor, term in zip(moved.unbind(1), added.unbind(1), strict=True):
        starts.append(state)
        state = (factor @ state if factor.shape[-1] > 1 else factor * state) + term
    return torch.stack(starts, 1).flatten(0, 1), state


def chunked_backward(
    given: Chunks, trace: Trace, into_outputs: Tensor, into_state: Tensor, needs_g: bool = True
) -> Chunks:
    """Return the gradients of the arguments of `chunked` from those of the outputs and of the final state.

    Without `needs_g`, that of g may be None, which saves time in a delta rule without decay.
    """
    products, BA, starts, W, U = trace
    reads, writes, g, v = _stacked(given)
    written = _kinds(v, U)
    sizes, into_outputs = into_outputs.shape[:2], into_outputs.flatten(0, 1)
    levels = list(decaying_blocks(reads, writes, g))
    reads_in, writes_out, keep = levels[-1]
    keep = keep.unsqueeze(-1)
    moved, readers = keep, reads_in[:, :, 0]
    if W is not None:
        moved = _transition(keep, writes_out[:, :, 1].mT, W).mT
        readers = readers + _block(products, 0, 1) @ W.to(v)
    ends, into_start = _carried_back(
        moved.unflatten(0, sizes), (readers.mT @ into_outputs).unflatten(0, sizes), into_state
    )
    into_written = writes_out.flatten(1, 2) @ ends + products[:, :, 0].flatten(2).mT @ into_outputs
    into_written = into_written.unflatten(1, writes.shape[1:3])
    into_values, sources = into_written[:, :, 0], into_outputs.unsqueeze(2)
    if BA is not None:
        right = into_written[:, :, 1].to(BA)
        Y = torch.linalg.solve_triangular(-BA.mT, right, upper=True, unitriangular=True).to(v)
        into_values = into_values + _block(products, 1, 0).mT @ Y
        sources = torch.stack([into_outputs, Y], 2)
    into_products = times_transposed(sources.flatten(1, 2), written.flatten(1, 2)).view(products.shape)
    into_reads_in = times_transposed(sources.flatten(1, 2), starts).view(reads.shape)
    into_writes_out = times_transposed(written.flatten(1, 2), ends).view(writes.shape)
    into_keep = (starts * ends).sum(-1)
    into_keep = into_keep if g.shape[-1] > 1 else into_keep.sum(-1, True)
    into = Blocks(into_reads_in, into_writes_out, into_keep)
    into_reads, into_writes, into_g = decay_backward(reads, writes, g, levels, products, into, into_products, needs_g)
    into_q, into_k = into_reads[:, :, 0], into_writes[:, :, 0]
    into_a, into_b = (None, None) if W is None else (into_writes[:, :, 1], into_reads[:, :, 1])
    found = (into_q, into_k, into_values, into_g, into_a, into_b)
    return Chunks._make((*(None if x is None else x.unflatten(0, sizes) for x in found), into_start))


def _carried_back(moved: Tensor, added: Tensor, into_state: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of the last state of every chunk, (heads chunks, keys, values), and that of the first."""
    starts, into_state = _carried(moved.flip(1), added.flip(1), into_state)
    return starts.unflatten(0, added.shape[:2]).flip(1).flatten(0, 1), into_state
