"""Noise on a slow manifold: the variance that it adds along it, and how far the drift stretches earlier noise."""

from __future__ import annotations

from math import nan

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fixed_points.starts import advance
from mnemoscope.lenses.slow_manifold.drift import Drift, left_tangents
from mnemoscope.lenses.slow_manifold.homology import farthest_points, pairwise_distances
from mnemoscope.lenses.slow_manifold.view import View, as_array

NOISE_STARTS = 100
"""States on which noise acts."""
STRETCH_STARTS = 40
"""Evenly spread states at which the stretching by the drift is measured."""


def measure_noise(
    view: View,
    members: Tensor,
    drift: Drift,
    noise: float | None,
    steps: int,
    settling: int,
    generator: torch.Generator,
) -> dict[str, float]:
    """Return the noise, its diffusion in linear theory, and that of simulated states, as fields of the result."""
    with torch.no_grad():
        diameter = float(pairwise_distances(as_array(view(members))).max())
    sigma = 1e-3 * diameter if noise is None else float(noise)
    chosen = members[torch.randperm(len(members), generator=generator)[:NOISE_STARTS].to(members.device)]
    gain, left = noise_gain(view, chosen, drift, settling)
    simulated = simulate_noise(view, members, drift, sigma, steps, settling, generator)
    # the drift changes the variance that enters in each step of the simulation until its end
    powers = 1 + np.arange(steps)[:, None] / settling
    share = float((gain * left**powers).mean() / gain.mean())
    return {
        "noise": sigma,
        "diffusion": sigma**2 * float(gain.mean()),
        "diffusion_measured": simulated / share if share > 0 else nan,
    }


def largest_stretch(view: View, everything: Tensor, drift: Drift, steps: int) -> float:
    """Return the largest `stretching` among evenly spread states of the manifold."""
    with torch.no_grad():
        chosen = farthest_points(as_array(view(everything)), STRETCH_STARTS)
    return float(stretching(view, everything[chosen.tolist()], drift, steps).max())


def noise_gain(
    view: View, states: Float[Tensor, "states size"], drift: Drift, settling: int
) -> tuple[Float[np.ndarray, " states"], Float[np.ndarray, " states"]]:
    """Return the squared gain of noise, and the share of its variance that the drift leaves after the settling.

    The gain is the variance along the manifold per variance of isotropic noise in one step. Noise moves the state off
    the manifold, to which it returns at another place. That place is differentiated with respect to the state, and
    divided by its derivative along the manifold, so that the drift during the settling cancels. The gain is the squared
    norm of the result, summed over the coordinates. It is 1 if the network is normal, and larger if noise in other
    directions is carried into the manifold.
    """
    left = left_tangents(view, states, drift.tangents, settling)
    along = left @ _tangents(view, states, drift).mT  # (states, dims, dims)
    gain = (_inverse(along) @ left).square().sum((1, 2))
    return as_array(gain), as_array(along.square().sum((1, 2)) / along.shape[1])


def stretching(
    view: View, states: Float[Tensor, "states size"], drift: Drift, steps: int
) -> Float[np.ndarray, " states"]:
    """Return the factor per step by which the drift stretches a small difference along the manifold, at each state.

    With M(k) the derivative of the place after k steps with respect to the place at the start, it is the largest
    singular value of M(2n) M(n)^-1 to the power 1 / n, for n = `steps`: by n the fast directions have decayed, and
    errors of the tangents cancel. It is below 1 where the drift restores values, and above where it drives them apart.
    """
    start = _tangents(view, states, drift)
    first, second = (left_tangents(view, states, drift.tangents, k) @ start.mT for k in (steps, 2 * steps))
    ratio = second @ _inverse(first)
    valid = ratio.isfinite().all(2).all(1)
    largest = torch.linalg.matrix_norm(torch.where(valid[:, None, None], ratio, 0), 2)
    return as_array(torch.where(valid, largest, torch.nan)) ** (1 / steps)


def simulate_noise(
    view: View,
    states: Float[Tensor, "states size"],
    drift: Drift,
    noise: float,
    steps: int,
    settling: int,
    generator: torch.Generator,
) -> float:
    """Return the mean squared distance per step, in state units, by which noise moves the states along the manifold.

    Noisy copies and noiseless ones run for `steps` steps, then both settle without noise and are compared.
    """
    noisy, quiet = states, states
    with torch.no_grad():
        for _ in range(steps):
            drawn = torch.randn(states.shape, generator=generator, dtype=states.dtype).to(states.device)
            noisy, quiet = view.system(noisy) + noise * drawn, view.system(quiet)
    ends = (drift.place(as_array(view(advance(view.system, states, settling)))) for states in (noisy, quiet))
    errors = drift.errors(*ends) * drift.range
    return float((errors**2).mean()) / steps


def _tangents(view: View, states: Tensor, drift: Drift) -> Float[Tensor, "states dims size"]:
    with torch.no_grad():
        return torch.from_numpy(np.ascontiguousarray(drift.tangents(as_array(view(states))))).to(states)


def _inverse(matrices: Float[Tensor, "states dims dims"]) -> Float[Tensor, "states dims dims"]:
    """Return the pseudoinverse of each matrix, which is NaN where the matrix is not finite."""
    valid = matrices.isfinite().all(2).all(1)[:, None, None]
    return torch.where(valid, torch.linalg.pinv(torch.where(valid, matrices, 0)), torch.nan)
