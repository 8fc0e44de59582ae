"""The base class of cells: a recurrent network is a map `state' = step(x, state)`."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float, Inexact, Num
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.fast_path import FastPath, NoFastPath, disable_inherited_fast_path
from mnemoscope.cells.state import State, leaves, named_leaves

if TYPE_CHECKING:
    from mnemoscope.cells.affine.layer import AffineLayer

Step = Callable[[Tensor, State], State]
"""Maps a projected input and a state to the next state."""
Box = tuple[Float[Tensor, " size"], Float[Tensor, " size"]]
"""Lower and upper corner of a box of flat states."""


_STEP = {"forward", "prepare", "_step", "_gates", "advance"}
"""Methods that determine the step."""
_OF_THE_STEP = ("jacobian", "unit_jacobian", "enclose")
"""Methods that hold for one step alone: a class that overrides the step does not inherit them."""


def _belongs_to_a_step(cls: type, name: str) -> bool:
    """Whether an inherited method was written for a step, and not in a base class that leaves the step open."""
    lineage = cls.__mro__[: cls.__mro__.index(Cell)]
    owner = next((depth for depth, base in enumerate(lineage) if name in vars(base)), len(lineage))
    return any(_STEP & vars(base).keys() for base in lineage[owner:])


class Cell(nn.Module):
    """One step of a recurrent system. A state is a tensor or a NamedTuple of tensors, batch first.

    A new cell needs `initial_state`, and either `forward` or `prepare`, which does the work that does not depend on the
    state once per sequence. The other methods are optional; each has a default that is correct for every cell:

    - `output`: the features that a readout sees (default: the state); a cell whose outputs depend on the input of the
      step too sets `reads_input` and defines `output_at` and `output_features` instead;
    - `jacobian`: the Jacobian in closed form (default: none; `torch.func` is used);
    - `unit_jacobian`: the Jacobian of each unit, if units do not see one another (default: they do);
    - `bounds`: a box that the step maps into itself (default: not known);
    - `enclose`: ranges of the step and its Jacobian over boxes, for proofs (default: not known);
    - `fast_path`: an operation on whole sequences that computes the same as the loop of steps (default: none);
    - `affine_layers`: the parts of an affine recurrence on given inputs (default: the cell is not affine);
    - `intermediates`: gates and pre-activations for `run_with_cache` (default: none);
    - `frozen`: a constant copy for analysis.
    """

    input_size: int | None = None
    """Number of input features; None if any number is accepted."""
    reads_input: bool = False
    """Whether the output depends on the input of the step as well as on the state, as `q(x)^T S` does."""
    batch_first: bool = False
    """Whether sequences that are passed to public functions are (batch, time, ...), as in a torch.nn module with
    `batch_first`; `read_inputs` converts them, and every computation is time first."""

    takes_integers: bool = False
    """Whether inputs of `input_size` features may be integers, which a cell with an embedding takes."""

    @property
    def follows_inputs(self) -> bool:
        """Whether the cell has neither weights nor a given state, and computes in the precision of its inputs."""
        return False

    @property
    def grows(self) -> bool:
        """Whether the state grows from step to step, as a list of past states does; such a cell has no fixed points."""
        return False

    @property
    def cuts_gradients(self) -> bool:
        """Whether gradients are now not those of the values, as h-detach cuts them while it learns."""
        return False

    @property
    def takes_mask(self) -> bool:
        """Whether the sequences of a batch may differ in length."""
        return True

    @property
    def has_readout(self) -> bool:
        """Whether the cell includes its readout, so that its outputs are compared with the targets of a task."""
        return False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        disable_inherited_fast_path(cls)
        for name in _OF_THE_STEP if _STEP & vars(cls).keys() else ():
            if name not in vars(cls) and _belongs_to_a_step(cls, name):
                setattr(cls, name, getattr(Cell, name))

    def initial_state(self, batch: int) -> State:
        """Return the state before the first input, `(batch, ...)`."""
        raise NotImplementedError(f"{type(self).__name__} must define initial_state(batch).")

    def state_names(self, state: State) -> list[str]:
        """Return the names of the tensors of a state, in order, as in the cache of `run_with_cache`."""
        return ["h"] if isinstance(state, Tensor) else [name for name, _ in named_leaves(state)]

    def forward(self, x: Num[Tensor, "batch ..."], state: State) -> State:
        """Return the next state."""
        if type(self).prepare is Cell.prepare:
            raise NotImplementedError(f"{type(self).__name__} must define forward(x, state).")
        u, step = self.prepare(x)
        return step(u, state)

    def output(self, state: State) -> Inexact[Tensor, "batch features"]:
        """Return the features that a readout sees."""
        if self.reads_input:
            raise NotImplementedError(
                f"The output of {type(self).__name__} depends on the input as well as on the state: use "
                f"output_at(x, state), or step(x, state), which returns the output and the next state."
            )
        if isinstance(state, Tensor):
            return state
        raise NotImplementedError(
            f"{type(self).__name__} has a state of several tensors and must define output(state)."
        )

    def output_at(self, x: Num[Tensor, "batch ..."], state: State) -> Inexact[Tensor, "batch features"]:
        """Return the features that a readout sees in `state`, where `x` is the input of the step that led to it."""
        return self.output(state)

    @property
    def output_features(self) -> int:
        """Number of features of an output."""
        return self.output(self.initial_state(1)).shape[-1]

    def step(self, x: Num[Tensor, "batch ..."], state: State) -> tuple[Inexact[Tensor, "batch features"], State]:
        """Return the output and the next state."""
        new = self(x, state)
        return self.output_at(x, new), new

    def prepare(self, xs: Num[Tensor, " ..."]) -> tuple[Tensor, Step]:
        """Do the work that does not depend on the state; return projected inputs and the step that consumes them.

        The projected inputs keep the leading dimensions (time, batch) of `xs`, so that scan can unbind them over time.
        """
        return xs, self.forward

    def fast_path(
        self, xs: Num[Tensor, "time batch ..."], state: State, mask: Bool[Tensor, "time batch"] | None
    ) -> FastPath | NoFastPath:
        """Return a fast path for `xs` from `state`, or the reason for the loop.

        This call is cheap; the work is done by `FastPath.run`. A subclass that overrides the step inherits no fast
        path. `scan` checks for hooks and transforms.
        """
        return NoFastPath(f"{type(self).__name__} has none")

    def affine_layers(self, xs: Num[Tensor, "time batch ..."], state: State) -> list[AffineLayer]:
        """Return the layers whose step is affine in their state, with their parts on these inputs; [] if none is."""
        return []

    def jacobian(self, x: Float[Tensor, "batch ..."], state: State) -> Float[Tensor, "batch size size"] | None:
        """Return d flat(state') / d flat(state) as a new tensor, or None if there is no closed form."""
        return None

    def unit_jacobian(self, u: Tensor, state: State) -> Float[Tensor, "batch units parts parts"] | None:
        """Return the Jacobian of each unit, or None if units see one another.

        A cell that defines this declares that a unit of the next state depends on the same unit of the state alone.
        Each tensor of its state is (batch, units), and the parts are these tensors, in order. `u` is the projected
        input that `prepare` returns.
        """
        return None

    def bounds(self, low: Float[Tensor, " ..."], high: Float[Tensor, " ..."]) -> Box | None:
        """Return a box of flat states that the step maps into itself for all inputs from `low` to `high`, or None."""
        return None

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure | None:
        """Return the ranges of the next flat state and of its Jacobian over boxes of flat states, or None.

        `state` encloses the coordinates, and `x` the input. A cell that defines this composes the operations of
        `Enclosure`, which round outwards; `find_fixed_points(..., certify=True)` needs it.
        """
        return None

    def intermediates(self, x: Num[Tensor, "batch ..."], state: State) -> dict[str, Tensor]:
        """Return named quantities inside the step (gates, pre-activations), each `(batch, ...)`."""
        return {}

    def time_first(self) -> Cell:
        """Return this cell, with the same parameters, for sequences (time, batch, ...)."""
        cell = copy(self)
        cell.batch_first = False
        return cell

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Cell:
        """Return a copy for analysis, in evaluation mode and without gradients; it shares no memory with the cell."""
        return deepcopy(self).eval().requires_grad_(False).to(dtype=dtype, device=device)


def check_input(cell: Cell, xs: Tensor) -> None:
    """Raise unless `xs`, time first, can be a sequence for `cell`; errors show the layout of the cell."""
    name, order, batch = type(cell).__name__, "time, batch", 1
    if cell.batch_first:
        xs, order, batch = xs.transpose(0, 1) if xs.dim() > 1 else xs, "batch, time", 0
    if cell.input_size is None and xs.dim() < 2:
        raise ValueError(f"{name} takes inputs of shape ({order}) or ({order}, features), but got {tuple(xs.shape)}.")
    if cell.input_size is not None and xs.dim() < 3:
        one = f"; pass a single sequence (time, features) as a batch of one, xs.unsqueeze({batch})" * (xs.dim() == 2)
        raise ValueError(f"{name} takes inputs of shape ({order}, features), but got {tuple(xs.shape)}{one}.")
    if xs.shape[1 - batch] == 0:
        raise ValueError(f"The input sequence is empty: its shape is {tuple(xs.shape)}, ({order}, features).")
    _check_features(cell, xs, order)


def check_step_input(cell: Cell, x: Tensor) -> None:
    """Raise unless `x` can be the input `(batch, features)` of one step of `cell`."""
    if x.dim() != 2:
        raise ValueError(
            f"A step of {type(cell).__name__} takes inputs of shape (batch, features), but got {tuple(x.shape)}."
        )
    _check_features(cell, x, "batch")


def check_mask(cell: Cell, mask: Bool[Tensor, "time batch"] | None) -> None:
    """Raise if sequences of a batch end early, but the cell cannot hold the state of one member."""
    if mask is not None and not cell.takes_mask:
        raise ValueError(
            f"{type(cell).__name__} has attention layers, which would attend to the padding of short sequences: run "
            f"sequences of unequal length one by one, or in batches of equal length."
        )


def check_batch(batch: int, state: State) -> None:
    """Raise unless all tensors of a state have the batch size of the inputs."""
    batches = {tensor.shape[0] for tensor in leaves(state)}
    if batches != {batch}:
        raise ValueError(f"The inputs have a batch of {batch}, but the given state has {sorted(batches)}.")


def check_state(cell: Cell, batch: int, state: State) -> None:
    """Raise unless a given state has the form of the cell's states and the batch size of the inputs."""
    wanted, given = ([tuple(tensor.shape) for tensor in leaves(each)] for each in (cell.initial_state(batch), state))
    if [len(shape) for shape in wanted] != [len(shape) for shape in given]:
        wanted, given = (" and ".join(map(str, shapes)) for shapes in (wanted, given))
        raise ValueError(
            f"A state of this {type(cell).__name__} has the shape {wanted}, but {given} was given. A state of torch.nn "
            f"has a first dimension for its layers: pass h[0] for one layer, or one state for each, (h[0], h[1]); for "
            f"an LSTM (h[0], c[0]), or ((h[0], c[0]), (h[1], c[1]))."
        )
    check_batch(batch, state)


_REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
"""The dtype of the parts of complex numbers; torch.compile cannot trace `dtype.to_real()`."""


def _check_features(cell: Cell, xs: Tensor, before: str) -> None:
    name = type(cell).__name__
    if cell.input_size is not None and xs.shape[-1] != cell.input_size:
        raise ValueError(
            f"{name} takes {cell.input_size} input features, but the inputs have shape {tuple(xs.shape)}; "
            f"expected ({before}, {cell.input_size})."
        )
    integers = not (xs.is_floating_point() or xs.is_complex())
    if torch.is_autocast_enabled(xs.device.type) or (integers and (cell.takes_integers or cell.input_size is None)):
        return
    if cell.follows_inputs:
        return
    dtypes = (tensor.dtype for tensor in chain(cell.parameters(), cell.buffers()))
    expected = {_REAL.get(dtype, dtype) for dtype in dtypes if dtype.is_floating_point or dtype.is_complex}
    if expected and _REAL.get(xs.dtype, xs.dtype) not in expected:
        if integers:
            raise ValueError(f"{name} takes floating-point inputs, but these are {xs.dtype}: pass inputs.float().")
        weights, inputs = (str(dtype).removeprefix("torch.") for dtype in (min(expected, key=str), xs.dtype))
        raise ValueError(f"The weights of {name} are {weights}, but the inputs {inputs}: convert either with .to(...).")
