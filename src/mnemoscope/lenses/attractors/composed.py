"""Maps made of others, as cells again, so that every lens serves them: k steps in one, and a flow in steps."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.cells import Cell, State
from mnemoscope.cells.cell import Box, Step
from mnemoscope.cells.loop import prepared_steps
from mnemoscope.cells.state import Layout
from mnemoscope.lenses.dynamics import Dynamics


class Iterated(Cell):
    """The k-fold map of a cell: `times` steps at one constant input count as one step.

    Its Jacobian is the product of the steps' Jacobians, the last on the left; a box that each step maps into itself is
    kept by all of them.

    >>> import mnemoscope as ms
    >>> halve = ms.adapt(lambda x, h: h / 2, state_size=1)
    >>> Iterated(halve, 3)(torch.zeros(1, 1), torch.ones(1, 1)).item()
    0.125

    """

    def __init__(self, cell: Cell, times: int) -> None:
        super().__init__()
        self.cell = cell
        self.times = times
        self.input_size = cell.input_size

    def initial_state(self, batch: int) -> State:
        return self.cell.initial_state(batch)

    def output(self, state: State) -> Tensor:
        return self.cell.output(state)

    def prepare(self, xs: Tensor) -> tuple[Tensor, Step]:
        us, step = prepared_steps(self.cell, xs)

        def steps(u: Tensor, state: State) -> State:
            for _ in range(self.times):
                state = step(u, state)
            return state

        return us, steps

    def forward(self, x: Tensor, state: State) -> State:
        u, steps = self.prepare(x)
        return steps(u, state)

    def jacobian(self, x: Tensor, state: State) -> Tensor | None:
        product = self.cell.jacobian(x, state)
        if product is None:
            return None
        u, step = prepared_steps(self.cell, x)
        for _ in range(self.times - 1):
            state = step(u, state)
            J = self.cell.jacobian(x, state)
            assert J is not None
            product = J @ product
        return product

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        return self.cell.bounds(low, high)


class RungeKutta(Cell):
    """One classical Runge-Kutta step of length `dt` of the flow dx/dt = F(x), whose F is a cell's step.

    With k1 = F(x), k2 = F(x + dt/2 k1), k3 = F(x + dt/2 k2), k4 = F(x + dt k3) the step adds dt/6 (k1 + 2 k2 + 2 k3 +
    k4); its Jacobian follows by the chain rule from the cell's at the four places. A fixed point of the flow is one of
    the map.

    >>> import mnemoscope as ms
    >>> decay = ms.adapt(lambda x, h: -h, state_size=1)
    >>> round(RungeKutta(decay, 0.1)(torch.zeros(1, 1).double(), torch.ones(1, 1).double()).item(), 5)  # exp(-0.1)
    0.90484

    """

    def __init__(self, cell: Cell, dt: float) -> None:
        super().__init__()
        self.cell = cell
        self.dt = dt
        self.input_size = cell.input_size
        self._layout = Layout(cell.initial_state(1))

    def initial_state(self, batch: int) -> State:
        return self.cell.initial_state(batch)

    def output(self, state: State) -> Tensor:
        return self.cell.output(state)

    def prepare(self, xs: Tensor) -> tuple[Tensor, Step]:
        us, step = prepared_steps(self.cell, xs)

        def runge_kutta(u: Tensor, state: State) -> State:
            x = self._layout.flatten(state)
            total, k = torch.zeros_like(x), torch.zeros_like(x)
            for ahead, weight in _STAGES:
                k = self._layout.flatten(step(u, self._layout.unflatten(x + ahead * self.dt * k)))
                total = total + weight * k
            return self._layout.unflatten(x + self.dt * total)

        return us, runge_kutta

    def forward(self, x: Tensor, state: State) -> State:
        u, step = self.prepare(x)
        return step(u, state)

    def jacobian(self, x: Tensor, state: State) -> Tensor | None:
        if self.cell.jacobian(x, state) is None:
            return None
        flat = self._layout.flatten(state)
        eye = torch.eye(flat.shape[1], dtype=flat.dtype, device=flat.device)
        u, step = prepared_steps(self.cell, x)
        k, total = torch.zeros_like(flat), torch.zeros_like(eye)
        K = torch.zeros_like(eye)  # dk/dx of the stage before
        for ahead, weight in _STAGES:
            at = self._layout.unflatten(flat + ahead * self.dt * k)
            J = self.cell.jacobian(x, at)
            assert J is not None
            K = J @ (eye + ahead * self.dt * K)
            k = self._layout.flatten(step(u, at))
            total = total + weight * K
        return eye + self.dt * total


_STAGES = ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6))
"""How far ahead each stage looks along the one before, and its weight."""


def iterated(dynamics: Dynamics, times: int) -> Dynamics:
    """The k-fold map of a map, at the same input and in the same box."""
    bounds = dynamics.bounds if dynamics.declared else "auto"
    return _like(dynamics, Iterated(dynamics.cell, times), None if dynamics.bounds is None else bounds)


def in_steps(dynamics: Dynamics, dt: float | None) -> Dynamics:
    """A map as it is; a flow as the map of one Runge-Kutta step of length dt."""
    if not dynamics.continuous:
        if dt is not None:
            raise ValueError(f"A map moves in steps of its own; dt belongs to a flow, but dt={dt} was given for a map.")
        return dynamics
    if dt is None or isinstance(dt, bool) or not 0 < dt < float("inf"):
        raise ValueError(
            f"A flow is followed in steps of a length dt, a positive number, but dt is {dt!r}. This one moves at a "
            f"rate of about {dynamics.rate:.3g}: dt={0.05 / dynamics.rate:.1g} is a good beginning; halve it, and "
            f"look whether the answer stays."
        )
    return _like(dynamics, RungeKutta(dynamics.cell, float(dt)), None)


def _like(dynamics: Dynamics, cell: Cell, bounds: str | tuple[float | Tensor, float | Tensor] | None) -> Dynamics:
    return Dynamics(cell, dynamics.input[0], bounds=bounds, dtype=dynamics.dtype, device=dynamics.device)
