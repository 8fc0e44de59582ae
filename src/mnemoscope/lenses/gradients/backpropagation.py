"""Norms of the gradient of a loss with respect to the states along a sequence."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, State
from mnemoscope.cells.sequence import without_masked
from mnemoscope.cells.state import leaves, map_state, named_leaves
from mnemoscope.cells.unrolled import hold_masked, hold_outputs
from mnemoscope.memory.attention import Attentive

Loss = Callable[[Tensor], Tensor]
"""A function from the outputs (time, batch, features) to one number."""


def norms_over_time(
    cell: Cell, xs: Tensor, loss: Loss, state: State, mask: Tensor | None
) -> Float[Tensor, "time batch"]:
    """Return `|dL / dh_t|` of the whole state, or of the inner cell's output if the cell attends to its past."""
    if not isinstance(cell, Attentive):
        return _squared_norms(cell, xs, loss, state, mask).sum(0).sqrt()
    xs = without_masked(xs, mask)
    with torch.enable_grad():
        norms = _attentive_norms(cell, xs, loss, state, mask)
    return norms if mask is None else norms.masked_fill(~mask, torch.nan)


def norms_by_part(
    cell: Cell, xs: Tensor, loss: Loss, state: State, mask: Tensor | None
) -> tuple[Float[Tensor, "parts time batch"], tuple[str, ...]]:
    """Return `|dL / ds_t|` of each part s of the state, in float64, and the names of the parts."""
    part_of_leaf = [name.partition(".")[0].replace("_", " ") for name, _ in named_leaves(state)]
    squares = _squared_norms(cell, xs, loss, state, mask).double().cpu()
    names = tuple(dict.fromkeys(part_of_leaf))
    sums = [squares[[leaf for leaf, part in enumerate(part_of_leaf) if part == name]].sum(0) for name in names]
    return torch.stack(sums).sqrt(), names


@torch.enable_grad()
def _squared_norms(
    cell: Cell, xs: Tensor, loss: Loss, state: State, mask: Tensor | None
) -> Float[Tensor, "tensors time batch"]:
    """Return `|dL / ds_t|^2` of every tensor s of the state; NaN where a sequence has no step."""
    xs = without_masked(xs, mask)
    us, step = cell.prepare(xs)
    outputs, probes = [], []
    for t, (x, u) in enumerate(zip(xs.unbind(), us.detach().unbind(), strict=True)):
        new = step(u, state)
        probe = map_state(lambda tensor: torch.zeros_like(tensor, requires_grad=True), new)
        new = map_state(torch.add, new, probe)  # adds zero; the gradient of the probe is that of the state
        state = new if mask is None else hold_masked(mask[t], new, state)
        probes.append(leaves(probe))
        outputs.append(cell.output_at(x, state))
    flat = [tensor for probe in probes for tensor in probe]
    gradients = iter(
        torch.autograd.grad(loss(hold_outputs(cell, torch.stack(outputs), mask)), flat, materialize_grads=True)
    )
    squares = torch.stack(
        [torch.stack([next(gradients).abs().square().flatten(1).sum(1) for _ in probe]) for probe in probes], 1
    )
    return squares if mask is None else squares.masked_fill(~mask, torch.nan)


def _attentive_norms(
    cell: Attentive, xs: Tensor, loss: Loss, state: State, mask: Tensor | None
) -> Float[Tensor, "time batch"]:
    h = cell.cell.output(state.inner)
    perturbations = h.new_zeros(len(xs), *h.shape).requires_grad_()
    outputs = cell.scan_outputs(xs, state, mask=mask, perturbations=perturbations)
    (gradients,) = torch.autograd.grad(loss(outputs), perturbations, materialize_grads=True)
    return gradients.norm(dim=-1)
