"""A cell frozen at a constant input: the dynamical system that the lenses look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.cells import Cell, Layout, State, adapt
from mnemoscope.shapes import Bool, Float

Product = Callable[[Tensor], Tensor]


class Dynamics:
    """`x' = F(x)` (a map) or `dx/dt = F(x)` (a flow) on flat states (batch, size), at one constant input.

    Args:
        cell: a `Cell`, or any torch.nn recurrent module. It is copied, and never changed.
        input: the constant input (features,); zeros by default.
        continuous: read the cell's step as a time derivative instead of the next state.
        bounds: "auto" (what the cell knows of itself), None, or (low, high), numbers or tensors (size,), of a box that
            the system never leaves. Solvers stay inside it, and the index sum is meaningful only if there is one.
        dtype: float64 by default, as every analysis.

    >>> import mnemoscope as ms
    >>> dynamics = ms.Dynamics(torch.nn.GRU(3, 16))
    >>> dynamics.size, dynamics.jacobian(torch.zeros(5, 16, dtype=torch.float64)).shape
    (16, torch.Size([5, 16, 16]))

    """

    def __init__(
        self,
        cell: Cell | nn.Module,
        input: Float[Tensor, " features"] | None = None,
        *,
        continuous: bool = False,
        bounds: str | tuple[float | Tensor, float | Tensor] | None = "auto",
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        if not dtype.is_floating_point:
            raise ValueError(f"dtype must be a real floating type such as torch.float64, but is {dtype}.")
        device = None if device is None else torch.device(device)
        self.cell = adapt(cell).frozen(dtype, device)
        self.continuous = continuous
        self.dtype = dtype
        example = self.cell.initial_state(1)
        self.layout = Layout(example)
        self.size = self.layout.size
        self.origin: Float[Tensor, "1 size"] = self.layout.flatten(example).to(dtype)
        self.device = self.origin.device
        self.input = self._constant_input(input)
        self._probe()
        self.bounds = self._box(bounds)

    def __call__(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        """F: the next states of a map, the velocities of a flow."""
        return self.layout.flatten(self.cell(self._inputs(states), self.layout.unflatten(states)))

    def residual(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        """What vanishes at a fixed point: F(x) - x for a map, F(x) for a flow."""
        return self(states) if self.continuous else self(states) - states

    def jacobian(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size size"]:
        """dF/dx at each state, a new tensor: the cell's closed form where it has one, `torch.func` otherwise."""
        closed = self.cell.jacobian(self._inputs(states), self.layout.unflatten(states))
        return self.jacobian_by_autograd(states) if closed is None else closed

    def jacobian_by_autograd(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size size"]:
        """dF/dx by `torch.func`; one pull-back per state coordinate, the batch in one piece."""
        pull_back = torch.func.vjp(self, states)[1]
        basis = torch.eye(self.size, dtype=states.dtype, device=states.device)
        rows = torch.func.vmap(lambda row: pull_back(row.expand_as(states))[0])(basis)
        return rows.transpose(0, 1)

    def residual_jacobian(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size size"]:
        """Derivative of `residual`."""
        J = self.jacobian(states)
        if not self.continuous:
            J.diagonal(dim1=-2, dim2=-1).sub_(1)
        return J

    def residual_products(self, states: Float[Tensor, "batch size"]) -> tuple[Product, Product]:
        """`v -> residual' v` and `w -> residual'^T w` at these states, without forming the Jacobian."""
        pull_back = torch.func.vjp(self.residual, states)[1]

        def pull(w: Tensor) -> Tensor:
            return pull_back(w)[0]

        # pull is linear in w, so that its own transpose is the forward product; it costs no new pass through the cell
        transpose = torch.func.vjp(pull, torch.zeros_like(states))[1]
        return lambda v: transpose(v)[0], pull

    def flatten(self, state: State) -> Float[Tensor, "batch size"]:
        """States of the cell's own form as flat vectors in this system's dtype."""
        return self.layout.flatten(state).to(self.dtype)

    def unflatten(self, states: Float[Tensor, "batch size"]) -> State:
        """Flat vectors as states of the cell's own form."""
        return self.layout.unflatten(states)

    def inside(self, states: Float[Tensor, "batch size"]) -> Bool[Tensor, " batch"]:
        """Whether each state lies in the invariant box, up to rounding; all do where no box is known."""
        if self.bounds is None:
            return torch.ones(states.shape[0], dtype=torch.bool, device=states.device)
        low, high = self.bounds
        slack = 1e-9 * (high - low)
        return ((states >= low - slack) & (states <= high + slack)).all(1)

    def on_edge(self, states: Float[Tensor, "batch size"]) -> Bool[Tensor, " batch"]:
        """Whether each state touches the boundary of the invariant box; none does where no box is known."""
        if self.bounds is None:
            return torch.zeros(states.shape[0], dtype=torch.bool, device=states.device)
        low, high = self.bounds
        return ((states <= low) | (states >= high)).any(1)

    def clamp(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        """The nearest states inside the invariant box; the same states where no box is known."""
        return states if self.bounds is None else torch.clamp(states, *self.bounds)

    def _inputs(self, states: Tensor) -> Tensor:
        return self.input.expand(states.shape[0], *self.input.shape[1:])

    def _constant_input(self, given: Tensor | None) -> Tensor:
        features = self.cell.input_size
        if given is None:
            return torch.zeros(1, 1 if features is None else features, dtype=self.dtype, device=self.device)
        if given.dim() != 1 or (features is not None and given.shape[0] != features):
            expected = "(features,)" if features is None else f"({features},)"
            raise ValueError(f"The constant input must have shape {expected}, but has {tuple(given.shape)}.")
        if not torch.isfinite(given).all():
            raise ValueError("The constant input contains NaN or infinite values.")
        return given.detach().to(self.dtype).to(self.device).unsqueeze(0)

    def _probe(self) -> None:
        """Step once, so that a wrong shape or dtype is met here, in words, and not inside a solver."""
        name = getattr(self.cell, "function", self.cell)
        states = self.origin.expand(2, self.size)
        try:
            new = self.layout.flatten(self.cell(self._inputs(states), self.layout.unflatten(states)))
        except RuntimeError as error:
            raise ValueError(
                f"{_name(name)} could not step from a state of shape {tuple(states.shape)} and an input of shape "
                f"{(2, *self.input.shape[1:])}, both {self.dtype}: {error}. If it expects another number of inputs, "
                f"pass input=...; if its weights are float32, convert them or pass dtype=torch.float32."
            ) from error
        if new.shape != states.shape:
            raise ValueError(
                f"{_name(name)} returned a state of {tuple(new.shape)} for one of {tuple(states.shape)}; a step must "
                f"keep the shape."
            )
        if new.dtype != self.dtype:
            raise ValueError(
                f"{_name(name)} returned {new.dtype} for a {self.dtype} state: it computes in lower precision than was "
                f"asked. Convert its weights, or pass dtype={new.dtype}."
            )

    def _box(self, bounds: Any) -> tuple[Tensor, Tensor] | None:
        if bounds is None:
            return None
        if isinstance(bounds, str):
            if bounds != "auto":
                raise ValueError(f'bounds must be "auto", None or (low, high), but is {bounds!r}.')
            # a box that the map keeps says nothing of the flow with the same right-hand side
            return None if self.continuous else self.cell.bounds(self.input[0], self.input[0])
        low, high = (torch.as_tensor(edge, dtype=self.dtype, device=self.device).expand(self.size) for edge in bounds)
        if not ((low < high) & torch.isfinite(low) & torch.isfinite(high)).all():
            raise ValueError("bounds must be finite (low, high) with low < high in every coordinate.")
        return low, high


def _name(thing: Callable[..., Any]) -> str:
    return getattr(thing, "__name__", type(thing).__name__)
