"""Record every state of a network on given inputs, and run it with patched states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Bool, Float, Num
from mnemoscope.cells.adapters import Network, as_cell
from mnemoscope.cells.cell import Cell, check_mask
from mnemoscope.cells.inputs import Inputs, Lengths, read_inputs
from mnemoscope.cells.sequence import expand_mask, start_state, without_masked
from mnemoscope.cells.state import Layout, State, leaves, map_state, stack_states
from mnemoscope.cells.unrolled import hold_masked, hold_outputs, prepared_steps

Edits = Mapping[Any, Tensor | Callable[[Tensor], Any]]
"""New values by (name of a tensor of the state, step); a function receives the present value (batch, ...)."""


@dataclass(frozen=True, repr=False)
class Cache(Mapping[str, Tensor]):
    """States and intermediates of a cell at every step: `cache["h"]` is (time, batch, ...).

    The names are those of the state's fields (`h`, `c`; `h` if it is one tensor; `layers.0.h`, `layers.1.h` in a stack)
    and of the cell's intermediates (`pre` in Elman, `r`, `z`, `n` in GRU, `i`, `f`, `g`, `o` in LSTM). The tensors of a
    torch.nn module with `batch_first` are (batch, time, ...).
    """

    states: State
    """The states after each step, each tensor (time, batch, ...)."""
    names: tuple[str, ...]
    """Names of the tensors of the states, in order."""
    intermediates: dict[str, Tensor]
    """Gates and pre-activations at each step, by name, each tensor (time, batch, ...)."""

    def __getitem__(self, name: str) -> Tensor:
        tensors = {**dict(zip(self.names, leaves(self.states), strict=True)), **self.intermediates}
        if name not in tensors:
            raise KeyError(f"The cache holds {', '.join(tensors)}, but not {name!r}.")
        return tensors[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.names
        yield from self.intermediates

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        """Return the names of the tensors, and their shapes."""
        return f"Cache({', '.join(f'{name}: {tuple(tensor.shape)}' for name, tensor in self.items())})"

    def flat(self) -> Float[Tensor, "time batch size"]:
        """Return the states as flat real vectors, the form that lenses take; growing states are padded with zeros."""
        first, second = leaves(self.states)[0].shape[:2]
        rows = map_state(lambda tensor: tensor.flatten(0, 1), self.states)
        return Layout(rows).flatten(rows).unflatten(0, (first, second))


def run_with_cache(
    network: Network,
    xs: Num[Tensor, "time batch ..."] | PackedSequence,
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
    return patch(network, xs, {}, state, mask=mask, lengths=lengths)


def patch(
    network: Network,
    xs: Num[Tensor, "time batch ..."] | PackedSequence,
    edits: Edits,
    state: State | None = None,
    *,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
) -> tuple[Any, Cache]:
    """Run a network over `xs` and replace parts of its state at given steps; return outputs and cache of that run.

    The network continues from the patched state, so that every later step changes, as in a run that starts there:
    after an edit at step t, outputs from t + 1 on are those of `scan` over `xs[t + 1 :]` from the patched state. The
    outputs before step t do not change. The output at step t is that of the patched state.

    Args:
        network: as in `scan`, which describes `xs`, `state`, `mask` and `lengths` as well.
        xs: inputs, in the layout of the network.
        edits: new values by (name, step). The names are those of the cache of `run_with_cache`, and so are the steps:
            `patch(network, xs, {("h", 3): cache["h"][3]})` changes nothing. A value has the shape (batch, ...) of the
            tensor, or broadcasts to it; a function maps the present value to the new one.
        state: the state before the first input.
        mask: False where a member of the batch has no input.
        lengths: number of steps of each sequence, instead of a mask.

    >>> from mnemoscope.cells import LSTM
    >>> cell, xs = LSTM(3, 8), torch.zeros(20, 5, 3)
    >>> outputs, cache = patch(cell, xs, {("c", 4): lambda c: c.index_fill(1, torch.tensor([2]), 0.0)})
    >>> float(cache["c"][4, 0, 2].detach())
    0.0

    """
    cell = as_cell(network, state)
    given = read_inputs(xs, batch_first=cell.batch_first, mask=mask, lengths=lengths)
    check_mask(cell, given.mask)
    state = start_state(cell, given.xs, state)
    _check_edits(edits, cell.state_names(state), given.xs.shape[0])
    outputs, states, intermediates = _run(cell, given, state, edits)
    cache = Cache(
        map_state(given.in_layout, stack_states(states)),
        tuple(cell.state_names(state)),
        {name: given.in_layout(values) for name, values in intermediates.items()},
    )
    return given.as_given(hold_outputs(cell, torch.stack(outputs), given.mask)), cache


def _run(cell: Cell, given: Inputs, state: State, edits: Edits) -> tuple[list[Tensor], list[State], dict[str, Tensor]]:
    """Return outputs and states of each step, and the intermediates (time, batch, ...) by name."""
    padded = without_masked(given.xs, given.mask)
    us, step = prepared_steps(cell, padded)
    states, steps, outputs = [], [], []
    for t, (x, u) in enumerate(zip(padded.unbind(), us.unbind(), strict=True)):
        steps.append(cell.intermediates(x, state))
        new = step(u, state)
        state = new if given.mask is None else hold_masked(given.mask[t], new, state)
        state = _edited(cell, state, {name: value for (name, time), value in edits.items() if time == t})
        states.append(state)
        outputs.append(cell.output_at(x, state))
    intermediates = {name: stack_states([inner[name] for inner in steps]) for name in steps[0]}
    if given.mask is not None:
        intermediates = {name: _without_steps(values, given.mask) for name, values in intermediates.items()}
    return outputs, states, intermediates


def _check_edits(edits: Edits, names: list[str], steps: int) -> None:
    for key in edits:
        if not (isinstance(key, tuple) and len(key) == 2):
            raise TypeError(f"Edits are given by (name, step), such as ({names[0]!r}, 3), but one is given by {key!r}.")
        name, step = key
        if name not in names:
            raise ValueError(f"The state has {', '.join(names)}, but no {name!r}.")
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < steps:
            raise ValueError(f"The step of an edit must be a whole number from 0 to {steps - 1}, but is {step!r}.")


def _edited(cell: Cell, state: State, values: Edits) -> State:
    """Return the state with new values of the named tensors."""
    if not values:
        return state
    names = iter(cell.state_names(state))

    def replaced(old: Tensor) -> Tensor:
        name = next(names)
        if name not in values:
            return old
        value = values[name]
        new = value if isinstance(value, Tensor) else value(old)
        if not isinstance(new, Tensor):
            raise TypeError(f"The new value of {name!r} must be a tensor, but is a {type(new).__name__}.")
        if new.is_complex() and not old.is_complex():
            raise ValueError(f"{name!r} is real, but its new value is complex: pass value.real.")
        try:
            return new.to(old).broadcast_to(old.shape)
        except RuntimeError as error:
            raise ValueError(
                f"{name!r} has the shape {tuple(old.shape)}, batch first, to which a value of {tuple(new.shape)} does "
                f"not broadcast."
            ) from error

    return map_state(replaced, state)


def _without_steps(values: Tensor, mask: Bool[Tensor, "time batch"]) -> Tensor:
    return values.masked_fill(~expand_mask(mask, values), torch.nan) if values.is_floating_point() else values
