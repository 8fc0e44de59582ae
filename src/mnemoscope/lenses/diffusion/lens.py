"""The diffusion lens: the spread of a held value by noise, from left tangent vectors and by simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_type, check_whole, is_number
from mnemoscope.cells import Network
from mnemoscope.drawing.projection import to_array
from mnemoscope.lenses.attractors.composition import as_map
from mnemoscope.lenses.bootstrap import bootstrap_interval
from mnemoscope.lenses.diffusion.result import Diffusion
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.starts import advance
from mnemoscope.lenses.slow_manifold.curve import Curve
from mnemoscope.lenses.slow_manifold.drift import left_tangents
from mnemoscope.lenses.slow_manifold.result import SlowManifold
from mnemoscope.lenses.slow_manifold.view import View


@show_slow("diffusion")
def measure_diffusion(
    dynamics: Dynamics | Network,
    memory: SlowManifold,
    noise: float | Float[Tensor, "size size"],
    *,
    delays: Sequence[int] = (10, 20, 50, 100),
    trials: int = 400,
    relax: int | None = None,
    seed: int = 0,
) -> Diffusion:
    """Measure how noise in the state spreads the value that a network holds on a line or ring.

    The variance of the position grows as 2 D t. In linear theory, noise of covariance C per step has D = l^T C l / 2 at
    each point, where l is the left tangent vector there: the derivative of the place at which a perturbed state
    settles. It is the tangent itself if the network is normal, and longer if noise in other directions is carried into
    the memory. A simulation checks it: noisy copies of the network are compared with noiseless ones.

    Args:
        dynamics: the system in which the manifold was found.
        memory: a line or ring of `find_slow_manifold`.
        noise: standard deviation of independent noise in every number of the state and step, or the covariance of the
            noise of a step: of noise in the input, B C B^T.
        delays: steps after which the variance is measured, in rising order.
        trials: simulated copies, which begin at random states of the manifold.
        relax: steps without noise after which the position of a state is read; by default half of those for which the
            states of the manifold settled. They should be many compared with the decay of other directions, and few
            compared with the drift.
        seed: seed of starts and noise.

    """
    dynamics = as_dynamics(dynamics)
    check_type(SlowManifold, "a line or ring of find_slow_manifold", memory=memory)
    if not memory or not len(memory.curve):
        raise ValueError(
            f"Diffusion is measured along a line or ring, but this slow manifold is {memory.topology!r}. On a surface "
            f"SlowManifold.diffusion sums over its directions."
        )
    if memory.window > 1:
        raise ValueError("This network oscillates around the value that it holds, which the theory does not describe.")
    check_whole(2, trials=trials)
    times = sorted({int(delay) for delay in delays})
    for delay in times or [0]:
        check_whole(1, delays=delay)
    steps = max(1, memory.settling // 2) if relax is None else relax
    check_whole(1, relax=steps)
    view = View(as_map(dynamics, memory.dt))
    factor, covariance = _noise(noise, view.system)
    curve = Curve(memory.curve.numpy(), closed=memory.topology == "ring")
    members = memory.states[memory.group == 0].to(view.system.origin)
    generator = seeded_generator(seed)
    left = _left_tangents(view, members, curve, steps)
    local = 0.5 * torch.einsum("ni,ij,nj->n", left, covariance, left)
    chosen = torch.randint(len(members), (trials,), generator=generator)
    squares = _simulated(view, members[chosen.to(members.device)], curve, factor, times, steps, generator)
    t = torch.tensor(times, dtype=torch.float64)
    slopes = 0.5 * squares @ t / t.square().sum()  # least squares through the origin, for each trial
    low, high = bootstrap_interval(squares)
    slope_low, slope_high = bootstrap_interval(slopes)
    return Diffusion(
        positions=torch.from_numpy(curve.project(to_array(members))[0]),
        local=local.cpu().double(),
        predicted=float(local[chosen.to(local.device)].mean()),
        measured=float(slopes.mean()),
        measured_low=float(slope_low),
        measured_high=float(slope_high),
        delays=tuple(times),
        variance=squares.mean(0),
        variance_low=low,
        variance_high=high,
        noise=float(covariance.diagonal().mean().sqrt()),
        range=curve.length,
        ring=curve.closed,
        trials=trials,
        relax=steps,
        dt=memory.dt,
    )


def _noise(noise: float | Tensor, system: Dynamics) -> tuple[Tensor, Tensor]:
    """Return a factor F and the covariance F F^T of the noise of a step."""
    eye = torch.eye(system.size, dtype=system.dtype, device=system.device)
    if not isinstance(noise, Tensor):
        if not is_number(noise) or not 0 < noise < float("inf"):
            raise ValueError(f"noise must be a positive number or a covariance (size, size), but is {noise!r}.")
        return noise * eye, noise**2 * eye
    covariance = noise.detach().to(eye)
    if covariance.shape != eye.shape or not torch.allclose(covariance, covariance.T):
        raise ValueError(
            f"The covariance of the noise must be symmetric with shape {tuple(eye.shape)}, but its shape is "
            f"{tuple(noise.shape)}."
        )
    powers, vectors = torch.linalg.eigh(covariance)
    if float(powers.min()) < -1e-9 * float(powers.max()) or not float(powers.max()) > 0:
        raise ValueError("The covariance of the noise has negative eigenvalues, or none above 0.")
    return vectors * powers.clamp_min(0).sqrt(), covariance


def _left_tangents(view: View, states: Tensor, curve: Curve, relax: int) -> Float[Tensor, "states size"]:
    """Return the left tangent vectors l with l^T t = 1, from which the drift within the steps `relax` cancels."""
    tangents = torch.from_numpy(curve.project(to_array(states))[1].copy()).to(states)
    left = left_tangents(view, states, lambda settled: curve.project(settled)[1][:, None], relax)[:, 0]
    return left / (left * tangents).sum(1, keepdim=True)


@torch.no_grad()
def _simulated(
    view: View,
    states: Float[Tensor, "trials size"],
    curve: Curve,
    factor: Tensor,
    times: list[int],
    relax: int,
    generator: torch.Generator,
) -> Float[Tensor, "trials delays"]:
    """Return the squared distance along the curve between noisy and noiseless copies, after each delay."""
    noisy, quiet, squares = states, states, []
    for step in range(1, times[-1] + 1):
        drawn = torch.randn(states.shape, generator=generator, dtype=torch.float64).to(states)
        noisy, quiet = view.system(noisy) + drawn @ factor.T, view.system(quiet)
        if step in times:
            ends = [curve.project(to_array(advance(view.system, end, relax)))[0] for end in (noisy, quiet)]
            squares.append(curve.difference(*ends) ** 2)
    return torch.from_numpy(np.stack(squares, 1))
