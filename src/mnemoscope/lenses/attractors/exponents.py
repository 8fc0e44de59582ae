"""Lyapunov exponents by the QR method (Benettin et al. 1980; Shimada & Nagashima 1979; Geist et al. 1990).

Vectors Q of the tangent space are carried along a trajectory and made orthonormal again, J Q = Q' R. The logarithms of
|R_ii| add up to those of the volumes that i vectors span, so that their mean per step is the i-th exponent.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import State
from mnemoscope.lenses.attractors.composed import in_steps
from mnemoscope.lenses.attractors.lyapunov import LyapunovSpectrum
from mnemoscope.lenses.attractors.tangents import Tangents, drawn_starts, seeded
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.starts import StartStrategy

BLOCKS = 20
"""Blocks of steps whose scatter gives the standard error."""
FAR = 1e8
"""A state this many times larger than the starts has left to infinity."""


def lyapunov_spectrum(
    dynamics: Dynamics,
    count: int | None = None,
    steps: int | None = None,
    transient: int = 500,
    starts: int | State | StartStrategy = 8,
    *,
    every: int = 1,
    inputs: Float[Tensor, "time ..."] | np.ndarray | None = None,
    dt: float | None = None,
    seed: int = 0,
) -> LyapunovSpectrum:
    """The leading Lyapunov exponents along trajectories, all starts at once.

    Args:
        dynamics: the system: a map, or a flow, which is taken in Runge-Kutta steps of length `dt`.
        count: how many exponents, the largest; all by default, and at most 10 of states of more than 100 numbers.
        steps: how many steps to average over, rounded down to whole blocks; 2,000 by default, and all that follow the
            transient where inputs are given.
        transient: steps before them, in which the state comes to its attractor and the vectors to their directions.
        starts: how many random starts, states, or a strategy.
        every: steps between two orthonormalisations. More than 1 saves little time, and loses directions once the
            largest and the smallest growth of so many steps are 16 digits apart.
        inputs: a sequence (time, features) for all starts or (time, starts, features) that drives the network, instead
            of its constant input. The exponents are then those given the inputs: the largest is negative where the
            network forgets its initial state. Of a flow, each input is held for a step.
        dt: length of a step of a flow.
        seed: of the starts and of the first vectors.

    >>> import mnemoscope as ms
    >>> shear = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)  # the cat map, whose Jacobian is constant
    >>> cat = ms.Dynamics(ms.adapt(lambda x, h: (h @ shear.T) % 1, state_size=2), bounds=(0, 1))
    >>> [round(value, 4) for value in lyapunov_spectrum(cat, steps=200, starts=2).mean.tolist()]  # log (3 +- 5^.5) / 2
    [0.9624, -0.9624]

    """
    system = checked_system(dynamics, dt)
    count = _count(system, count)
    for name, value, least in (("transient", transient, 0), ("every", every, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be a whole number, {least} or more, but is {value!r}.")
    generator = seeded(seed)
    states = drawn_starts(dynamics, starts, generator)
    drive = None if inputs is None else _drive(system, inputs, len(states))
    block = _block_length(steps, transient, every, None if drive is None else len(drive))
    drawn = torch.randn(len(states), system.size, count, generator=generator, dtype=system.dtype).to(system.device)
    logs = average_growth(Tangents(system, count), states, torch.linalg.qr(drawn)[0], transient, block, every, drive)
    return LyapunovSpectrum(logs.cpu() / (dt or 1.0), BLOCKS * block, system.size, dt, drive is not None)


def average_growth(
    tangents: Tangents, x: Tensor, Q: Tensor, transient: int, block: int, every: int, drive: Tensor | None
) -> Float[Tensor, "starts blocks count"]:
    """Mean logarithm of |R_ii| per step in each block."""
    limit = FAR * max(1.0, float(x.abs().max()))
    home = x.clone()
    lost = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    logs = x.new_zeros(BLOCKS, len(x), Q.shape[2])
    with torch.no_grad():
        for time in range(transient + BLOCKS * block):
            x, Q = tangents.step(x, Q, None if drive is None else drive[time])
            now = time - transient
            if (time + 1) % every and now != -1 and (now + 1) % block:
                continue
            gone = ~(torch.isfinite(x).all(1) & torch.isfinite(Q).flatten(1).all(1) & (x.abs().amax(1) <= limit))
            if gone.any():  # one that has left is taken home, so that it cannot disturb the arithmetic of the others
                lost |= gone
                x = torch.where(gone[:, None], home, x)
                Q = torch.where(gone[:, None, None], torch.eye(*Q.shape[1:], dtype=Q.dtype, device=Q.device), Q)
            Q, R = torch.linalg.qr(Q)
            if now >= 0:
                logs[now // block] += R.diagonal(dim1=1, dim2=2).abs().log()
    logs = logs / block
    logs[:, lost] = torch.nan
    return logs.transpose(0, 1).contiguous()


def checked_system(dynamics: Dynamics, dt: float | None) -> Dynamics:
    """The system as a map, whatever it was."""
    if not isinstance(dynamics, Dynamics):
        raise TypeError(
            f"A Dynamics is needed, the network at one constant input: Dynamics(network, input), but got a "
            f"{type(dynamics).__name__}."
        )
    return in_steps(dynamics, dt)


def _count(system: Dynamics, count: int | None) -> int:
    if count is None:
        return system.size if system.size <= 100 else 10
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= system.size:
        raise ValueError(f"count must be from 1 to {system.size}, the size of the state, but is {count!r}.")
    return count


def _drive(system: Dynamics, inputs: Tensor | np.ndarray, starts: int) -> Float[Tensor, "time starts features"]:
    given = torch.as_tensor(inputs).detach().to(system.input)
    given = given[:, None] if given.dim() == 2 else given
    features = system.input.shape[-1]
    if given.dim() != 3 or given.shape[1] not in (1, starts) or given.shape[2] != features or not len(given):
        raise ValueError(
            f"The inputs must be (time, {features}) or (time, {starts}, {features}), time first and with {starts} "
            f"starts, but are {tuple(torch.as_tensor(inputs).shape)}."
        )
    if not torch.isfinite(given).all():
        raise ValueError("The inputs contain NaN or infinite values.")
    return given.expand(-1, starts, -1)


def _block_length(steps: int | None, transient: int, every: int, available: int | None) -> int:
    """Steps of a block, so that there are `BLOCKS` of them."""
    if steps is None:
        steps = 2000 if available is None else available - transient
    if available is not None and transient + steps > available:
        raise ValueError(
            f"{transient} steps of transient and {steps} after them need as many inputs, but there are {available}."
        )
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < BLOCKS * every:
        raise ValueError(
            f"At least {BLOCKS * every} steps after the transient are needed, {every} for each of {BLOCKS} blocks, but "
            f"there are {steps!r}."
        )
    return steps // BLOCKS
