"""The selection lens: the slowest mode of each fixed point, and what a brief input adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.cells import Network
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.selection.result import SelectionVectors

REAL = 1e-9
"""An eigenvalue is real if its imaginary part is at most this share of its absolute value."""
REST = 1e-6
"""A point rests if q is at most this share of its squared size, or near the value that the search found."""


@show_slow("selection vectors")
def selection_vectors(
    dynamics: Dynamics | Network,
    fixed_points: FixedPoints,
    *,
    along: Float[Tensor, " size"] | None = None,
    features: Sequence[str] = (),
) -> SelectionVectors:
    """Return how strongly each input is integrated at each fixed point (Mante et al. 2013).

    A brief input moves the state by B u, with B the derivative of the step with respect to the input. Most of that
    decays; what lasts is its part along the slowest mode, l^T B u, where l is the left eigenvector of that mode. An
    input that is orthogonal to l is ignored, however far it moves the state at first. So l is called the selection
    vector. This is a linear answer: it holds for small inputs, at the constant input of `dynamics`.

    Args:
        dynamics: the system that the fixed points belong to, `Dynamics(network, input)`; or the network itself.
        fixed_points: fixed points or slow points, `fp` or `fp.slow`.
        along: direction in which the slow mode counts as positive, such as a row of the readout. By default the mode
            points along the first principal component of the fixed points.
        features: names of the inputs, for summary and figure.

    The step x -> 0.99 x + u_1 + 5 y and y -> 0.5 y - 0.1 u_2 keeps u_1 and, by way of y, u_2:

    >>> import mnemoscope as ms
    >>> def step(u, h):
    ...     x, y = h.unbind(1)
    ...     return torch.stack([0.99 * x + 5 * y + u[:, 0], 0.5 * y - 0.1 * u[:, 1]], 1)
    >>> system = ms.Dynamics(ms.adapt(step, state_size=2, input_size=2))
    >>> found = ms.selection_vectors(system, ms.find_fixed_points(system), along=torch.tensor([1.0, 0.0]))
    >>> found.gains.abs().round(decimals=3).tolist()  # 5 / (0.99 - 0.5) of u_2's effect arrive
    [[1.0, 1.02]]

    """
    dynamics = as_dynamics(dynamics)
    size = dynamics.size
    if fixed_points.states.shape[1] != size:
        raise ValueError(
            f"The fixed points have {fixed_points.states.shape[1]} numbers, but the states of this system {size}: pass "
            f"the Dynamics that they were found in."
        )
    if features and len(features) != dynamics.input.shape[1]:
        raise ValueError(
            f"There are {dynamics.input.shape[1]} inputs, but {len(features)} names: features takes one for each."
        )
    _check_rest(dynamics, fixed_points)
    modes = fixed_points.growth.abs().argmin(1)
    rows = torch.arange(len(fixed_points))
    values = fixed_points.eigenvalues[rows, modes]
    real = values.imag.abs() <= REAL * values.abs()
    left, right = (
        vectors[rows, :, modes].masked_fill(~real[:, None], torch.nan).real.double()
        for vectors in (fixed_points.left_eigenvectors, fixed_points.eigenvectors)
    )
    sign = _orientation(fixed_points.states.double(), right, along)[:, None]
    states, inputs = fixed_points.states.to(dynamics.origin), dynamics.input.shape[1]
    effects = [dynamics.input_jacobian(state[None]).detach().cpu().double() for state in states]
    return SelectionVectors(
        states=fixed_points.states.double(),
        left=sign * left,
        right=sign * right,
        eigenvalues=values,
        growth=fixed_points.growth[rows, modes].double(),
        conditions=fixed_points.eigenvalue_conditions[rows, modes].double(),
        effects=torch.stack(effects) if effects else torch.zeros(0, size, inputs, dtype=torch.float64),
        input=dynamics.input[0].cpu().double(),
        continuous=fixed_points.continuous,
        features=tuple(features),
    )


@torch.no_grad()
def _check_rest(dynamics: Dynamics, fixed_points: FixedPoints) -> None:
    """Raise if the points move more than they did where they were found: at another constant input, for example."""
    states = fixed_points.states.to(dynamics.origin)
    if not len(states):
        return
    moves = (dynamics.residual(states) * dynamics.rate).square().sum(1).cpu() / 2  # as q, but in this system
    allowed = 100 * fixed_points.q.to(moves) + REST * (1 + states.square().sum(1).cpu())
    if bool((moves > allowed).any()):
        raise ValueError(
            f"{int((moves > allowed).sum())} of {len(states)} points are no fixed points of this system: pass the "
            f"Dynamics in which they were found, with the same constant input."
        )


def _orientation(states: Tensor, right: Tensor, along: Tensor | None) -> Float[Tensor, " points"]:
    """Return the sign that turns each mode to the given direction, or to that in which the points differ most."""
    if along is not None:
        direction = along.detach().cpu().double()
        if direction.shape != states.shape[1:]:
            raise ValueError(
                f"along must have {states.shape[1]} numbers, one for each of the state, but its shape is "
                f"{tuple(along.shape)}."
            )
    else:
        centred = states - states.mean(0) if len(states) else states
        spread = float(centred.norm()) > 1e-9 * sqrt(max(centred.numel(), 1))
        known = right[~right.isnan().any(1)]
        if not spread and not len(known):
            return torch.ones(len(states), dtype=torch.float64)
        direction = torch.linalg.svd(centred, full_matrices=False).Vh[0] if spread else known[0]
        direction = direction * direction[direction.abs().argmax()].sign()  # the same sign in every run
    return torch.where(right @ direction < 0, -1.0, 1.0).double()
