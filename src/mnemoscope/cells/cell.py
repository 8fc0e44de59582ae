"""The contract: a recurrent network is a map `state' = step(x, state)`."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float, Inexact
from mnemoscope.cells.fast_path import FastPath, NoFastPath, disable_inherited_fast_path
from mnemoscope.cells.state import State, leaves

Step = Callable[[Tensor, State], State]
Box = tuple[Float[Tensor, " size"], Float[Tensor, " size"]]
"""Lower and upper corner."""


class Cell(nn.Module):
    """One step of a recurrent system. A state is a tensor or a NamedTuple of tensors, batch first.

    A new cell needs `initial_state` and `forward`. The other methods are what a cell may know about itself; each has
    a default that is right for every cell:

    - `output`: what a readout sees (default: the state itself);
    - `prepare`: work that does not depend on the state, done once per sequence (default: none);
    - `jacobian`: its closed-form Jacobian (default: none, `torch.func` is used);
    - `bounds`: a box that the step maps into itself (default: none known);
    - `fast_path`: a way to run a whole sequence at once that gives what the loop of steps gives (default: none);
    - `intermediates`: gates and pre-activations for `run_with_cache` (default: none);
    - `frozen`: a constant copy of itself to be looked at.
    """

    input_size: int | None = None
    """Number of input features; None if any number is accepted."""

    @property
    def grows(self) -> bool:
        """Whether its state grows from step to step, as a list of all that was seen; it then has no fixed points."""
        return False

    @property
    def has_readout(self) -> bool:
        """Whether its outputs are what a task asks for, with nothing to be learned behind them."""
        return False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        disable_inherited_fast_path(cls)

    def initial_state(self, batch: int) -> State:
        """The state before the first input, `(batch, ...)`."""
        raise NotImplementedError(f"{type(self).__name__} must define initial_state(batch).")

    def forward(self, x: Inexact[Tensor, "batch ..."], state: State) -> State:
        """One step."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(x, state).")

    def output(self, state: State) -> Inexact[Tensor, "batch features"]:
        """What a readout sees."""
        if isinstance(state, Tensor):
            return state
        raise NotImplementedError(
            f"{type(self).__name__} has a state of several tensors and must define output(state)."
        )

    def prepare(self, xs: Inexact[Tensor, " ..."]) -> tuple[Tensor, Step]:
        """Hoist what does not depend on the state: returns the driven inputs and the step that consumes one of them.

        The leading dimensions of `xs` (time, batch) are kept, so that scan can unbind the result over time.
        """
        return xs, self.forward

    def fast_path(
        self, xs: Inexact[Tensor, "time batch ..."], state: State, mask: Bool[Tensor, "time batch"] | None
    ) -> FastPath | NoFastPath:
        """A way to run `xs` from `state` at once, or the reason why there is none; cheap, the work is in its `run`.

        A subclass that steps otherwise inherits no fast path; `scan` sees to hooks and transforms.
        """
        return NoFastPath(f"{type(self).__name__} has none")

    def jacobian(self, x: Float[Tensor, "batch ..."], state: State) -> Float[Tensor, "batch size size"] | None:
        """Closed form of d flat(state') / d flat(state) as a new tensor, or None where there is none."""
        return None

    def bounds(self, low: Float[Tensor, " ..."], high: Float[Tensor, " ..."]) -> Box | None:
        """A box of flat states that the step maps into itself for every input between `low` and `high`, or None."""
        return None

    def intermediates(self, x: Float[Tensor, "batch ..."], state: State) -> dict[str, Tensor]:
        """Named quantities inside the step (gates, pre-activations), each `(batch, ...)`."""
        return {}

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Cell:
        """A copy for analysis: evaluation mode, no gradients, own memory. The original is left as it is."""
        return deepcopy(self).eval().requires_grad_(False).to(dtype=dtype, device=device)


def check_input(cell: Cell, xs: Tensor) -> None:
    """Raise if `xs` cannot be a `(time, batch, features)` sequence for `cell`."""
    name = type(cell).__name__
    if xs.dim() < (2 if cell.input_size is None else 3):
        raise ValueError(f"{name} takes inputs of shape (time, batch, features), but got {tuple(xs.shape)}.")
    if xs.shape[0] == 0:
        raise ValueError(f"The input sequence is empty: its shape is {tuple(xs.shape)}, time first.")
    _check_features(cell, xs, "time, batch")


def check_step_input(cell: Cell, x: Tensor) -> None:
    """Raise if `x` cannot be the input `(batch, features)` of one step of `cell`."""
    if x.dim() != 2:
        raise ValueError(
            f"A step of {type(cell).__name__} takes inputs of shape (batch, features), but got {tuple(x.shape)}."
        )
    _check_features(cell, x, "batch")


def check_batch(batch: int, state: State) -> None:
    """Raise unless all parts of a state are of the batch of the inputs."""
    batches = {tensor.shape[0] for tensor in leaves(state)}
    if batches != {batch}:
        raise ValueError(f"The inputs have a batch of {batch}, but the given state has {sorted(batches)}.")


def _check_features(cell: Cell, xs: Tensor, before: str) -> None:
    name = type(cell).__name__
    if cell.input_size is not None and xs.shape[-1] != cell.input_size:
        raise ValueError(
            f"{name} takes {cell.input_size} input features, but the inputs have shape {tuple(xs.shape)}; "
            f"expected ({before}, {cell.input_size})."
        )
    if torch.is_autocast_enabled(xs.device.type) or not (xs.is_floating_point() or xs.is_complex()):
        return  # whole numbers are taken by some cells
    numbers = (part.dtype for part in chain(cell.parameters(), cell.buffers()))
    known = {dtype.to_real() for dtype in numbers if dtype.is_floating_point or dtype.is_complex}
    if known and xs.dtype.to_real() not in known:
        own, given = (str(dtype).removeprefix("torch.") for dtype in (min(known, key=str), xs.dtype))
        raise ValueError(f"The weights of {name} are {own}, but the inputs {given}: convert either with .to(...).")
