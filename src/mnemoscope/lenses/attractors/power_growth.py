"""Growth by a power of time, which has a Lyapunov exponent of 0, and its difference from exponential growth.

In a chain of integrators, as position from velocity, differences grow as a power of time, `t^a`. The mean growth per
step over the first t steps is `a log(t) / t`: it tends to 0, but slowly, and blocks of steps scatter much less than
that. Three properties distinguish it from exponential growth, whose blocks have the same mean:

- whenever it begins, it amounts to at most `a log 2` between t and 2 t, and a chain of integrators has a < size;
- the growth per step falls as `a / t`, so that a fit of `rate + c / t` to the blocks has a rate of 0;
- it is never the same in all blocks.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int

GROWN = 1.5
"""E-foldings in the second half of the steps below which growth may be that of a power of time: `t^2` grows by at most
2 log 2 = 1.39 there. Differences fall as `t^-2` near a fold, and more slowly near other bifurcations."""
CONSTANT = 1e-3
"""Largest difference between the growth in a block and its mean, relative to the mean and for a short transient, at
which blocks count as the same."""


def exceeds_power_growth(
    growth: Float[Tensor, "starts blocks"], steps: Int[Tensor, " starts"], transient: int, size: int
) -> Bool[Tensor, " starts"]:
    """Return whether growth by a power of time is excluded as the explanation of the growth in blocks of steps.

    Args:
        growth: mean growth (logarithm) per step of a difference between nearby states, in each block.
        steps: steps of all blocks together.
        transient: steps before the first block, in which the difference grew already.
        size: numbers in the state.

    >>> edges = torch.linspace(500, 2500, 21).double()
    >>> shear = edges.log().diff() / 100  # a difference grows in proportion to time
    >>> growth = torch.stack([shear, shear + 0.01, torch.full((20,), -0.001).double()])
    >>> exceeds_power_growth(growth, torch.full((3,), 2000), 500, 2).tolist()
    [False, True, True]

    """
    mean, late = growth.mean(1), growth.tensor_split(2, dim=1)[1].mean(1)
    foldings = late * mean.sign() * steps / 2  # in the second half
    lasts = (foldings >= GROWN) & ((foldings >= size * log(2)) | _has_a_rate(growth, steps, transient))
    share = steps / (steps + transient)  # with a long transient, the growth by a power of time hardly changes
    is_constant = (growth - mean[:, None]).abs().amax(1) <= CONSTANT * share * mean.abs()
    return lasts | is_constant | mean.isneginf()


def _has_a_rate(growth: Tensor, steps: Tensor, transient: int) -> Bool[Tensor, " starts"]:
    """Return whether the rate in a least-squares fit of `rate + c / t` lies two standard errors on the mean's side."""
    number = growth.shape[1]
    edges = transient + 1 + steps.to(growth)[:, None] * torch.linspace(0, 1, number + 1).to(growth)  # the first step: 1
    falling = edges.log().diff(dim=1)
    falling = falling / falling.mean(1, keepdim=True)
    away, mean = falling - 1, growth.mean(1)
    power = away.square().sum(1)
    slope = (away * growth).sum(1) / power
    rate = mean - slope
    residual = growth - rate[:, None] - slope[:, None] * falling
    variance = residual.square().sum(1) / (number - 2)
    error = (variance * (1 / number + 1 / power)).sqrt()
    return rate * mean.sign() > 2 * error
