"""A cell frozen at a constant input: the dynamical system that the lenses analyse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells import Cell, FunctionCell, Layout, Model, State, adapt
from mnemoscope.cells.cell import Step
from mnemoscope.cells.unrolled import prepared_steps
from mnemoscope.lenses.dynamics_checks import check_step, keeps_box, typical_rate

Product = Callable[[Tensor], Tensor]
"""Product with a matrix that is not formed."""
Vector = Float[Tensor, " features"] | np.ndarray | Sequence[float]
"""One number per input feature."""


class Dynamics:
    """`x' = F(x)` (a map) or `dx/dt = F(x)` (a flow) on flat states (batch, size), at one constant input.

    Args:
        cell: a `Cell`, or any torch.nn recurrent module. It is copied, and never changed.
        input: the constant input (features,); zeros by default.
        continuous: read the cell's step as a time derivative instead of the next state.
        bounds: a box (low, high), numbers or tensors (size,); "auto" for the box that the cell declares; None for no
            box. Solvers stay inside it. The index sum is meaningful only if the system never leaves it: a box given by
            hand is tested on about 1500 states, and `invariant` holds the outcome.
        rate: typical rate of a flow, 1 / time. Tolerances are relative to it, so that they mean the same in seconds
            and in milliseconds. By default it is estimated from the Jacobian at random states.
        dtype: torch.float64, or torch.float32.
        device: where to compute; by default where the weights of the cell are.

    >>> import mnemoscope as ms
    >>> dynamics = ms.Dynamics(torch.nn.GRU(3, 16))
    >>> dynamics.size, dynamics.jacobian(torch.zeros(5, 16, dtype=torch.float64)).shape
    (16, torch.Size([5, 16, 16]))

    """

    def __init__(
        self,
        cell: Cell | nn.Module,
        input: Vector | None = None,
        *,
        continuous: bool = False,
        bounds: str | tuple[float | Tensor, float | Tensor] | None = "auto",
        rate: float | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        if dtype not in (torch.float64, torch.float32):
            raise ValueError(f"dtype must be torch.float64 or torch.float32, but is {dtype}.")
        device = None if device is None else torch.device(device)
        self.cell = _as_cell(cell).frozen(dtype, device)
        self.continuous = continuous
        self.dtype = dtype
        example = self.cell.initial_state(1)
        self.layout = Layout(example)
        self.size = self.layout.size
        self.origin: Float[Tensor, "1 size"] = self.layout.flatten(example).to(dtype)
        self.device = self.origin.device
        self.input = self._constant_input(input)
        self._driven: tuple[Tensor, Step] | None = None
        self.bounds = self._box(bounds)
        check_step(self)
        self.declared = self.bounds is not None and (not isinstance(bounds, str) or isinstance(self.cell, FunctionCell))
        """Whether the box was given by the user instead of derived by the cell."""
        self.invariant = self.bounds is not None and (not self.declared or keeps_box(self))
        """Whether the system is known never to leave its box."""
        self.rate = self._rate(rate)

    def __call__(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        """Return F(x): the next states of a map, the velocities of a flow."""
        if self._driven is None:  # the input is constant, and so is its contribution to the step
            self._driven = prepared_steps(self.cell, self.input)
        u, step = self._driven
        return self.layout.flatten(step(u.expand(states.shape[0], *u.shape[1:]), self.layout.unflatten(states)))

    def residual(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        """Return the residual, which vanishes at a fixed point: F(x) - x for a map, F(x) / rate for a flow."""
        return self(states) / self.rate if self.continuous else self(states) - states

    def jacobian(
        self, states: Float[Tensor, "batch size"], inputs: Float[Tensor, "batch ..."] | None = None
    ) -> Float[Tensor, "batch size size"]:
        """Return dF/dx at each state in a new tensor: in closed form if the cell has one, else by `torch.func`.

        `inputs` gives each state its own input instead of the constant one, as along a trajectory.
        """
        closed = self.cell.jacobian(self._inputs(states) if inputs is None else inputs, self.layout.unflatten(states))
        return self.jacobian_by_autograd(states, inputs) if closed is None else closed

    def jacobian_by_autograd(
        self, states: Float[Tensor, "batch size"], inputs: Float[Tensor, "batch ..."] | None = None
    ) -> Float[Tensor, "batch size size"]:
        """Return dF/dx by `torch.func`, with one pull-back per coordinate for the whole batch."""
        pull_back = torch.func.vjp(self if inputs is None else lambda x: self.driven(inputs, x), states)[1]
        basis = torch.eye(self.size, dtype=states.dtype, device=states.device)
        rows = torch.func.vmap(lambda row: pull_back(row.expand_as(states))[0])(basis)
        return rows.transpose(0, 1).contiguous()  # not an expanded view, which could not be written to

    def driven(self, inputs: Float[Tensor, "batch ..."], states: Float[Tensor, "batch size"]) -> Tensor:
        """Return F with an input for each state."""
        return self.layout.flatten(self.cell(inputs, self.layout.unflatten(states)))

    def input_jacobian(self, state: Float[Tensor, "1 size"]) -> Float[Tensor, "size features"]:
        """Return the derivative of F with respect to the input, at one state."""
        cell_state = self.unflatten(state)

        def driven(x: Tensor) -> Tensor:
            return self.layout.flatten(self.cell(x[None], cell_state))[0]

        return torch.func.jacrev(driven)(self.input[0]).reshape(self.size, -1)

    def residual_jacobian(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size size"]:
        """Return the Jacobian of `residual` at each state."""
        J = self.jacobian(states)
        if self.continuous:
            return J.div_(self.rate)
        J.diagonal(dim1=-2, dim2=-1).sub_(1)
        return J

    def residual_products(self, states: Float[Tensor, "batch size"]) -> tuple[Product, Product]:
        """Return the products `v -> J v` and `w -> J^T w` with the Jacobian of `residual`, without forming it."""
        pull_back = torch.func.vjp(self.residual, states)[1]

        def pull(w: Tensor) -> Tensor:
            return pull_back(w)[0]

        # pull is linear in w, so its transpose is the forward product, at no further pass through the cell
        transpose = torch.func.vjp(pull, torch.zeros_like(states))[1]
        return lambda v: transpose(v)[0], pull

    def flatten(self, state: State) -> Float[Tensor, "batch size"]:
        """Return states of the cell as flat vectors in the dtype of this system."""
        return self.layout.flatten(state).to(self.dtype)

    def unflatten(self, states: Float[Tensor, "batch size"]) -> State:
        """Return flat vectors as states of the cell."""
        return self.layout.unflatten(states)

    def inside(self, states: Float[Tensor, "batch size"]) -> Bool[Tensor, " batch"]:
        """Whether each state lies in the box, up to rounding; True if there is no box."""
        if self.bounds is None:
            return torch.ones(states.shape[0], dtype=torch.bool, device=states.device)
        low, high = self.bounds
        slack = 1e-9 * (high - low)
        return ((states >= low - slack) & (states <= high + slack)).all(1)

    def on_edge(self, states: Float[Tensor, "batch size"]) -> Bool[Tensor, " batch"]:
        """Whether each state touches the boundary of the box; False if there is no box."""
        if self.bounds is None:
            return torch.zeros(states.shape[0], dtype=torch.bool, device=states.device)
        low, high = self.bounds
        return ((states <= low) | (states >= high)).any(1)

    def clamp(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        """Return the nearest states inside the box; the same states if there is no box."""
        return states if self.bounds is None else torch.clamp(states, *self.bounds)

    def _inputs(self, states: Tensor) -> Tensor:
        return self.input.expand(states.shape[0], *self.input.shape[1:])

    def _constant_input(self, given: Vector | None) -> Tensor:
        features = self.cell.input_size
        if given is None:
            return torch.zeros(1, 1 if features is None else features, dtype=self.dtype, device=self.device)
        vector = torch.as_tensor(given).detach().to(self.dtype).to(self.device)
        if vector.dim() != 1 or (features is not None and vector.shape[0] != features):
            expected = "(features,)" if features is None else f"({features},)"
            raise ValueError(f"The constant input must have shape {expected}, but has {tuple(vector.shape)}.")
        if not torch.isfinite(vector).all():
            raise ValueError("The constant input contains NaN or infinite values.")
        return vector.unsqueeze(0)

    def _rate(self, given: float | None) -> float:
        if not self.continuous:
            if given is not None:
                raise ValueError("A map moves in steps; a rate belongs to a flow (continuous=True).")
            return 1.0
        if given is not None:
            if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
                raise ValueError(f"rate must be a positive and finite number, but is {given!r}.")
            return float(given)
        self.rate = 1.0
        return typical_rate(self)

    def _box(self, bounds: Any) -> tuple[Tensor, Tensor] | None:
        if bounds is None:
            return None
        if isinstance(bounds, str):
            if bounds != "auto":
                raise ValueError(f'bounds must be "auto", None or (low, high), but is {bounds!r}.')
            # a box that is invariant for the map need not be so for the flow with the same right-hand side
            return None if self.continuous else self.cell.bounds(self.input[0], self.input[0])
        try:
            low, high = (torch.as_tensor(edge, dtype=self.dtype, device=self.device) for edge in bounds)
            low, high = low.expand(self.size), high.expand(self.size)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"bounds must be (low, high), each a number or a tensor ({self.size},), but are {bounds!r}."
            ) from error
        if not ((low < high) & torch.isfinite(low) & torch.isfinite(high)).all():
            raise ValueError("bounds must be finite (low, high) with low < high in every coordinate.")
        return low, high


def _as_cell(network: Cell | nn.Module) -> Cell:
    if isinstance(network, Model):
        raise TypeError("A Model is a cell with a readout; pass the cell itself: Dynamics(model.cell).")
    return adapt(network)
