"""Run a cell over a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemoscope.cells.cell import Cell, check_input
from mnemoscope.cells.state import Layout, State, leaves, map_state, named_leaves
from mnemoscope.shapes import Float


def scan(
    cell: Cell, xs: Float[Tensor, "time batch ..."], state: State | None = None
) -> tuple[Float[Tensor, "time batch features"], State]:
    """Run `cell` over `xs` (time, batch, ...); outputs (time, batch, features) and the last state.

    >>> import mnemoscope as ms
    >>> outputs, state = ms.scan(ms.cells.Elman(10, 128, nonlinearity="tanh"), torch.zeros(20, 5, 10))
    >>> outputs.shape, state.shape
    (torch.Size([20, 5, 128]), torch.Size([5, 128]))
    """
    state = _start(cell, xs, state)
    us, step = cell.prepare(xs)
    outputs = []
    for u in us.unbind():  # not us[t]: indexing inside an autograd loop makes the backward pass quadratic in time
        state = step(u, state)
        outputs.append(cell.output(state))
    return torch.stack(outputs), state


@dataclass(frozen=True)
class Cache(Mapping[str, Tensor]):
    """Everything a cell went through: `cache["h"]` is (time, batch, ...); `states` holds the same as one state.

    Names are those of the state's fields (`h`, `c`; `state` where it is one tensor; `0.h`, `1.h` in a stack), and of
    the cell's intermediates (`pre` in Elman, `r`, `z`, `n` in GRU, `i`, `f`, `g`, `o` in LSTM).
    """

    states: State
    """The states after each step, each tensor (time, batch, ...)."""
    intermediates: dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        tensors = {**dict(named_leaves(self.states)), **self.intermediates}
        if name not in tensors:
            raise KeyError(f"The cache holds {', '.join(tensors)}, but {name!r} was asked for.")
        return tensors[name]

    def __iter__(self) -> Iterator[str]:
        yield from (name for name, _ in named_leaves(self.states))
        yield from self.intermediates

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def flat(self) -> Float[Tensor, "time batch size"]:
        """The states as flat real vectors, the form that the analyses take."""
        steps = range(leaves(self.states)[0].shape[0])
        layout = Layout(map_state(lambda tensor: tensor[0], self.states))
        return torch.stack([layout.flatten(map_state(lambda tensor, t=t: tensor[t], self.states)) for t in steps])


def run_with_cache(
    cell: Cell, xs: Float[Tensor, "time batch ..."], state: State | None = None
) -> tuple[Float[Tensor, "time batch features"], Cache]:
    """Run `cell` over `xs` and keep every intermediate state, gate and pre-activation.

    >>> from mnemoscope.cells import LSTM
    >>> outputs, cache = run_with_cache(LSTM(3, 8), torch.zeros(20, 5, 3))
    >>> cache["c"].shape, sorted(cache)
    (torch.Size([20, 5, 8]), ['c', 'f', 'g', 'h', 'i', 'o'])
    """
    state = _start(cell, xs, state)
    us, step = cell.prepare(xs)
    states, inner, outputs = [], [], []
    for x, u in zip(xs.unbind(), us.unbind(), strict=True):
        inner.append(cell.intermediates(x, state))
        state = step(u, state)
        states.append(state)
        outputs.append(cell.output(state))
    intermediates = {name: torch.stack([one[name] for one in inner]) for name in inner[0]}
    return torch.stack(outputs), Cache(map_state(lambda *tensors: torch.stack(tensors), *states), intermediates)


def _start(cell: Cell, xs: Tensor, state: State | None) -> State:
    check_input(cell, xs)
    if state is None:
        return cell.initial_state(xs.shape[1])
    batches = {tensor.shape[0] for tensor in leaves(state)}
    if batches != {xs.shape[1]}:
        raise ValueError(f"The inputs have a batch of {xs.shape[1]}, but the given state has {sorted(batches)}.")
    return state
