"""All steps of a sequence at once: each maps the state before it, which is given, to the state after it.

Steps are independent of one another if the states before them are given, so they form one batch of time x batch.
States are flat real vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Num
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.jacobians import batched_jacobian
from mnemoscope.cells.state import Layout, State, leaves
from mnemoscope.cells.unrolled import prepared_steps

MOST_NUMBERS = 2**27
"""Numbers of all Jacobians that are in memory together: 0.5 GiB in float32, 1 GiB in float64."""


class FlatSteps:
    """The steps of a cell on given inputs, where `mask` is False the identity."""

    def __init__(
        self, cell: Cell, xs: Num[Tensor, "time batch ..."], state: State, mask: Bool[Tensor, "time batch"] | None
    ) -> None:
        self.cell, self.xs, self.mask, self.layout = cell, xs, mask, Layout(state)
        self.us, self._step = prepared_steps(cell, xs)
        self.parts = len(leaves(state))
        """Numbers of each unit, if units are independent."""
        self.by_unit = type(cell).unit_jacobian is not Cell.unit_jacobian
        """Whether the units are independent: the Jacobian has one small block for each."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of steps, of sequences, and of numbers in a state."""
        return self.xs.shape[0], self.xs.shape[1], self.layout.size

    def groups(self, diagonal: bool = False) -> tuple[int, int]:
        """Return the number of groups of the state that a Jacobian couples, and the numbers of a group."""
        size = self.layout.size
        if self.by_unit:
            return size // self.parts, self.parts
        return (size, 1) if diagonal else (1, size)

    def window(self, diagonal: bool = False) -> int:
        """Return how many steps may be linearised together, so that their Jacobians fit into memory."""
        groups, size = self.groups(diagonal)
        return max(1, MOST_NUMBERS // max(1, self.shape[1] * groups * size**2))

    def __call__(self, before: Float[Tensor, "time batch size"], first: int = 0) -> Float[Tensor, "time batch size"]:
        """Return the states after the steps from `first` on, one for each of the states before them."""
        last = first + len(before)
        flat = self._flat_step(first, last)(before.flatten(0, 1)).unflatten(0, before.shape[:2])
        return flat if self.mask is None else torch.where(self.mask[first:last, :, None], flat, before)

    def jacobian(
        self, before: Float[Tensor, "time batch size"], first: int = 0, diagonal: bool = False
    ) -> Float[Tensor, "time batch groups block block"]:
        """Return the Jacobians of the steps from `first` on, or their diagonals as blocks of 1 x 1."""
        last, (groups, size) = first + len(before), self.groups(diagonal)
        if self.by_unit:
            u, state = self.us[first:last].flatten(0, 1), self.layout.unflatten(before.flatten(0, 1))
            J = self.cell.unit_jacobian(u, state)
            assert J is not None
        elif diagonal:
            length = max(1, self.window() // 8)  # dense Jacobians of a part of the steps, of which the diagonal is kept
            starts = range(0, len(before), length)
            pieces = [self._dense_jacobian(before[at : at + length], first + at) for at in starts]
            J = torch.cat([piece.diagonal(dim1=-2, dim2=-1) for piece in pieces])
        else:
            J = self._dense_jacobian(before, first)
        J = J.reshape(*before.shape[:2], groups, size, size)
        if self.mask is None:
            return J
        identity = torch.eye(size, dtype=J.dtype, device=J.device)
        return torch.where(self.mask[first:last, :, None, None, None], J, identity)

    def grouped(
        self, flat: Float[Tensor, "*lead size"], diagonal: bool = False
    ) -> Float[Tensor, "*lead groups numbers"]:
        """Return flat states by the groups that a Jacobian couples."""
        groups, size = self.groups(diagonal)
        if self.by_unit:  # the parts of a state, such as h and c, follow one another
            return flat.unflatten(-1, (size, groups)).transpose(-1, -2)
        return flat.unflatten(-1, (groups, size))

    def flat(self, grouped: Float[Tensor, "*lead groups numbers"]) -> Float[Tensor, "*lead size"]:
        """Return the flat states of groups."""
        return (grouped.transpose(-1, -2) if self.by_unit else grouped).flatten(-2)

    def outputs(self, flat: Float[Tensor, "time batch size"]) -> tuple[Tensor, State]:
        """Return the outputs (time, batch, features) after all steps, and the last state."""
        states = self.layout.unflatten(flat.flatten(0, 1))
        outs = self.cell.output_at(self.xs.flatten(0, 1), states)
        last = self.layout.unflatten(flat[-1].clone())
        return outs.unflatten(0, flat.shape[:2]), last

    def _flat_step(self, first: int, last: int) -> Callable[[Tensor], Tensor]:
        u, layout = self.us[first:last].flatten(0, 1), self.layout
        return lambda flat: layout.flatten(self._step(u, layout.unflatten(flat)))

    def _dense_jacobian(self, before: Tensor, first: int) -> Float[Tensor, "steps size size"]:
        last, flat = first + len(before), before.flatten(0, 1)
        J = self.cell.jacobian(self.xs[first:last].flatten(0, 1), self.layout.unflatten(flat))
        return batched_jacobian(self._flat_step(first, last), flat) if J is None else J


def why_not_flat(cell: Cell, state: State) -> str | None:
    """Return the reason why the steps of a cell cannot run at once as functions of flat states, or None if they can."""
    if any(part.grows for part in cell.modules() if isinstance(part, Cell)):
        return "its state grows from step to step"
    if any(part.cuts_gradients for part in cell.modules() if isinstance(part, Cell)):
        return "it decides at every step whether the state has a gradient; call eval() first"
    dtypes = {tensor.dtype.to_real() for tensor in leaves(state) if tensor.is_floating_point() or tensor.is_complex()}
    if len(dtypes) != 1 or not all(tensor.is_floating_point() or tensor.is_complex() for tensor in leaves(state)):
        return "its state has integers, or numbers of several dtypes"
    device = leaves(state)[0].device.type
    return "under autocast steps return other dtypes" if torch.is_autocast_enabled(device) else None
