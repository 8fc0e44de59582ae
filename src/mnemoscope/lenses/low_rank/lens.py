"""The lens on low-rank networks, which compares a network with its reduced dynamics."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.cells import Cell, Model, Network, run_with_cache
from mnemoscope.connectivity import LoadingMixture
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.low_rank.reduction import Projection, low_rank_cell, reduce_network, sample_mixture
from mnemoscope.lenses.low_rank.result import Reduction
from mnemoscope.lenses.whole_network import in_evaluation_mode

STARTS = 12
"""Trajectories from random latent variables."""
GRID = 25
"""Points along each axis of the flow."""


@show_slow("reduction")
@in_evaluation_mode
def measure_reduction(
    network: Network | Model | Dynamics,
    inputs: Float[Tensor, "time batch features"] | None = None,
    *,
    mixture: LoadingMixture | None = None,
    starts: Float[Tensor, "starts rank"] | Literal["adaptive"] = "adaptive",
    steps: int = 100,
    seed: int = 0,
) -> Reduction:
    """Compare a low-rank network with the exact reduction to its latent variables and with its mean field.

    All three run side by side. The flow of the latent variables and their fixed points are those at a constant input.

    Args:
        network: as in `reduce_network`; a `Dynamics` of one for a constant input other than 0.
        inputs: trials to run from the initial state, in the layout (time, batch, features). Without them trajectories
            start at random latent variables, at the constant input.
        mixture: distribution of the loadings for the mean field; by default one Gaussian population with the mean and
            covariance of the network's loadings.
        starts: latent variables at which the search for fixed points starts; see `find_fixed_points`.
        steps: length of trajectories that start at random.
        seed: seed of the random starts.

    >>> import mnemoscope as ms
    >>> mixture = LoadingMixture.from_overlaps(torch.tensor([[1.6]]))
    >>> cell = ms.cells.LeakyRNN.from_loadings(mixture.sample(500, seed=0))
    >>> sorted(ms.measure_reduction(cell).fixed_points.kind)
    ['stable', 'stable', 'unstable']

    """
    given = network.cell if isinstance(network, Dynamics) else network
    constant = network.input[0] if isinstance(network, Dynamics) else None
    cell, _ = low_rank_cell(low_rank_cell(given)[0].frozen(torch.float64))
    full = Dynamics(cell, constant)
    mixture = sample_mixture(cell.loadings()) if mixture is None else mixture
    project = Projection(cell)
    exact, mean = (reduce_network(cell, mixture=of) for of in (None, mixture))
    settled = [Dynamics(reduce_network(cell, mixture=of, settled_inputs=True), constant) for of in (None, mixture)]
    points = [find_fixed_points(system, starts, seed=seed) for system in settled]
    if inputs is None:
        extent = _extent(points[0].states, settled[0])
        first = extent * (2 * torch.rand(STARTS, exact.rank, generator=_generator(seed), dtype=torch.float64) - 1)
        states = _iterate(full, project.lift(first, cell.driven(full.input)[0]), steps)
        paths = [_iterate(system, first, steps) for system in settled]
    else:
        xs = (given.encode(inputs).detach() if isinstance(given, Model) else inputs).to(full.input)
        states = _with_initial(cell, xs)
        paths = [_with_initial(system.frozen(torch.float64), xs)[..., : exact.rank] for system in (exact, mean)]
    latents = project(states)
    grid = _grid(torch.cat([latents.flatten(0, 1), points[0].states, points[1].states]))
    return Reduction(
        size=cell.hidden_size,
        leak=cell.leak,
        form=cell.form,
        populations=len(mixture.weights),
        latents=latents,
        reduced=paths[0],
        mean_field=paths[1],
        outside=project.outside(states),
        fixed_points=points[0],
        mean_field_points=points[1],
        to_latents=project.to_latents,
        grid=grid,
        flow=settled[0].residual(grid) if len(grid) else grid,
        mean_field_flow=settled[1].residual(grid) if len(grid) else grid,
    )


def _with_initial(cell: Cell, xs: Tensor) -> Float[Tensor, "time batch size"]:
    """Return the initial state and those after each input."""
    with torch.no_grad():
        states = run_with_cache(cell, xs)[1].flat()
        return torch.cat([cell.initial_state(xs.shape[1])[None].to(states), states])


def _iterate(system: Dynamics, states: Tensor, steps: int) -> Float[Tensor, "time batch size"]:
    path = [states]
    with torch.no_grad():
        for _ in range(steps):
            path.append(system(path[-1]))
    return torch.stack(path)


def _extent(points: Tensor, system: Dynamics) -> Float[Tensor, " rank"]:
    """Return how far from 0 trajectories start: beyond the fixed points, and at most at the edge of the box."""
    reach = 1.5 * points.abs().amax() if len(points) else torch.tensor(0.0)
    reach = reach.clamp_min(1.0).expand(system.size).to(system.origin)
    return (
        reach if system.bounds is None else torch.minimum(reach, torch.maximum(*(edge.abs() for edge in system.bounds)))
    )


def _grid(latents: Float[Tensor, "points rank"]) -> Float[Tensor, "grid rank"]:
    """Return points that cover the latent variables in one or two dimensions; none in more."""
    low, high = latents.amin(0), latents.amax(0)
    margin = 0.15 * (high - low).amax().clamp_min(0.1)
    axes = [
        torch.linspace(float(a - margin), float(b + margin), GRID).to(latents) for a, b in zip(low, high, strict=True)
    ]
    return latents[:0] if len(axes) > 2 else torch.cartesian_prod(*axes).reshape(-1, len(axes))


def _generator(seed: int) -> torch.Generator:
    return seeded_generator(seed)
