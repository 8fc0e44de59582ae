"""The tangent map: trajectories together with small perturbations of them, one step at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics

FORMED = 200
"""Largest state size at which a closed-form Jacobian is always formed: it costs less even for one vector."""
COPIED = 32
"""Largest state size at which autograd forms the Jacobian on copies of each state, if there is no closed form."""


class TangentMap:
    """Advances states (batch, size) together with tangent vectors (batch, size, count).

    If the vectors are few compared with the size of the state, no Jacobian is formed: its product with them costs as
    much as that many steps. If they are many and the cell has a closed form, or the state is small, forming it is
    cheaper.
    """

    def __init__(self, dynamics: Dynamics, count: int) -> None:
        self.dynamics = dynamics
        worthwhile = dynamics.size <= FORMED or 4 * count >= dynamics.size
        self.formed = worthwhile and self._has_closed_form()

    def step(
        self,
        states: Float[Tensor, "batch size"],
        vectors: Float[Tensor, "batch size count"],
        inputs: Float[Tensor, "batch ..."] | None = None,
    ) -> tuple[Float[Tensor, "batch size"], Float[Tensor, "batch size count"]]:
        """Return F(x), and F'(x) times the vectors."""
        if self.formed:
            new = self.dynamics(states) if inputs is None else self.dynamics.driven(inputs, states)
            return new, torch.bmm(self.dynamics.jacobian(states, inputs), vectors)
        if self.dynamics.size <= COPIED:
            new, J = self._jacobian_by_copies(states, inputs)
            return new, torch.bmm(J, vectors)
        step = self.dynamics if inputs is None else (lambda x: self.dynamics.driven(inputs, x))
        new, pull_back = torch.func.vjp(step, states)[:2]
        # The pull-back is linear, so its transpose is the push-forward, which needs no new pass through the cell.
        push = torch.func.vjp(lambda w: pull_back(w)[0], torch.zeros_like(new))[1]
        return new, torch.func.vmap(lambda v: push(v)[0], in_dims=2, out_dims=2)(vectors)

    def _jacobian_by_copies(self, states: Tensor, inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return F(x) and F'(x) from one backward pass: copy i of a state gives row i.

        This is faster than vmap for a small state.
        """
        size = self.dynamics.size
        with torch.enable_grad():
            copies = states.detach().repeat_interleave(size, 0).requires_grad_()
            repeated = None if inputs is None else inputs.repeat_interleave(size, 0)
            new = self.dynamics(copies) if repeated is None else self.dynamics.driven(repeated, copies)
            rows = torch.eye(size, dtype=new.dtype, device=new.device).repeat(len(states), 1)
            if new.requires_grad:
                J = torch.autograd.grad(new, copies, rows, materialize_grads=True)[0]
            else:
                J = torch.zeros_like(new)  # the step does not depend on the state
        return new.detach()[::size], J.reshape(-1, size, size)

    def _has_closed_form(self) -> bool:
        dynamics = self.dynamics
        with torch.no_grad():
            return dynamics.cell.jacobian(dynamics.input, dynamics.unflatten(dynamics.origin)) is not None
