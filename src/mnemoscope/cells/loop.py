"""The plain way over a sequence: one step after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.cells.cell import Cell
from mnemoscope.cells.state import State, map_state
from mnemoscope.shapes import Bool


def run_loop(cell: Cell, xs: Tensor, state: State, mask: Bool[Tensor, "time batch"] | None) -> tuple[Tensor, State]:
    """Outputs (time, batch, features) and the last state; where `mask` is False the state is held."""
    us, step = cell.prepare(xs)
    outputs = []
    for t, u in enumerate(us.unbind()):  # not us[t]: indexing in an autograd loop makes backward quadratic in time
        new = step(u, state)
        state = new if mask is None else hold(mask[t], new, state)
        outputs.append(cell.output(state))
    return torch.stack(outputs), state


def hold(mask: Bool[Tensor, " batch"], new: State, old: State) -> State:
    """`new` where the mask is True, else `old`, in every tensor of the state."""
    return map_state(lambda n, o: torch.where(mask.view(-1, *(1,) * (n.dim() - 1)), n, o), new, old)
