"""How gradients travel back through time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mnemoscope.cells import Cell, State
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.shapes import Float, Inexact


def gradient_norms(
    cell: Cell,
    xs: Inexact[Tensor, "time batch ..."],
    loss: Callable[[Tensor], Tensor],
    state: State | None = None,
) -> Float[Tensor, "time batch"]:
    """`|dL / dh_t|` of every state along a sequence: what of the loss reaches back to time t, by all paths.

    Args:
        cell: the recurrent cell.
        xs: inputs (time, batch, ...).
        loss: from the outputs (time, batch, features) to one number.
        state: where to start; the cell's initial state unless given.

    A rotation passes gradients on as they are:

    >>> from mnemoscope.cells import Elman
    >>> from mnemoscope.connectivity import Exponential
    >>> cell = Elman(2, 4, "linear", Exponential(4))
    >>> norms = gradient_norms(cell, torch.randn(6, 1, 2), lambda outputs: outputs[-1, 0, 0])
    >>> norms.flatten().round(decimals=4).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    """
    state = cell.initial_state(xs.shape[1]) if state is None else state
    with torch.enable_grad():
        us, step = cell.prepare(xs)
        outputs, probes = [], []
        for u in us.detach().unbind():
            state = step(u, state)
            probe = map_state(lambda tensor: torch.zeros_like(tensor, requires_grad=True), state)
            state = map_state(torch.add, state, probe)  # nothing is added; the gradient there is that of the state
            probes.append(leaves(probe))
            outputs.append(cell.output(state))
        flat = [tensor for at in probes for tensor in at]
        found = iter(torch.autograd.grad(loss(torch.stack(outputs)), flat, materialize_grads=True))
    squares = [sum(next(found).abs().square().flatten(1).sum(1) for _ in at) for at in probes]
    return torch.stack([torch.as_tensor(square) for square in squares]).sqrt()
