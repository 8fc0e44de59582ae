"""The reference way to run a sequence: a loop of steps."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Inexact
from mnemoscope.cells.cell import Cell, Step
from mnemoscope.cells.fast_path import has_hooks
from mnemoscope.cells.state import State, map_state, pad_slots


def run_loop(cell: Cell, xs: Tensor, state: State, mask: Bool[Tensor, "time batch"] | None) -> tuple[Tensor, State]:
    """Return outputs (time, batch, features) and the last state; where `mask` is False the state does not change."""
    us, step = prepared_steps(cell, xs)
    outputs = []
    # not us[t]: indexing in an autograd loop makes backward quadratic in time
    for t, (x, u) in enumerate(zip(xs.unbind(), us.unbind(), strict=True)):
        new = step(u, state)
        state = new if mask is None else hold_masked(mask[t], new, state)
        outputs.append(cell.output_at(x, state))
    return torch.stack(outputs), state


def prepared_steps(cell: Cell, xs: Tensor) -> tuple[Tensor, Step]:
    """Return `cell.prepare(xs)`, or the inputs and `cell` itself where every step must call `forward`.

    That is the case where `forward` was overridden without `prepare`, was replaced on the instance, or has hooks.
    """
    forward, prepare = (
        next(depth for depth, base in enumerate(type(cell).__mro__) if name in vars(base))
        for name in ("forward", "prepare")
    )
    if forward < prepare or "forward" in vars(cell) or has_hooks(cell):
        return xs, cell
    return cell.prepare(xs)


def hold_masked(mask: Bool[Tensor, " batch"], new: State, old: State) -> State:
    """Return the state `new` where the mask is True, else `old`, padded with zeros if the state has grown."""
    return map_state(lambda n, o: torch.where(mask.view(-1, *(1,) * (n.dim() - 1)), n, pad_slots(o, n)), new, old)


def hold_outputs(
    cell: Cell,
    outputs: Inexact[Tensor, "time batch features"],
    mask: Bool[Tensor, "time batch"] | None,
    before: Inexact[Tensor, "batch features"] | None = None,
) -> Inexact[Tensor, "time batch features"]:
    """Keep the output of the last step where the mask is False, and `before`, or zeros, before the first step.

    A cell whose output is a function of the state alone does this by itself, because its state is held.
    """
    if mask is None or not cell.reads_input:
        return outputs
    steps = torch.arange(1, len(mask) + 1, device=mask.device).unsqueeze(1)
    last = (steps * mask).cummax(0).values  # number of the last step with an input; 0 if there was none
    before = torch.zeros_like(outputs[0]) if before is None else before
    return torch.cat([before.unsqueeze(0), outputs]).gather(0, last.unsqueeze(-1).expand_as(outputs))
