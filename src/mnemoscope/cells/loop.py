"""The plain way over a sequence: one step after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool
from mnemoscope.cells.cell import Cell, Step
from mnemoscope.cells.fast_path import has_hooks
from mnemoscope.cells.state import State, map_state, pad_slots


def run_loop(cell: Cell, xs: Tensor, state: State, mask: Bool[Tensor, "time batch"] | None) -> tuple[Tensor, State]:
    """Outputs (time, batch, features) and the last state; where `mask` is False the state is held."""
    us, step = prepared_steps(cell, xs)
    outputs = []
    for t, u in enumerate(us.unbind()):  # not us[t]: indexing in an autograd loop makes backward quadratic in time
        new = step(u, state)
        state = new if mask is None else hold_masked(mask[t], new, state)
        outputs.append(cell.output(state))
    return torch.stack(outputs), state


def prepared_steps(cell: Cell, xs: Tensor) -> tuple[Tensor, Step]:
    """What `cell.prepare` gives, unless the cell's own step would then be passed by: where `forward` was overridden
    without `prepare`, replaced on the cell, or is watched by hooks, it is called at every step.
    """
    owner = {name: next(i for i, base in enumerate(type(cell).__mro__) if name in vars(base)) for name in _BOTH}
    if owner["forward"] < owner["prepare"] or "forward" in vars(cell) or has_hooks(cell):
        return xs, cell
    return cell.prepare(xs)


_BOTH = ("forward", "prepare")


def hold_masked(mask: Bool[Tensor, " batch"], new: State, old: State) -> State:
    """`new` where the mask is True, else `old`, in every tensor of the state; what a state grew by is 0 in the old."""
    return map_state(lambda n, o: torch.where(mask.view(-1, *(1,) * (n.dim() - 1)), n, pad_slots(o, n)), new, old)
