"""Loops as limit cycles: confirmed by Newton's method, with their Floquet multipliers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.lenses.attractors.composition import iterated_map
from mnemoscope.lenses.closed_loop.generation import orbit_of
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.stability import leading_eigenpairs

COUNT = 4
"""Leading multipliers that are reported."""
DENSE = 400
"""Largest state for which the Jacobian of a whole loop is formed, and Newton's method is run."""
ACCURACY = 1e-8
"""Relative accuracy of multipliers from products."""
NEAR = 1e-3
"""Largest distance of a generated state from the cycle that Newton's method finds, as a share of the extent."""


def confirm_loop(
    dynamics: Dynamics, orbit: Float[Tensor, "period size"], extent: float
) -> tuple[Float[Tensor, "period size"], Complex[Tensor, " count"], bool]:
    """Return the states of the cycle at an orbit, its leading multipliers, and whether Newton's method confirms it.

    A state of the cycle is a fixed point of the map that is iterated over a whole loop, as in `find_cycles`.

    At temperature 0 the derivative of a token is 0, so that these are the multipliers with the tokens held: exact as
    long as no other token takes the lead. A state of more than `DENSE` numbers is not confirmed; its multipliers come
    from products with the Jacobian.
    """
    period = len(orbit)
    if dynamics.size > DENSE:
        return orbit, _multipliers_by_products(dynamics, orbit[:1], period), False
    fp = find_fixed_points(iterated_map(dynamics, period), orbit[:1])
    if len(fp) and float((fp.states[0].to(orbit) - orbit[0]).norm()) <= NEAR * extent:
        return orbit_of(dynamics, fp.states[0].to(orbit), period)[0], _leading(fp.eigenvalues[0]), True
    J = torch.eye(dynamics.size).to(orbit)
    for factor in dynamics.jacobian(orbit):
        J = factor @ J
    return orbit, _leading(torch.linalg.eigvals(J)), False


def _leading(values: Complex[Tensor, " size"]) -> Complex[Tensor, " count"]:
    """Return the largest multipliers; NaN follows if there are fewer than `COUNT`."""
    kept = values[values.abs().argsort(descending=True)][:COUNT].cpu()
    return torch.cat([kept, torch.full((COUNT - len(kept),), complex("nan"), dtype=kept.dtype)])


def _multipliers_by_products(
    dynamics: Dynamics, state: Float[Tensor, "1 size"], period: int
) -> Complex[Tensor, " count"]:
    """Return the leading eigenvalues of the derivative of a whole loop, by Arnoldi's method on products w^T J.

    All are NaN if the method does not converge.
    """

    def whole(now: Tensor) -> Tensor:
        for _ in range(period):
            now = dynamics(now)
        return now

    pull_back = torch.func.vjp(whole, state)[1]

    def product(w: np.ndarray) -> np.ndarray:
        return pull_back(torch.from_numpy(w.reshape(1, -1)).to(state))[0][0].cpu().numpy()

    operator: Any = LinearOperator  # scipy annotates the base class, not what its __new__ takes
    products = operator((state.shape[1],) * 2, matvec=product, dtype=np.float64)
    pairs = leading_eigenpairs(products, COUNT, continuous=False, accuracy=ACCURACY, seed=0)
    values = np.zeros(0) if pairs is None else pairs[0]
    return _leading(torch.from_numpy(values.astype(np.complex128)))
