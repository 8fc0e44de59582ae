"""Checks of a new `Dynamics`: they fail with an explanation where a solver would fail without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from mnemoscope.cells import Cell, Layout


@runtime_checkable
class Checked(Protocol):
    """The parts of a `Dynamics` that the checks use."""

    cell: Cell
    layout: Layout
    input: Tensor
    origin: Tensor
    bounds: tuple[Tensor, Tensor] | None
    size: int
    continuous: bool
    dtype: torch.dtype
    device: torch.device

    def __call__(self, states: Tensor) -> Tensor: ...

    def residual_products(self, states: Tensor) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]: ...

    def inside(self, states: Tensor) -> Tensor: ...


def check_step(dynamics: Checked) -> None:
    """Raise unless the step can be analysed.

    It must keep the shape and the dtype of the state, be deterministic, treat the members of a batch independently,
    and be differentiable by autograd.
    """
    name = _name(getattr(dynamics.cell, "function", dynamics.cell))
    if dynamics.cell.grows:
        raise ValueError(
            f"The state of {name} grows with every step, because it keeps its whole past: its dimension is not "
            f"constant, so it has no fixed points. Use a network that keeps a limited past "
            f"(memory.attention.RelevanceScreen)."
        )
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


def keeps_box(dynamics: Checked) -> bool:
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


def typical_rate(dynamics: Checked) -> float:
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


def _step(dynamics: Checked, states: Tensor, name: str) -> Tensor:
    try:  # not dynamics(states), whose shape annotation would fail before _check_form can explain
        inputs = dynamics.input.expand(len(states), *dynamics.input.shape[1:])
        return dynamics.layout.flatten(dynamics.cell(inputs, dynamics.layout.unflatten(states)))
    except Exception as error:
        raise ValueError(
            f"{name} could not step from a state of shape {tuple(states.shape)} and an input of shape "
            f"{(len(states), *dynamics.input.shape[1:])}, both {dynamics.dtype}: {error}. If it expects another number "
            f"of inputs, pass input=...; if its weights are float32, convert them or pass dtype=torch.float32."
        ) from error


def _check_form(dynamics: Checked, states: Tensor, new: Tensor, name: str) -> None:
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


def _check_derivative(dynamics: Checked, states: Tensor, new: Tensor, name: str) -> None:
    """Compare one number of the Jacobian, w^T J v, by autograd and by finite differences."""
    generator = torch.Generator().manual_seed(1)
    v, w = (torch.randn(states.shape, generator=generator, dtype=states.dtype).to(states.device) for _ in range(2))
    step = 1e-3 if dynamics.dtype == torch.float32 else 1e-6
    with torch.no_grad():
        after, before = dynamics(states + step * v), dynamics(states - step * v)
    try:
        pulled = torch.func.vjp(dynamics, states)[1](w)[0]
    except Exception as error:
        raise ValueError(f"{name} cannot be differentiated by torch.func, which the lenses need: {error}") from error
    by_autograd = (pulled * v).sum(1)
    # at a kink, any value between the one-sided derivatives is right
    differences = torch.stack([(after - before) / 2, after - new, new - before]) / step
    by_difference = (w * differences).sum(2)
    size = (w * differences[0]).abs().sum(1) + (pulled * v).abs().sum(1)
    rounding = torch.finfo(states.dtype).eps * (w * new).abs().sum(1) / step
    wrong = ((by_autograd - by_difference).abs() > 0.05 * size + 1e3 * step**2 + 10 * rounding).all(0)
    if torch.isfinite(differences).all() and wrong.all():
        raise ValueError(
            f"The derivative of {name} by autograd is not the one by differences (w^T J v is "
            f"{by_autograd[0].item():.3g}, but should be {by_difference[0, 0].item():.3g}): does it use "
            f"torch.no_grad(), .detach(), .data, numpy or an in-place change? Its step must be differentiable by "
            f"autograd."
        )


def _random_states(dynamics: Checked, number: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(number, dynamics.size, generator=generator, dtype=dynamics.dtype).to(dynamics.device)
    states = dynamics.origin + drawn
    if dynamics.bounds is None:
        return states
    low, high = dynamics.bounds  # keep off the edge, where many nonlinearities have a kink
    return torch.clamp(states, low + 0.01 * (high - low), high - 0.01 * (high - low))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
