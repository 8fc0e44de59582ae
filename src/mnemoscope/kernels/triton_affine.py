"""Affine recurrences on a GPU (see `affine_chunks`), forward and backward as Triton kernels.

Forward: `_products` computes the decayed products of every chunk and the inverse of its triangular system, `_local` all
that does not depend on the state, `_walk` takes the state from chunk to chunk, and `_outputs` adds what it contributes.
`triton_affine_backward` has the kernels of the backward pass.

float32 keeps its precision: products of three tf32 numbers, unless `torch.set_float32_matmul_precision("high")` selects
tf32. bfloat16 is multiplied directly and summed in float32. Log decays are summed exactly, and states kept in float32.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.devices import exact_products, shared_memory
from mnemoscope.kernels.triton_affine_parts import (
    load_log_decays,
    load_rows,
    load_tile,
    pair_exponents,
    product,
    selected_sums,
    store_rows,
    store_tile,
    sums_over_steps,
)
from mnemoscope.kernels.triton_launch import Launch, launch_all


class Sequences(NamedTuple):
    """Contiguous sequences (steps, heads, features), with one row per token for the queries."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    a: Tensor | None
    b: Tensor | None


class Plan(NamedTuple):
    """Sizes of a scan and of its tiles."""

    steps: int
    heads: int
    micro: int
    chunk: int
    keys: int
    values: int
    rates: int
    erases: bool
    precision: str
    """That of products: "tf32x3", "tf32" or "bf16" on a GPU, "ieee" in Triton's interpreter."""
    shared: float
    """Bytes of shared memory that a block may have."""

    @property
    def chunks(self) -> int:
        """Chunks of a sequence."""
        return triton.cdiv(self.steps, self.chunk)

    @property
    def key_tile(self) -> int:
        """Keys, filled up to a size that the matrix units take."""
        return max(16, triton.next_power_of_2(self.keys))

    @property
    def value_tile(self) -> int:
        """Values that a program takes at a time."""
        return min(64, max(16, triton.next_power_of_2(self.values)))

    @property
    def kinds(self) -> int:
        """Kinds of products that are stored."""
        return (4 if self.rates == 1 else 3) if self.erases else 1

    @property
    def storage(self) -> torch.dtype:
        """The dtype in which products and states are stored: no wider than the numbers that are multiplied."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    def constants(self) -> dict[str, Any]:
        """Return the arguments that kernels are compiled for."""
        exact = self.precision in ("tf32x3", "ieee")
        return {
            "C": self.chunk,
            "KEYS": self.keys,
            "VALUES": self.values,
            "RATES": self.rates,
            "D": self.key_tile,
            "E": self.value_tile,
            "ERASES": self.erases,
            "KINDS": self.kinds,
            "PRECISION": self.precision,
            "STATES": self.precision if exact else "tf32",
            "SOLVER": "fp64" if exact else "tf32",
            "num_warps": 4,
            "num_stages": 1,
        }

    def narrow(self) -> dict[str, Any]:
        """Return the constants of a walk over the chunks, which takes fewer values at a time.

        It loads the next chunk during the present one, if the GPU has room: the backward walk then takes `needed` bytes.
        """
        tile, number = min(32, self.value_tile), 2 if self.precision == "bf16" else 4
        needed = self.chunk * number * (self.key_tile + tile) + 8 * self.key_tile * tile
        needed += 4 * self.key_tile**2 if self.erases else 0
        return {"E": tile, "num_stages": 2 if needed <= self.shared else 1}

    def reading(self) -> dict[str, Any]:
        """Return the constants of `_reads`: with many keys, two tiles of a state do not fit into its registers."""
        return {"E": min(32, self.value_tile)} if self.key_tile >= 128 else {}

    def walks(self) -> tuple[int, int]:
        """Return the grid of a walk over the chunks."""
        return self.heads, triton.cdiv(self.values, self.narrow()["E"])

    def sizes(self) -> tuple[int, int, int, int]:
        """Return the sizes that kernels are not compiled for."""
        return self.steps, self.heads, self.chunks, self.micro

    def key(self, given: Sequences) -> tuple[Any, ...]:
        """Return the key of the kernels that this plan needs for such sequences."""
        return (*self.constants().values(), *(None if x is None else x.dtype for x in given))

    def blank(self, like: Tensor, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return memory for `shape` numbers of each chunk of each head."""
        return torch.empty(self.heads, self.chunks, *shape, dtype=dtype, device=like.device)


class Trace(NamedTuple):
    """Results of the forward pass that the backward pass needs; the first sizes are heads and chunks."""

    products: Tensor
    """QK, and with erasure QA, BK, and BA if one rate decays all keys, (heads, chunks, kinds, steps, steps)."""
    inverses: Tensor
    """The inverse of `I - BA`, (heads, chunks, steps, steps); empty without erasure."""
    readers: Tensor
    """Rows that turn the first state of a chunk into outputs, (heads, chunks, steps, keys)."""
    moved: Tensor
    """Factor of the state over a chunk, (heads, chunks, keys, keys or 1), in float32."""
    starts: Tensor
    """First state of every chunk, (heads, chunks, keys, values)."""


def plan(given: Sequences, micro: int, chunk: int | None) -> Plan:
    """Return the fastest plan on an H200 (see benchmarks/results/affine_cuda.md); a chosen chunk is rounded."""
    (steps, heads, keys), values = given.k.shape, given.v.shape[-1]
    precision = "tf32x3" if exact_products() else "tf32"
    if given.q.dtype != torch.float32:
        precision = "bf16"
    if not given.q.is_cuda:
        precision = "ieee"
    erases = given.a is not None
    size = chunk or (16 if erases and precision == "tf32x3" else 32)
    size = min(64, max(16, triton.next_power_of_2(size)))
    shared = shared_memory(given.q.device) if given.q.is_cuda else math.inf
    return Plan(steps, heads, micro, size, keys, values, given.g.shape[-1], erases, precision, shared)


def forward(given: Sequences, state: Tensor, how: Plan) -> tuple[Tensor, Tensor, Trace]:
    """Return the outputs (tokens, heads, values), the final state (heads, keys, values), and the trace."""
    q, k, v, g, a, b = given
    a, b = (k if x is None else x for x in (a, b))
    C, keys, values, blocks = how.chunk, how.keys, how.values, how.heads * how.chunks
    sizes, constants = how.sizes(), how.constants()
    products = how.blank(q, how.kinds, C, C, dtype=how.storage)
    wide = torch.float64 if constants["SOLVER"] == "fp64" else torch.float32
    inverses = how.blank(q, *((C, C) if how.erases else (0,)), dtype=wide)
    readers = how.blank(q, C, keys, dtype=how.storage)
    local = how.blank(q, C, values)
    moved = how.blank(q, keys, keys if how.erases else 1)
    added, starts = how.blank(q, keys, values), how.blank(q, keys, values, dtype=how.storage)
    outputs, final = q.new_empty(len(q), how.heads, values), torch.empty_like(state)
    tiles, narrow = triton.cdiv(values, how.value_tile), constants | how.narrow()
    launches = [
        Launch(_products, (blocks,), (q, k, g, a, b, products, inverses, *sizes), constants),
        Launch(
            _local,
            (blocks,),
            (q, k, v, g, a, b, products, inverses, readers, local, moved, added, *sizes),
            constants,
        ),
        Launch(_walk, how.walks(), (state, moved, added, starts, final, *sizes), narrow),
        Launch(_outputs, (blocks, tiles), (local, readers, starts, outputs, *sizes), constants),
    ]
    launch_all(launches, q, ("forward", *how.key(given)))
    return outputs, final, Trace(products, inverses, readers, moved, starts)


@triton.jit(do_not_specialize=["steps", "heads", "chunks", "micro"])
def _products(
    q,
    k,
    g,
    a,
    b,
    products,
    inverses,
    steps,
    heads,
    chunks,
    micro,
    C: tl.constexpr,
    KEYS: tl.constexpr,
    RATES: tl.constexpr,
    D: tl.constexpr,
    ERASES: tl.constexpr,
    KINDS: tl.constexpr,
    PRECISION: tl.constexpr,
    SOLVER: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64)
    head = block // chunks
    start = (block % chunks) * C
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    q_ = load_rows(q, start, head, steps, heads, micro, 0, KEYS, C, D)
    k_ = load_rows(k, start, head, steps, heads, 1, 0, KEYS, C, D)
    g_ = load_log_decays(g, start, head, steps, heads, RATES, C, D)
    a_ = k_
    b_ = q_
    if ERASES:
        a_ = load_rows(a, start, head, steps, heads, 1, 0, KEYS, C, D)
        b_ = load_rows(b, start, head, steps, heads, 1, 0, KEYS, C, D)
    QK = tl.zeros([C, C], tl.float32)
    QA = tl.zeros([C, C], tl.float32)
    BK = tl.zeros([C, C], tl.float32)
    BA = tl.zeros([C, C], tl.float64 if SOLVER == "fp64" else tl.float32)
    if RATES == 1:
        factor = tl.where(j <= i, tl.exp(pair_exponents(g_, i, j, 0, C, PRECISION)), 0.0)
        QK = product(q_, tl.trans(k_), PRECISION) * factor
        if ERASES:
            QA = product(q_, tl.trans(a_), PRECISION) * factor
            factor = tl.where(j < i, tl.exp(pair_exponents(g_, i, j, 1, C, PRECISION)), 0.0)
            BK = product(b_, tl.trans(k_), PRECISION) * factor
            BA = product(b_, tl.trans(a_), SOLVER) * factor
    else:
        QK = tl.where(i == j, tl.sum(q_ * k_, 1)[:, None], 0.0)
        if ERASES:
            QA = tl.where(i == j, tl.sum(q_ * a_, 1)[:, None], 0.0)
        size = 1
        while size < C:
            right = (i // size) % 2 == 1
            together = i // size == j // size
            until = tl.where(right, j <= i, j > i) & together
            decay = tl.exp(selected_sums(until, g_, PRECISION))
            across = (i // (2 * size) == j // (2 * size)) & right & ((j // size) % 2 == 0)
            reads = tl.where(right, q_ * decay, 0.0)
            writes = tl.trans(tl.where(right, 0.0, k_ * decay))
            QK += tl.where(across, product(reads, writes, PRECISION), 0.0)
            if ERASES:
                erased = tl.trans(tl.where(right, 0.0, a_ * decay))
                QA += tl.where(across, product(reads, erased, PRECISION), 0.0)
                before = tl.exp(selected_sums(together & (j < i), g_, PRECISION))
                reads = tl.where(right, b_ * before, 0.0)
                BK += tl.where(across, product(reads, writes, PRECISION), 0.0)
                BA += tl.where(across, product(reads, erased, SOLVER), 0.0)
            size *= 2
    store_tile(products, QK, KINDS * block * C, 0, C, C, C, C)
    if ERASES:
        store_tile(products, QA, (KINDS * block + 1) * C, 0, C, C, C, C)
        store_tile(products, BK, (KINDS * block + 2) * C, 0, C, C, C, C)
        if RATES == 1:
            store_tile(products, BA, (KINDS * block + 3) * C, 0, C, C, C, C)
        # inverse of I - BA: join the inverses of neighbouring blocks
        inverse = tl.where(i == j, 1.0, 0.0).to(BA.dtype)
        size = 1
        while size < C:
            across = (i // (2 * size) == j // (2 * size)) & ((i // size) % 2 == 1) & ((j // size) % 2 == 0)
            inverse += product(product(inverse, tl.where(across, BA, 0.0), SOLVER), inverse, SOLVER)
            size *= 2
        store_tile(inverses, inverse, block * C, 0, C, C, C, C)


@triton.jit(do_not_specialize=["steps", "heads", "chunks", "micro"])
def _local(
    q,
    k,
    v,
    g,
    a,
    b,
    products,
    inverses,
    readers,
    local,
    moved,
    added,
    steps,
    heads,
    chunks,
    micro,
    C: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    RATES: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    ERASES: tl.constexpr,
    KINDS: tl.constexpr,
    PRECISION: tl.constexpr,
    STATES: tl.constexpr,
    SOLVER: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64)
    head = block // chunks
    start = (block % chunks) * C
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    g_ = load_log_decays(g, start, head, steps, heads, RATES, C, D)
    q_in = load_rows(q, start, head, steps, heads, micro, 0, KEYS, C, D)
    q_in *= tl.exp(sums_over_steps(j <= i, g_, RATES, PRECISION))
    to_end = tl.exp(sums_over_steps(j > i, g_, RATES, PRECISION))
    K_out = tl.trans(load_rows(k, start, head, steps, heads, 1, 0, KEYS, C, D) * to_end)
    keep = tl.broadcast_to(tl.exp(tl.sum(g_, 0)), D)
    row = tl.arange(0, D)
    QK = load_tile(products, KINDS * block * C, 0, C, C, C, C)
    QA = QK
    BK = QK
    inverse = QK
    A_out = K_out
    if ERASES:
        QA = load_tile(products, (KINDS * block + 1) * C, 0, C, C, C, C)
        BK = load_tile(products, (KINDS * block + 2) * C, 0, C, C, C, C)
        inverse = load_tile(inverses, block * C, 0, C, C, C, C)
        A_out = tl.trans(load_rows(a, start, head, steps, heads, 1, 0, KEYS, C, D) * to_end)
        b_in = load_rows(b, start, head, steps, heads, 1, 0, KEYS, C, D)
        b_in *= tl.exp(sums_over_steps(j < i, g_, RATES, PRECISION))
        W = product(inverse, b_in, SOLVER)
        q_in += product(QA, W, PRECISION)
        factor = product(A_out, W, SOLVER) + tl.where(row[:, None] == row[None, :], keep[:, None], 0.0)
        store_tile(moved, factor, block * KEYS, 0, KEYS, D, D, KEYS)
    else:
        tl.store(moved + block * KEYS + row, keep, mask=row < KEYS)
    store_tile(readers, q_in, block * C, 0, KEYS, C, D, C)
    for first in range(0, VALUES, E):
        v_ = load_rows(v, start, head, steps, heads, 1, first, VALUES, C, E)
        output = product(QK, v_, PRECISION)
        writing = product(K_out, v_, PRECISION)
        if ERASES:
            Z = product(inverse, product(BK, v_, PRECISION), STATES)
            output += product(QA, Z, PRECISION)
            writing += product(A_out, Z, PRECISION)
        store_tile(local, output, block * C, first, VALUES, C, E, C)
        store_tile(added, writing, block * KEYS, first, VALUES, D, E, KEYS)


@triton.jit(do_not_specialize=["steps", "heads", "chunks", "micro"])
def _walk(
    state,
    moved,
    added,
    starts,
    final,
    steps,
    heads,
    chunks,
    micro,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    ERASES: tl.constexpr,
    STATES: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * E
    S = load_tile(state, head * KEYS, first, VALUES, D, E, KEYS)
    for chunk in range(chunks):
        block = head * chunks + chunk
        store_tile(starts, S, block * KEYS, first, VALUES, D, E, KEYS)
        writing = load_tile(added, block * KEYS, first, VALUES, D, E, KEYS)
        if ERASES:
            S = product(load_tile(moved, block * KEYS, 0, KEYS, D, D, KEYS), S, STATES).to(tl.float32) + writing
        else:
            row = tl.arange(0, D)
            S = tl.load(moved + block * KEYS + row, mask=row < KEYS, other=0.0)[:, None] * S + writing
    store_tile(final, S, head * KEYS, first, VALUES, D, E, KEYS)


@triton.jit(do_not_specialize=["steps", "heads", "chunks", "micro"])
def _outputs(
    local,
    readers,
    starts,
    outputs,
    steps,
    heads,
    chunks,
    micro,
    C: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * E
    S = load_tile(starts, block * KEYS, first, VALUES, D, E, KEYS)
    output = load_tile(local, block * C, first, VALUES, C, E, C)
    output += product(load_tile(readers, block * C, 0, KEYS, C, D, C), S, PRECISION)
    store_rows(outputs, output, (block % chunks) * C, block // chunks, steps, heads, micro, first, VALUES, C, E)
