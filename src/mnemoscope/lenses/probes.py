"""A system is tried out when it is made, so that what the lenses rely on is met in words, and not inside a solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from mnemoscope.lenses.dynamics import Dynamics


def check_step(dynamics: Dynamics) -> None:
    """Refuse a step of another shape or dtype than its state, one that draws random numbers or mixes the batch, and one
    whose derivative autograd cannot see.
    """
    name = _name(getattr(dynamics.cell, "function", dynamics.cell))
    if dynamics.cell.grows:
        raise ValueError(
            f"The state of {name} grows with every step, as it keeps all of its past: it is no system of one size, and "
            f"has no fixed points. A network that keeps a limited past has (memory.attention.RelevanceScreen)."
        )
    states = _random_states(dynamics, 3)
    given = states.clone()
    new = _step(dynamics, given, name)
    _check_form(dynamics, states, new, name)
    if not torch.equal(given, states):
        raise ValueError(f"{name} changes its state in place; a step must leave the state it is given as it is.")
    if not torch.isfinite(new).all():
        if not all(torch.isfinite(tensor).all() for tensor in dynamics.cell.state_dict().values()):
            raise ValueError(f"{name} has weights that are NaN or infinite.")
        return  # outside the domain of a function, nothing can be compared
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
            f"lenses step many states at once and need each to be independent of the others."
        )
    _check_derivative(dynamics, states, new, name)


def _step(dynamics: Dynamics, states: Tensor, name: str) -> Tensor:
    try:  # not through dynamics(states): its annotation would speak before _check_form can
        inputs = dynamics.input.expand(len(states), *dynamics.input.shape[1:])
        return dynamics.layout.flatten(dynamics.cell(inputs, dynamics.layout.unflatten(states)))
    except Exception as error:
        raise ValueError(
            f"{name} could not step from a state of shape {tuple(states.shape)} and an input of shape "
            f"{(len(states), *dynamics.input.shape[1:])}, both {dynamics.dtype}: {error}. If it expects another number "
            f"of inputs, pass input=...; if its weights are float32, convert them or pass dtype=torch.float32."
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
    """Compare one number of the Jacobian, w^T J v, by autograd and by differences."""
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
    # at a kink, the derivative is one of its sides', or between them
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


def keeps_box(dynamics: Dynamics) -> bool:
    """Whether no trial shows the system leaving its box: 512 states inside, 512 on faces, 512 corners."""
    assert dynamics.bounds is not None
    low, high = dynamics.bounds
    generator = torch.Generator().manual_seed(0)
    inside, faces, corners = torch.rand(3, 512, dynamics.size, generator=generator, dtype=dynamics.dtype).unbind()
    axis = torch.randint(dynamics.size, (512, 1), generator=generator)
    faces = faces.scatter(1, axis, faces.gather(1, axis).round())
    unit = torch.cat([inside, faces, corners.round()]).to(dynamics.device)
    states = torch.where(unit == 1, high, low + (high - low) * unit)  # exactly on the face, whatever rounding says
    with torch.no_grad():
        new = dynamics(states)
    if not dynamics.continuous:
        return bool(dynamics.inside(new).all())
    outward = ((states <= low) & (new < 0)) | ((states >= high) & (new > 0))
    return not bool(outward.any() or torch.isnan(new).any())


def typical_rate(dynamics: Dynamics) -> float:
    """How fast a flow moves: the geometric mean over its coordinates of the norm of their rows of dF/dx.

    The norms are estimated from products with random vectors at random states; the geometric mean lets neither the
    fast nor the slow variables of a stiff system decide alone.
    """
    states = _random_states(dynamics, 32)
    generator = torch.Generator().manual_seed(2)
    v = torch.randn(states.shape, generator=generator, dtype=states.dtype).to(states.device)
    with torch.no_grad():
        rows = dynamics.residual_products(states)[0](v)
    rows = rows[torch.isfinite(rows).all(1)]
    squares = rows.square().mean(0) if len(rows) else rows.new_zeros(1)
    moving = squares[squares > 0]  # a coordinate that stands still has no time scale
    return float(moving.log().mean().div(2).exp()) if len(moving) else 1.0


def _random_states(dynamics: Dynamics, number: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(number, dynamics.size, generator=generator, dtype=dynamics.dtype).to(dynamics.device)
    states = dynamics.origin + drawn
    if dynamics.bounds is None:
        return states
    low, high = dynamics.bounds  # not on the very edge, where a box is often bounded by a kink
    return torch.clamp(states, low + 0.01 * (high - low), high - 0.01 * (high - low))


def _name(thing: Callable[..., Any]) -> str:
    return getattr(thing, "__name__", type(thing).__name__)
