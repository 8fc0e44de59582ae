"""Run a cell over a sequence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Any, Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils.checkpoint import checkpoint as recompute

from mnemoscope.base.array_types import Bool, Num
from mnemoscope.cells.adapters import FunctionCell, Network, as_cell
from mnemoscope.cells.cell import Cell, check_input, check_mask, check_state
from mnemoscope.cells.fast_path import FastPath, NoFastPath, why_no_fast_path
from mnemoscope.cells.flat_steps import why_not_flat
from mnemoscope.cells.inputs import Lengths, read_inputs
from mnemoscope.cells.newton import Newton, Outcome, run_newton
from mnemoscope.cells.state import State, leaves, map_state
from mnemoscope.cells.unrolled import hold_outputs, run_loop

Backend = Literal["auto", "loop", "fused", "newton"] | Newton


@dataclass(frozen=True)
class Route:
    """How `scan` ran a sequence, and why."""

    fused: bool
    """Whether a fast path was used."""
    why: str
    """The name of the fast path, or the reason for the loop."""
    chunks: int = 1
    """Number of pieces of the sequence, each recomputed in the backward pass."""
    iterations: int | None = None
    """Iterations of Newton's method, also if it did not converge; None if it was not tried."""

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
    xs: Num[Tensor, "time batch ..."] | PackedSequence,
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
        network: a cell, a recurrent module of torch.nn, a model of transformers that `adapt` takes, or what `adapt`
            returns for a network of your own. A function `(x, state) -> state` can be passed together with `state`.
        xs: inputs, in the layout of the network; or a `PackedSequence`, and then outputs are packed as well.
        state: the state before the first input, each tensor (batch, ...); the cell's initial state by default.
        mask: False where a member of the batch has no input: its state does not change there. It has the shape of the
            inputs without their features.
        lengths: number of steps of each sequence, instead of a mask. After its end the state of a sequence, and so its
            output, stays as it was at its last step; the last state is that of each sequence's end.
        backend: "auto" uses the cell's fast path if there is one, otherwise the loop; "loop" and "fused" force one of
            them. A fast path agrees with the loop up to rounding: relative errors of about 1e-6 in float32 (1e-7 b /
            |z| for gradients through complex modReLU with a positive bias b). The loop is used under `torch.func`,
            forward-mode differentiation and hooks. Second derivatives work as in the loop, except through cuDNN and
            fused attention or tapes, which raise an error. As with torch.nn, outputs must not be changed in place
            before the backward pass. "newton", or `Newton` with its options, solves for all states at once, in
            parallel over time; it pays for long sequences on a GPU if the network forgets its initial state. The
            states solve the equations of the network within `Newton.tolerance`. If the iteration does not converge,
            `scan` warns and runs the sequence as by "auto". A step must treat the members of a batch alike.
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
    check_mask(cell, given.mask)
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
    if backend == "newton":
        backend = Newton()
    if isinstance(backend, Newton):
        return _run_in_parallel(cell, xs, state, mask, backend)
    reason = why_no_fast_path(cell)
    path = cell.fast_path(xs, state, mask) if reason is None else NoFastPath(reason)
    if isinstance(path, FastPath):
        return *path.run(), Route(True, path.name)
    if backend == "fused":
        raise ValueError(f"There is no fast path for this {type(cell).__name__}: {path.reason}. Use backend='auto'.")
    return *run_loop(cell, xs, state, mask), Route(False, path.reason)


def _run_in_parallel(
    cell: Cell, xs: Tensor, state: State, mask: Tensor | None, options: Newton
) -> tuple[Tensor, State, Route]:
    """Run Newton's method, and the steps in order if it does not converge."""
    reason = why_no_fast_path(cell) or why_not_flat(cell, state)
    if torch.compiler.is_compiling():
        reason = "the number of iterations depends on values, which torch.compile does not know"
    if reason is not None:
        raise ValueError(f"Newton's method cannot run this {type(cell).__name__}: {reason}. Use backend='auto'.")
    result, outcome = run_newton(cell, xs, state, mask, options)
    if result is not None:
        name = f"parallel Newton, {outcome.iterations} iterations, residual {outcome.residual:.1e}"
        return *result, Route(True, name, iterations=outcome.iterations)
    warnings.warn(_not_converged(outcome, options.tolerance_in(leaves(state)[0].dtype), len(xs)), stacklevel=4)
    outputs, last, route = _run(cell, xs, state, mask, "auto")
    why = f"{route.why}, as Newton's method did not converge"
    return outputs, last, replace(route, why=why, iterations=outcome.iterations)


def _not_converged(outcome: Outcome, tolerance: float, time: int) -> str:
    return (
        f"Newton's method did not converge in {outcome.iterations} iterations: {outcome.solved} of {time} steps are "
        f"solved, and the residual is {outcome.residual:.1e}, above the tolerance of {tolerance:.1e}. The sequence is "
        f"run step by step instead. ms.measure_predictability tells beforehand whether it converges; pass "
        f"Newton(iterations=..., damping=...) to try longer, or backend='auto'."
    )


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


def _check_options(backend: Any, checkpoint: str | int | None, outputs: str) -> None:
    if not isinstance(backend, Newton) and backend not in ("auto", "loop", "fused", "newton"):
        raise ValueError(f"backend must be 'auto', 'loop', 'fused', 'newton' or a Newton(...), but is {backend!r}.")
    if outputs not in ("all", "last"):
        raise ValueError(f"outputs must be 'all' or 'last', but is {outputs!r}.")
    number = isinstance(checkpoint, int) and not isinstance(checkpoint, bool) and checkpoint >= 1
    if not (checkpoint is None or checkpoint == "sqrt" or number):
        raise ValueError(f"checkpoint must be None, 'sqrt' or a number of steps, but is {checkpoint!r}.")


def start_state(cell: Cell, xs: Num[Tensor, "time batch ..."], state: State | None) -> State:
    """Return the given state, or the initial state, after a check of the inputs, time first, and of the state."""
    check_input(cell, xs)
    if state is not None:
        check_state(cell, xs.shape[1], state)
        return state
    initial = cell.initial_state(xs.shape[1])
    if isinstance(cell, FunctionCell) and not cell.has_weights:  # it computes where its inputs are
        dtype = xs.dtype if cell.follows_inputs and xs.is_floating_point() else None
        return map_state(lambda tensor: tensor.to(xs.device, dtype), initial)
    return initial


def without_masked(xs: Tensor, mask: Bool[Tensor, "time batch"] | None) -> Tensor:
    """Set masked inputs to 0: padding must not spoil the gradients, and 0 times NaN is NaN."""
    return xs if mask is None else xs.masked_fill(~expand_mask(mask, xs), 0)


def expand_mask(mask: Bool[Tensor, "time batch"], like: Tensor) -> Bool[Tensor, "time batch ..."]:
    """Return a mask with trailing dimensions of 1, so that it broadcasts to the shape of `like`."""
    return mask.view(*mask.shape, *(1,) * (like.dim() - 2))
