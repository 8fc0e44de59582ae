"""Run a cell over a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from typing import Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint as recompute

from mnemoscope.base.array_types import Bool, Float, Inexact
from mnemoscope.cells.cell import Cell, check_batch, check_input
from mnemoscope.cells.fast_path import FastPath, NoFastPath, why_no_fast_path
from mnemoscope.cells.state import Layout, State, leaves, map_state, named_leaves, stack_states
from mnemoscope.cells.unrolled import prepared_steps, run_loop

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
    backend: Backend
    checkpoint: Literal["sqrt"] | int | None
    outputs: Literal["all", "last"]


@overload
def scan(
    cell: Cell, xs: Tensor, state: State | None = None, *, explain: Literal[False] = ..., **options: Unpack[ScanOptions]
) -> tuple[Tensor, State]: ...


@overload
def scan(
    cell: Cell, xs: Tensor, state: State | None = None, *, explain: Literal[True], **options: Unpack[ScanOptions]
) -> tuple[Tensor, State, Route]: ...


def scan(
    cell: Cell,
    xs: Inexact[Tensor, "time batch ..."],
    state: State | None = None,
    *,
    mask: Bool[Tensor, "time batch"] | None = None,
    backend: Backend = "auto",
    checkpoint: Literal["sqrt"] | int | None = None,
    outputs: Literal["all", "last"] = "all",
    explain: bool = False,
) -> tuple[Tensor, State] | tuple[Tensor, State, Route]:
    """Run `cell` over `xs` (time, batch, ...); return outputs (time, batch, features) and the last state.

    Args:
        cell: the cell.
        xs: inputs, time first.
        state: the state before the first input; the cell's initial state by default.
        mask: False where a member of the batch has no input: its state does not change there.
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
        outputs: "last" returns the last output only, (1, batch, features).
        explain: whether to return a third value, the `Route` that was used and why.

    >>> import mnemoscope as ms
    >>> outputs, state = ms.scan(ms.cells.Elman(10, 128, nonlinearity="tanh"), torch.zeros(20, 5, 10))
    >>> outputs.shape, state.shape
    (torch.Size([20, 5, 128]), torch.Size([5, 128]))
    >>> print(ms.scan(ms.cells.Elman(10, 128, nonlinearity="tanh"), torch.zeros(20, 5, 10), explain=True)[2])
    fused: elementwise scan (tanh, cpu)

    """
    state = _start(cell, xs, state)
    _check_options(xs, mask, backend, checkpoint, outputs)
    if checkpoint is None:
        kept, state, route = _run(cell, xs, state, mask, backend)
        kept = kept if outputs == "all" else kept[-1:]
    else:
        length = ceil(sqrt(xs.shape[0])) if checkpoint == "sqrt" else checkpoint
        kept, state, route = _run_in_chunks(cell, xs, state, mask, backend, length, outputs)
    return (kept, state, route) if explain else (kept, state)


def _run(cell: Cell, xs: Tensor, state: State, mask: Tensor | None, backend: Backend) -> tuple[Tensor, State, Route]:
    if mask is not None:  # masked inputs must not spoil the gradients: 0 times NaN is NaN
        xs = xs.masked_fill(~mask.view(*mask.shape, *(1,) * (xs.dim() - 2)), 0)
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

    def chunk(xs: Tensor, state: State, mask: Tensor | None) -> tuple[Tensor, State]:
        outs, state, route = _run(cell, xs, state, mask, backend)
        routes.append(route)
        return (outs if outputs == "all" else outs[-1:].clone()), state

    plain = torch._C._are_functorch_transforms_active()
    for xs_chunk, mask_chunk in zip(pieces, masks, strict=True):
        if plain:
            outs, state = chunk(xs_chunk, state, mask_chunk)
        else:
            outs, state = recompute(chunk, xs_chunk, state, mask_chunk, use_reentrant=False)
        kept = [*kept, outs] if outputs == "all" else [outs]
    return torch.cat(kept), state, replace(routes[0], chunks=len(pieces))


def _check_options(xs: Tensor, mask: Tensor | None, backend: str, checkpoint: str | int | None, outputs: str) -> None:
    if backend not in ("auto", "loop", "fused"):
        raise ValueError(f"backend must be 'auto', 'loop' or 'fused', but is {backend!r}.")
    if outputs not in ("all", "last"):
        raise ValueError(f"outputs must be 'all' or 'last', but is {outputs!r}.")
    number = isinstance(checkpoint, int) and not isinstance(checkpoint, bool) and checkpoint >= 1
    if not (checkpoint is None or checkpoint == "sqrt" or number):
        raise ValueError(f"checkpoint must be None, 'sqrt' or a number of steps, but is {checkpoint!r}.")
    if mask is not None and (mask.shape != xs.shape[:2] or mask.dtype != torch.bool):
        raise ValueError(
            f"mask must be of bool and of shape (time, batch) = {tuple(xs.shape[:2])}, but is {mask.dtype} of shape "
            f"{tuple(mask.shape)}."
        )


@dataclass(frozen=True)
class Cache(Mapping[str, Tensor]):
    """States and intermediates of a cell at every step: `cache["h"]` is (time, batch, ...).

    The names are those of the state's fields (`h`, `c`; `state` if it is one tensor; `0.h`, `1.h` in a stack) and of
    the cell's intermediates (`pre` in Elman, `r`, `z`, `n` in GRU, `i`, `f`, `g`, `o` in LSTM).
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
        steps = range(leaves(self.states)[0].shape[0])
        layout = Layout(map_state(lambda tensor: tensor[0], self.states))
        return torch.stack([layout.flatten(map_state(lambda tensor, t=t: tensor[t], self.states)) for t in steps])


def run_with_cache(
    cell: Cell, xs: Inexact[Tensor, "time batch ..."], state: State | None = None
) -> tuple[Inexact[Tensor, "time batch features"], Cache]:
    """Run `cell` over `xs`; return the outputs, and every state, gate and pre-activation in a cache.

    >>> from mnemoscope.cells import LSTM
    >>> outputs, cache = run_with_cache(LSTM(3, 8), torch.zeros(20, 5, 3))
    >>> cache["c"].shape, sorted(cache)
    (torch.Size([20, 5, 8]), ['c', 'f', 'g', 'h', 'i', 'o'])
    """
    state = _start(cell, xs, state)
    us, step = prepared_steps(cell, xs)
    states, steps, outputs = [], [], []
    for x, u in zip(xs.unbind(), us.unbind(), strict=True):
        steps.append(cell.intermediates(x, state))
        state = step(u, state)
        states.append(state)
        outputs.append(cell.output(state))
    intermediates = {name: stack_states([inner[name] for inner in steps]) for name in steps[0]}
    return torch.stack(outputs), Cache(stack_states(states), intermediates)


def _start(cell: Cell, xs: Tensor, state: State | None) -> State:
    check_input(cell, xs)
    if state is None:
        return cell.initial_state(xs.shape[1])
    check_batch(xs.shape[1], state)
    return state
