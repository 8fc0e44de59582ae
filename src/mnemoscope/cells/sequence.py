"""Run a cell over a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from typing import Any, Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils.checkpoint import checkpoint as recompute

from mnemoscope.base.array_types import Bool, Float, Inexact
from mnemoscope.cells.adapters import FunctionCell, Network, as_cell
from mnemoscope.cells.cell import Cell, check_input, check_state
from mnemoscope.cells.fast_path import FastPath, NoFastPath, why_no_fast_path
from mnemoscope.cells.inputs import Lengths, read_inputs
from mnemoscope.cells.state import Layout, State, leaves, map_state, named_leaves, stack_states
from mnemoscope.cells.unrolled import hold_masked, hold_outputs, prepared_steps, run_loop

Backend = Literal["auto", "loop", "fused"]


@dataclass(frozen=True)
class Route:
    """How `scan` ran a sequence, and why."""

    fused: bool
    """Whether a fast path was used."""
    why: str
    """The name of the fast path, or the reason for the loop."""
    chunks: int = 1
    """Number of pieces of the sequence, each recomputed in the backward pass."""

    def __str__(self) -> str:
        pieces = f", in {self.chunks} chunks that the backward pass recomputes" if self.chunks > 1 else ""
        return f"{'fused' if self.fused else 'loop'}: {self.why}{pieces}"


class ScanOptions(TypedDict, total=False):
    """Options of `scan`, which describes them."""

    mask: Bool[Tensor, "time batch"] | None
    lengths: Lengths | None
    backend: Backend
    checkpoint: Literal["sqrt"] | int | None
    outputs: Literal["all", "last"]


@overload
def scan(
    network: Network,
    xs: Tensor,
    state: State | None = None,
    *,
    explain: Literal[False] = ...,
    **options: Unpack[ScanOptions],
) -> tuple[Tensor, State]: ...


@overload
def scan(
    network: Network,
    xs: PackedSequence,
    state: State | None = None,
    *,
    explain: Literal[False] = ...,
    **options: Unpack[ScanOptions],
) -> tuple[PackedSequence, State]: ...


@overload
def scan(
    network: Network,
    xs: Tensor | PackedSequence,
    state: State | None = None,
    *,
    explain: Literal[True],
    **options: Unpack[ScanOptions],
) -> tuple[Any, State, Route]: ...


def scan(
    network: Network,
    xs: Inexact[Tensor, "time batch ..."] | PackedSequence,
    state: State | None = None,
    *,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
    backend: Backend = "auto",
    checkpoint: Literal["sqrt"] | int | None = None,
    outputs: Literal["all", "last"] = "all",
    explain: bool = False,
) -> Any:
    """Run a network over `xs` (time, batch, ...); return outputs (time, batch, features) and the last state.

    A torch.nn module with `batch_first` takes and returns (batch, time, ...), here and wherever inputs are passed.

    Args:
        network: a cell, a recurrent module of torch.nn, or what `adapt` returns for a network of your own. A function
            `(x, state) -> state` can be passed together with `state`.
        xs: inputs, in the layout of the network; or a `PackedSequence`, and then outputs are packed as well.
        state: the state before the first input, each tensor (batch, ...); the cell's initial state by default.
        mask: False where a member of the batch has no input: its state does not change there. It has the shape of the
            inputs without their features.
        lengths: number of steps of each sequence, instead of a mask. After its end the state of a sequence, and so its
            output, stays as it was at its last step; the last state is that of each sequence's end.
        backend: "auto" uses the cell's fast path if there is one, otherwise the loop; "loop" and "fused" force one of
            them. A fast path agrees with the loop up to rounding: relative errors of about 1e-6 in float32 (1e-7 b /
            |z| for gradients through complex modReLU with a positive bias b). There is none under `torch.func`,
            forward-mode differentiation and hooks. Second derivatives work as in the loop, except through cuDNN and
            fused attention or tapes, which raise an error. As with torch.nn, outputs must not be changed in place
            before the backward pass.
        checkpoint: for very long sequences, keep only the states between chunks of this many steps ("sqrt": the square
            root of time) and recompute each chunk in the backward pass. Memory then holds the steps of one chunk and
            one state per chunk, at the cost of a second forward pass. Each chunk forms the recurrent matrix again. It
            has no effect under `torch.func`, which manages its memory itself.
        outputs: "last" returns the last output only, (1, batch, features), never packed.
        explain: whether to return a third value, the `Route` that was used and why.

    >>> import mnemoscope as ms
    >>> outputs, state = ms.scan(ms.cells.Elman(10, 128, nonlinearity="tanh"), torch.zeros(20, 5, 10))
    >>> outputs.shape, state.shape
    (torch.Size([20, 5, 128]), torch.Size([5, 128]))
    >>> print(ms.scan(ms.cells.Elman(10, 128, nonlinearity="tanh"), torch.zeros(20, 5, 10), explain=True)[2])
    fused: elementwise scan (tanh, cpu)
    >>> ms.scan(torch.nn.GRU(10, 16, batch_first=True), torch.zeros(5, 20, 10), lengths=[20, 7, 3, 9, 1])[0].shape
    torch.Size([5, 20, 16])

    """
    cell = as_cell(network, state)
    given = read_inputs(xs, batch_first=cell.batch_first, mask=mask, lengths=lengths)
    state = start_state(cell, given.xs, state)
    _check_options(backend, checkpoint, outputs)
    if checkpoint is None:
        kept, state, route = _run(cell, given.xs, state, given.mask, backend)
        kept = hold_outputs(cell, kept, given.mask)
        kept = kept if outputs == "all" else kept[-1:]
    else:
        length = ceil(sqrt(given.xs.shape[0])) if checkpoint == "sqrt" else checkpoint
        kept, state, route = _run_in_chunks(cell, given.xs, state, given.mask, backend, length, outputs)
    returned = given.as_given(kept) if outputs == "all" else given.in_layout(kept)
    return (returned, state, route) if explain else (returned, state)


def _run(cell: Cell, xs: Tensor, state: State, mask: Tensor | None, backend: Backend) -> tuple[Tensor, State, Route]:
    xs = without_masked(xs, mask)
    if backend == "loop":
        return *run_loop(cell, xs, state, mask), Route(False, "it was asked for")
    reason = why_no_fast_path(cell)
    path = cell.fast_path(xs, state, mask) if reason is None else NoFastPath(reason)
    if isinstance(path, FastPath):
        return *path.run(), Route(True, path.name)
    if backend == "fused":
        raise ValueError(f"There is no fast path for this {type(cell).__name__}: {path.reason}. Use backend='auto'.")
    return *run_loop(cell, xs, state, mask), Route(False, path.reason)


def _run_in_chunks(
    cell: Cell, xs: Tensor, state: State, mask: Tensor | None, backend: Backend, length: int, outputs: str
) -> tuple[Tensor, State, Route]:
    """Run the chunks in turn; inputs are projected inside a chunk, so that only one chunk's are in memory."""
    kept, pieces, routes = [], xs.split(length), []
    masks = [None] * len(pieces) if mask is None else mask.split(length)

    def chunk(xs: Tensor, state: State, mask: Tensor | None, before: Tensor | None) -> tuple[Tensor, State]:
        outs, state, route = _run(cell, xs, state, mask, backend)
        outs = hold_outputs(cell, outs, mask, before)
        routes.append(route)
        return (outs if outputs == "all" else outs[-1:].clone()), state

    plain = torch._C._are_functorch_transforms_active()
    for xs_chunk, mask_chunk in zip(pieces, masks, strict=True):
        before = kept[-1][-1] if kept else None
        if plain:
            outs, state = chunk(xs_chunk, state, mask_chunk, before)
        else:
            outs, state = recompute(chunk, xs_chunk, state, mask_chunk, before, use_reentrant=False)
        kept = [*kept, outs] if outputs == "all" else [outs]
    return torch.cat(kept), state, replace(routes[0], chunks=len(pieces))


def _check_options(backend: str, checkpoint: str | int | None, outputs: str) -> None:
    if backend not in ("auto", "loop", "fused"):
        raise ValueError(f"backend must be 'auto', 'loop' or 'fused', but is {backend!r}.")
    if outputs not in ("all", "last"):
        raise ValueError(f"outputs must be 'all' or 'last', but is {outputs!r}.")
    number = isinstance(checkpoint, int) and not isinstance(checkpoint, bool) and checkpoint >= 1
    if not (checkpoint is None or checkpoint == "sqrt" or number):
        raise ValueError(f"checkpoint must be None, 'sqrt' or a number of steps, but is {checkpoint!r}.")


@dataclass(frozen=True)
class Cache(Mapping[str, Tensor]):
    """States and intermediates of a cell at every step: `cache["h"]` is (time, batch, ...).

    The names are those of the state's fields (`h`, `c`; `state` if it is one tensor; `0.h`, `1.h` in a stack) and of
    the cell's intermediates (`pre` in Elman, `r`, `z`, `n` in GRU, `i`, `f`, `g`, `o` in LSTM). The tensors of a
    torch.nn module with `batch_first` are (batch, time, ...).
    """

    states: State
    """The states after each step, each tensor (time, batch, ...)."""
    intermediates: dict[str, Tensor] = field(default_factory=dict)
    """Gates and pre-activations at each step, by name, each tensor (time, batch, ...)."""

    def __getitem__(self, name: str) -> Tensor:
        tensors = {**dict(named_leaves(self.states)), **self.intermediates}
        if name not in tensors:
            raise KeyError(f"The cache holds {', '.join(tensors)}, but not {name!r}.")
        return tensors[name]

    def __iter__(self) -> Iterator[str]:
        yield from (name for name, _ in named_leaves(self.states))
        yield from self.intermediates

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def flat(self) -> Float[Tensor, "time batch size"]:
        """Return the states as flat real vectors, the form that lenses take; growing states are padded with zeros."""
        first, second = leaves(self.states)[0].shape[:2]
        rows = map_state(lambda tensor: tensor.flatten(0, 1), self.states)
        return Layout(rows).flatten(rows).unflatten(0, (first, second))


def run_with_cache(
    network: Network,
    xs: Inexact[Tensor, "time batch ..."] | PackedSequence,
    state: State | None = None,
    *,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
) -> tuple[Any, Cache]:
    """Run a network over `xs`; return the outputs, and every state, gate and pre-activation in a cache.

    Inputs, outputs and the tensors of the cache are in the layout of the network, as in `scan`, which describes the
    arguments. Where a sequence has no input, its state is held and its gates and pre-activations are NaN.

    >>> from mnemoscope.cells import LSTM
    >>> outputs, cache = run_with_cache(LSTM(3, 8), torch.zeros(20, 5, 3))
    >>> cache["c"].shape, sorted(cache)
    (torch.Size([20, 5, 8]), ['c', 'f', 'g', 'h', 'i', 'o'])
    """
    cell = as_cell(network, state)
    given = read_inputs(xs, batch_first=cell.batch_first, mask=mask, lengths=lengths)
    state = start_state(cell, given.xs, state)
    padded = without_masked(given.xs, given.mask)
    us, step = prepared_steps(cell, padded)
    states, steps, outputs = [], [], []
    for t, (x, u) in enumerate(zip(padded.unbind(), us.unbind(), strict=True)):
        steps.append(cell.intermediates(x, state))
        new = step(u, state)
        state = new if given.mask is None else hold_masked(given.mask[t], new, state)
        states.append(state)
        outputs.append(cell.output_at(x, state))
    intermediates = {name: stack_states([inner[name] for inner in steps]) for name in steps[0]}
    if given.mask is not None:
        intermediates = {name: _without_steps(values, given.mask) for name, values in intermediates.items()}
    intermediates = {name: given.in_layout(values) for name, values in intermediates.items()}
    cache = Cache(map_state(given.in_layout, stack_states(states)), intermediates)
    return given.as_given(hold_outputs(cell, torch.stack(outputs), given.mask)), cache


def start_state(cell: Cell, xs: Inexact[Tensor, "time batch ..."], state: State | None) -> State:
    """Return the given state, or the initial state, after a check of the inputs, time first, and of the state."""
    check_input(cell, xs)
    if state is not None:
        check_state(cell, xs.shape[1], state)
        return state
    initial = cell.initial_state(xs.shape[1])
    if isinstance(cell, FunctionCell) and not cell.has_weights:  # it computes where its inputs are
        return map_state(lambda tensor: tensor.to(xs.device), initial)
    return initial


def without_masked(xs: Tensor, mask: Bool[Tensor, "time batch"] | None) -> Tensor:
    """Set masked inputs to 0: padding must not spoil the gradients, and 0 times NaN is NaN."""
    return xs if mask is None else xs.masked_fill(~_expanded(mask, xs), 0)


def _without_steps(values: Tensor, mask: Bool[Tensor, "time batch"]) -> Tensor:
    return values.masked_fill(~_expanded(mask, values), torch.nan) if values.is_floating_point() else values


def _expanded(mask: Tensor, like: Tensor) -> Tensor:
    return mask.view(*mask.shape, *(1,) * (like.dim() - 2))
