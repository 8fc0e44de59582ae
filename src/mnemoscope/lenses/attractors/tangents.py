"""Small differences along trajectories: states and `count` tangent vectors at each, a step at a time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import State
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.starts import Box, StartStrategy, as_starts

FORMED = 200
"""Up to this size of the state a closed-form Jacobian is formed, whatever the number of vectors: it costs less."""
COPIED = 32
"""Up to this size it is formed by autograd on as many copies of each state, where there is no closed form."""


class Tangents:
    """Steps states (batch, size) together with vectors (batch, size, count) of their tangent spaces.

    Where the vectors are few beside the size of the state, no Jacobian is formed: a product with them costs as much as
    that many steps. Where they are not and the cell has a closed form, or the state is small, that is cheaper.
    """

    def __init__(self, dynamics: Dynamics, count: int) -> None:
        self.dynamics = dynamics
        worth = dynamics.size <= FORMED or 4 * count >= dynamics.size
        self.formed = worth and self._has_closed_form()

    def step(
        self,
        states: Float[Tensor, "batch size"],
        vectors: Float[Tensor, "batch size count"],
        inputs: Float[Tensor, "batch ..."] | None = None,
    ) -> tuple[Float[Tensor, "batch size"], Float[Tensor, "batch size count"]]:
        """F(x) and F'(x) times the vectors."""
        if self.formed:
            new = self.dynamics(states) if inputs is None else self.dynamics.driven(inputs, states)
            return new, torch.bmm(self.dynamics.jacobian(states, inputs), vectors)
        if self.dynamics.size <= COPIED:
            new, J = self._by_copies(states, inputs)
            return new, torch.bmm(J, vectors)
        step = self.dynamics if inputs is None else (lambda own: self.dynamics.driven(inputs, own))
        new, pull_back = torch.func.vjp(step, states)[:2]
        # the pull-back is linear, so that its own transpose is the push forward; it costs no new pass through the cell
        push = torch.func.vjp(lambda w: pull_back(w)[0], torch.zeros_like(new))[1]
        return new, torch.func.vmap(lambda v: push(v)[0], in_dims=2, out_dims=2)(vectors)

    def _by_copies(self, states: Tensor, inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        """F(x) and F'(x) from one backward pass: copy i of a state gives row i. Faster than vmap for a small state."""
        size = self.dynamics.size
        with torch.enable_grad():
            copies = states.detach().repeat_interleave(size, 0).requires_grad_()
            own = None if inputs is None else inputs.repeat_interleave(size, 0)
            new = self.dynamics(copies) if own is None else self.dynamics.driven(own, copies)
            rows = torch.eye(size, dtype=new.dtype, device=new.device).repeat(len(states), 1)
            if new.requires_grad:
                J = torch.autograd.grad(new, copies, rows, materialize_grads=True)[0]
            else:
                J = torch.zeros_like(new)  # a step that does not depend on the state
        return new.detach()[::size], J.reshape(-1, size, size)

    def _has_closed_form(self) -> bool:
        dynamics = self.dynamics
        with torch.no_grad():
            return dynamics.cell.jacobian(dynamics.input, dynamics.unflatten(dynamics.origin)) is not None


def seeded(seed: int) -> Generator:
    """A generator of random numbers, or words on a seed that is none."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not -(2**63) <= seed < 2**64:
        raise ValueError(f"seed must be a whole number from -2^63 to 2^64 - 1, such as seed=0, but is {seed!r}.")
    return Generator().manual_seed(int(seed))


def drawn_starts(dynamics: Dynamics, starts: int | State | StartStrategy, generator: Generator) -> Tensor:
    """States to start from: given ones, a strategy's, or so many at random: in the box that the system keeps, or
    normal about the resting state where none is known.
    """
    if isinstance(starts, bool | str) or (isinstance(starts, int) and starts < 1):
        raise ValueError(f"starts must be a number of starts, 1 or more, states or a strategy, but is {starts!r}.")
    if isinstance(starts, int):
        if dynamics.bounds is not None:
            return Box(starts).draw(dynamics, generator)
        drawn = torch.randn(starts, dynamics.size, generator=generator, dtype=dynamics.dtype)
        return dynamics.origin + drawn.to(dynamics.device)
    if isinstance(starts, StartStrategy):
        return starts.draw(dynamics, generator)
    return as_starts(dynamics, starts)
