"""A cell frozen at a constant input: the dynamical system that the lenses analyse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells import FunctionCell, Layout, Network, State, as_cell
from mnemoscope.cells.cell import Step
from mnemoscope.cells.jacobians import batched_jacobian
from mnemoscope.cells.unrolled import prepared_steps

Product = Callable[[Tensor], Tensor]
"""Product with a matrix that is not formed."""
Vector = Float[Tensor, " features"] | np.ndarray | Sequence[float]
"""One number per input feature."""
LARGEST_CLOSED = 2048
"""Largest state whose Jacobian in closed form is compared with finite differences; a larger one takes much memory."""

REMEDIES = {
    "in closed form": "its method `jacobian` does not fit its step.",
    "by autograd": "does it use torch.no_grad(), .detach(), .data, numpy or an in-place change? Its step must be "
    "differentiable by autograd.",
}
"""Remedies for a wrong derivative, by the way it was computed."""


class Dynamics:
    """`x' = F(x)` (a map) or `dx/dt = F(x)` (a flow) on flat states (batch, size), at one constant input.

    Args:
        cell: any network that `adapt` takes without options: a `Cell`, or a torch.nn recurrent module. It is copied,
            and never changed.
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
        cell: Network,
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
        network = as_cell(cell)
        self.batch_first = network.batch_first
        """Whether inputs and trajectories that are passed with this system are (batch, time, ...)."""
        self.cell = network.time_first().frozen(dtype, device)  # every computation of a lens is time first
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
        self.invariant = self.bounds is not None and (not self.declared or _keeps_box(self))
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
        return batched_jacobian(self if inputs is None else lambda x: self.driven(inputs, x), states)

    def driven(self, inputs: Float[Tensor, "batch ..."], states: Float[Tensor, "batch size"]) -> Tensor:
        """Return F with an input for each state."""
        return self.layout.flatten(self.cell(inputs, self.layout.unflatten(states)))

    def output(self, states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch features"]:
        """Return the outputs of the cell at flat states, where the input is the constant one."""
        return self.cell.output_at(self._inputs(states), self.layout.unflatten(states))

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
        with torch.enable_grad():
            x = states.detach().requires_grad_()
            f = self.residual(x)
            w = torch.zeros_like(f, requires_grad=True)
            if not f.requires_grad:  # the velocity of a flow that ignores its state
                return torch.zeros_like, torch.zeros_like
            pulled = torch.autograd.grad(f, x, w, create_graph=True)[0]

        # the pull-back is linear in w, so its transpose is the forward product, at no further pass through the cell
        def push(v: Tensor) -> Tensor:
            return torch.autograd.grad(pulled, w, v, retain_graph=True, materialize_grads=True)[0]

        def pull(w: Tensor) -> Tensor:
            return torch.autograd.grad(f, x, w, retain_graph=True)[0]

        return push, pull

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
        return _typical_rate(self)

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


def as_dynamics(network: Dynamics | Network, states: Any = None) -> Dynamics:
    """Return a network without input as a `Dynamics`; every lens on a system calls this on what it is given.

    A function that was not adapted takes the form of its state from `states`, if that is a tensor, tuple or dict.
    """
    if isinstance(network, Dynamics):
        return network
    return Dynamics(as_cell(network, states if isinstance(states, Tensor | dict | tuple) else None))


def check_step(dynamics: Dynamics) -> None:
    """Raise unless the step can be analysed.

    It must keep the shape and the dtype of the state, be deterministic, treat the members of a batch independently,
    and be differentiable by autograd.
    """
    function = getattr(dynamics.cell, "function", dynamics.cell)
    name = getattr(function, "__name__", type(function).__name__)
    if dynamics.cell.grows:
        raise ValueError(
            f"The state of {name} grows with every step, because it keeps its whole past: its dimension is not "
            f"constant, so it has no fixed points. Use a network that keeps a limited past "
            f"(memory.attention.RelevanceScreen)."
        )
    if not all(torch.isfinite(weight).all() for weight in dynamics.cell.parameters()):  # tanh hides infinite weights
        raise ValueError(f"{name} has weights that are NaN or infinite.")
    states = _random_states(dynamics, 3)
    given = states.clone()
    new = _step(dynamics, given, name)
    _check_form(dynamics, states, new, name)
    if not torch.equal(given, states):
        raise ValueError(f"{name} changes its state in place; a step must not modify the state it is given.")
    if not torch.isfinite(new).all():
        if not all(torch.isfinite(tensor).all() for tensor in dynamics.cell.state_dict().values()):
            raise ValueError(f"{name} has weights that are NaN or infinite.")
        return  # outside the domain of the function nothing can be compared
    size = new.abs().amax().clamp_min(1)
    close = 1e-3 if dynamics.dtype == torch.float32 else 1e-8
    if (_step(dynamics, states, name) - new).abs().amax() > close * size:
        raise ValueError(
            f"{name} gave two different states from the same state and input: it draws random numbers or keeps "
            f"something between calls. A fixed point needs one next state; call .eval() where it has dropout."
        )
    if (_step(dynamics, states[:1], name) - new[:1]).abs().amax() > close * size:
        raise ValueError(
            f"{name} mixes the members of a batch: the first of three states steps elsewhere when it is alone. The "
            f"lenses step many states together and need each to be independent of the others."
        )
    _check_derivative(dynamics, states, new, name)


def _keeps_box(dynamics: Dynamics) -> bool:
    """Whether the system stays in its box from 512 states inside it, 512 on its faces and 512 corners."""
    assert dynamics.bounds is not None
    low, high = dynamics.bounds
    generator = torch.Generator().manual_seed(0)
    inside, faces, corners = torch.rand(3, 512, dynamics.size, generator=generator, dtype=dynamics.dtype).unbind()
    axis = torch.randint(dynamics.size, (512, 1), generator=generator)
    faces = faces.scatter(1, axis, faces.gather(1, axis).round())
    unit = torch.cat([inside, faces, corners.round()]).to(dynamics.device)
    states = torch.where(unit == 1, high, low + (high - low) * unit)  # exactly on the face, in spite of rounding
    with torch.no_grad():
        new = dynamics(states)
    if not dynamics.continuous:
        return bool(dynamics.inside(new).all())
    outward = ((states <= low) & (new < 0)) | ((states >= high) & (new > 0))
    return not bool(outward.any() or torch.isnan(new).any())


def _typical_rate(dynamics: Dynamics) -> float:
    """Return the typical rate of a flow: the geometric mean over coordinates of the norm of their rows of dF/dx.

    The norms are estimated from products with random vectors at random states. The geometric mean balances the fast
    and the slow variables of a stiff system.
    """
    states = _random_states(dynamics, 32)
    generator = torch.Generator().manual_seed(2)
    v = torch.randn(states.shape, generator=generator, dtype=states.dtype).to(states.device)
    with torch.no_grad():
        rows = dynamics.residual_products(states)[0](v)
    rows = rows[torch.isfinite(rows).all(1)]
    squares = rows.square().mean(0) if len(rows) else rows.new_zeros(1)
    moving = squares[squares > 0]  # a constant coordinate has no time scale
    return float(moving.log().mean().div(2).exp()) if len(moving) else 1.0


def _step(dynamics: Dynamics, states: Tensor, name: str) -> Tensor:
    try:  # not dynamics(states), whose shape annotation would fail before _check_form can explain
        inputs = dynamics.input.expand(len(states), *dynamics.input.shape[1:])
        return dynamics.layout.flatten(dynamics.cell(inputs, dynamics.layout.unflatten(states)))
    except Exception as error:
        reason = str(error).rstrip(".")
        raise ValueError(
            f"{name} could not step from a state of shape {tuple(states.shape)} and an input of shape "
            f"{(len(states), *dynamics.input.shape[1:])}, both {dynamics.dtype}: {reason}. If it expects another "
            f"number of inputs, pass input_size=... to ms.adapt; if its weights are float32, convert them or pass "
            f"dtype=torch.float32."
        ) from error


def _check_form(dynamics: Dynamics, states: Tensor, new: Tensor, name: str) -> None:
    if new.shape != states.shape:
        raise ValueError(
            f"{name} returned a state of {tuple(new.shape)} for one of {tuple(states.shape)}; a step must keep the "
            f"shape."
        )
    if new.dtype != dynamics.dtype:
        raise ValueError(
            f"{name} returned {new.dtype} for a {dynamics.dtype} state: it computes in lower precision than was asked. "
            f"Convert its weights, or pass dtype={new.dtype}."
        )


def _check_derivative(dynamics: Dynamics, states: Tensor, new: Tensor, name: str) -> None:
    """Compare one number of the Jacobian, w^T J v, in closed form or by autograd, and by finite differences."""
    generator = torch.Generator().manual_seed(1)
    v, w = (torch.randn(states.shape, generator=generator, dtype=states.dtype).to(states.device) for _ in range(2))
    step = 1e-3 if dynamics.dtype == torch.float32 else 1e-6
    with torch.no_grad():
        after, before = dynamics(states + step * v), dynamics(states - step * v)
    pulled, method = _pull_back(dynamics, states, w, name)
    given = (pulled * v).sum(1)
    # at a kink, any value between the one-sided derivatives is right
    differences = torch.stack([(after - before) / 2, after - new, new - before]) / step
    by_difference = (w * differences).sum(2)
    size = (w * differences[0]).abs().sum(1) + (pulled * v).abs().sum(1)
    rounding = torch.finfo(states.dtype).eps * (w * new).abs().sum(1) / step
    wrong = ((given - by_difference).abs() > 0.05 * size + 1e3 * step**2 + 10 * rounding).all(0)
    if torch.isfinite(differences).all() and wrong.all():
        raise ValueError(
            f"The derivative of {name} {method} is not the one by differences (w^T J v is "
            f"{given[0].item():.3g}, but should be {by_difference[0, 0].item():.3g}): {REMEDIES[method]}"
        )


def _pull_back(dynamics: Dynamics, states: Tensor, w: Tensor, name: str) -> tuple[Tensor, str]:
    """Return w^T J in closed form if the cell has one and it is small, else by `torch.func`; and the name of the way.

    The first derivative by `torch.func` imports the compiler of torch, which takes half as long as torch itself.
    """
    if dynamics.size <= LARGEST_CLOSED:
        closed = dynamics.cell.jacobian(dynamics._inputs(states), dynamics.layout.unflatten(states))
        if closed is not None:
            return (w[:, None] @ closed)[:, 0], "in closed form"
    try:
        return torch.func.vjp(dynamics, states)[1](w)[0], "by autograd"
    except Exception as error:
        raise ValueError(f"{name} cannot be differentiated by torch.func, which the lenses need: {error}") from error


def _random_states(dynamics: Dynamics, number: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(number, dynamics.size, generator=generator, dtype=dynamics.dtype).to(dynamics.device)
    states = dynamics.origin + drawn
    if dynamics.bounds is None:
        return states
    low, high = dynamics.bounds  # keep off the edge, where many nonlinearities have a kink
    return torch.clamp(states, low + 0.01 * (high - low), high - 0.01 * (high - low))
