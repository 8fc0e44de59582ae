"""Lyapunov exponents along inputs: the mean rates at which the products of the operators stretch directions.

Orthonormal directions Q are carried by A and orthonormalised again, `A Q = Q' R`; the logarithms of the diagonal of R
add up to those of the volumes that the directions span (Benettin et al. 1980). A is not formed, so that a step takes
O(d r^2) for r of d directions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import carry_state
from mnemoscope.lenses.transition_operators.structures import log_eigenvalues


def exponents_along(
    layer: AffineLayer, steps: Int[Tensor, " batch"], count: int, transient: int, rounding: float, seed: int
) -> Float[Tensor, "batch heads count"]:
    """Return the largest exponents of each sequence, per step, in descending order.

    A singular operator loses a direction for good: its exponent is minus infinity. A direction counts as lost if one
    step shrinks it below the rounding error of the others.

    Args:
        layer: the recurrence, in float64.
        steps: number of steps of each sequence.
        count: number of exponents.
        transient: steps in which directions align, before the mean begins.
        rounding: relative rounding error with which the parts were computed.
        seed: seed of the first directions.

    """
    if layer.parts.erase is None:
        rates = _diagonal_rates(layer, steps, transient)
    else:
        rates = _orthonormalised_rates(layer, steps, count, transient, rounding, seed)
    return rates.sort(dim=-1, descending=True).values[..., :count]


def _diagonal_rates(layer: AffineLayer, steps: Tensor, transient: int) -> Tensor:
    """Return the mean of the logarithm of each eigenvalue, whose eigenvectors are the keys at every step."""
    g = log_eigenvalues(layer.parts)[: int(steps.max())]
    rates = g.real if g.is_complex() else g
    counted = _counted(len(rates), steps, transient)[..., None, None]
    return torch.where(counted, rates, 0).sum(0) / (steps - transient)[:, None, None]


def _orthonormalised_rates(
    layer: AffineLayer, steps: Tensor, count: int, transient: int, rounding: float, seed: int
) -> Tensor:
    keys = layer.start.shape[-2]
    generator = seeded_generator(seed)
    drawn = torch.randn(*layer.start.shape[:2], keys, count, generator=generator, dtype=torch.float64)
    Q = torch.linalg.qr(drawn.to(layer.start))[0]
    total = Q.new_zeros(*Q.shape[:2], count, dtype=torch.float64)
    counted = _counted(int(steps.max()), steps, transient)
    floor = max(rounding * keys**0.5, 10 * keys * torch.finfo(torch.float64).eps)  # of the parts, and of this loop
    for step in range(int(steps.max())):
        carried = carry_state(layer.at(step), Q)
        Q, R = torch.linalg.qr(carried)
        growth = R.diagonal(dim1=-2, dim2=-1).abs()
        scale = torch.linalg.vector_norm(carried, dim=-2).amax(-1, keepdim=True)
        lost = (growth <= floor * scale) & (step < steps)[:, None, None]
        growth = torch.where(lost, 1, growth).log()
        total = total + torch.where(counted[step][:, None, None], growth, 0)
        total = total.masked_fill(lost, -torch.inf)
    return total / (steps - transient)[:, None, None]


def _counted(longest: int, steps: Tensor, transient: int) -> Tensor:
    """Return which steps of each sequence, (time, batch), enter the mean."""
    time = torch.arange(longest, device=steps.device).unsqueeze(1)
    return (time >= transient) & (time < steps)
