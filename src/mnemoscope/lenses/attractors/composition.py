"""Maps composed of other maps, as cells that every lens accepts: the k-fold iterate, and one time step of a flow."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.cells import Cell, State
from mnemoscope.cells.cell import Box, Step
from mnemoscope.cells.state import Layout
from mnemoscope.cells.unrolled import prepared_steps
from mnemoscope.lenses.dynamics import Dynamics


class _ComposedCell(Cell):
    """A cell whose step is built from the steps of an inner cell, with the same state and the same input."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell
        self.input_size, self.reads_input = cell.input_size, cell.reads_input

    def initial_state(self, batch: int) -> State:
        return self.cell.initial_state(batch)

    def output(self, state: State) -> Tensor:
        return self.cell.output(state)

    def output_at(self, x: Tensor, state: State) -> Tensor:
        return self.cell.output_at(x, state)

    @property
    def output_features(self) -> int:
        return self.cell.output_features

    def forward(self, x: Tensor, state: State) -> State:
        u, step = self.prepare(x)
        return step(u, state)


class IteratedMap(_ComposedCell):
    """The k-fold iterate of a cell: `times` steps at one constant input count as one step.

    Its Jacobian is the product of the Jacobians of the steps, the last one on the left. A box that each step maps into
    itself is invariant under the iterate too.

    >>> import mnemoscope as ms
    >>> halve = ms.adapt(lambda x, h: h / 2, state_size=1)
    >>> IteratedMap(halve, 3)(torch.zeros(1, 1), torch.ones(1, 1)).item()
    0.125

    """

    def __init__(self, cell: Cell, times: int) -> None:
        super().__init__(cell)
        self.times = times

    def prepare(self, xs: Tensor) -> tuple[Tensor, Step]:
        us, step = prepared_steps(self.cell, xs)

        def iterate(u: Tensor, state: State) -> State:
            for _ in range(self.times):
                state = step(u, state)
            return state

        return us, iterate

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


class RungeKuttaStep(_ComposedCell):
    """One classical Runge-Kutta step of length `dt` of the flow dx/dt = F(x), where F is the step of a cell.

    With k1 = F(x), k2 = F(x + dt/2 k1), k3 = F(x + dt/2 k2), k4 = F(x + dt k3) the step adds dt/6 (k1 + 2 k2 + 2 k3 +
    k4). The chain rule gives its Jacobian from the Jacobians of the cell at the four stages. A fixed point of the flow
    is a fixed point of the map.

    >>> import mnemoscope as ms
    >>> decay = ms.adapt(lambda x, h: -h, state_size=1)
    >>> round(RungeKuttaStep(decay, 0.1)(torch.zeros(1, 1).double(), torch.ones(1, 1).double()).item(), 5)  # exp(-0.1)
    0.90484

    """

    def __init__(self, cell: Cell, dt: float) -> None:
        super().__init__(cell)
        self.dt = dt
        self._layout = Layout(cell.initial_state(1))

    def prepare(self, xs: Tensor) -> tuple[Tensor, Step]:
        us, step = prepared_steps(self.cell, xs)

        def runge_kutta(u: Tensor, state: State) -> State:
            x = self._layout.flatten(state)
            total, k = torch.zeros_like(x), torch.zeros_like(x)
            for node, weight in _STAGES:
                k = self._layout.flatten(step(u, self._layout.unflatten(x + node * self.dt * k)))
                total = total + weight * k
            return self._layout.unflatten(x + self.dt * total)

        return us, runge_kutta

    def jacobian(self, x: Tensor, state: State) -> Tensor | None:
        if self.cell.jacobian(x, state) is None:
            return None
        flat = self._layout.flatten(state)
        eye = torch.eye(flat.shape[1], dtype=flat.dtype, device=flat.device)
        u, step = prepared_steps(self.cell, x)
        k, total = torch.zeros_like(flat), torch.zeros_like(eye)
        K = torch.zeros_like(eye)  # dk/dx of the previous stage
        for node, weight in _STAGES:
            stage = self._layout.unflatten(flat + node * self.dt * k)
            J = self.cell.jacobian(x, stage)
            assert J is not None
            K = J @ (eye + node * self.dt * K)
            k = self._layout.flatten(step(u, stage))
            total = total + weight * K
        return eye + self.dt * total


_STAGES = ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6))
"""Nodes and weights of the four stages."""


def iterated_map(dynamics: Dynamics, times: int) -> Dynamics:
    """Return the k-fold iterate of a map, at the same input and in the same box."""
    bounds = dynamics.bounds if dynamics.declared else "auto"
    return _like(dynamics, IteratedMap(dynamics.cell, times), None if dynamics.bounds is None else bounds)


def as_map(dynamics: Dynamics, dt: float | None) -> Dynamics:
    """Return a map unchanged, and a flow as the map of one Runge-Kutta step of length `dt`."""
    if not dynamics.continuous:
        if dt is not None:
            raise ValueError(f"dt belongs to a flow, but the system is a map and dt={dt} was given. Omit dt.")
        return dynamics
    if dt is None or isinstance(dt, bool) or not 0 < dt < float("inf"):
        raise ValueError(
            f"A flow is integrated in steps of a length dt, a positive number, but dt is {dt!r}. This flow moves at a "
            f"rate of about {dynamics.rate:.3g}: start with dt={0.05 / dynamics.rate:.1g}, then halve it and check "
            f"that the answer stays the same."
        )
    return _like(dynamics, RungeKuttaStep(dynamics.cell, float(dt)), None)


def _like(dynamics: Dynamics, cell: Cell, bounds: str | tuple[float | Tensor, float | Tensor] | None) -> Dynamics:
    return Dynamics(cell, dynamics.input[0], bounds=bounds, dtype=dynamics.dtype, device=dynamics.device)
