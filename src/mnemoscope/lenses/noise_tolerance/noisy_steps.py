"""Run a network step by step while noise enters its state."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Num
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.cells import Cell
from mnemoscope.cells.state import State, leaves, map_state, named_leaves
from mnemoscope.cells.unrolled import prepared_steps

LOGARITHM = "m"
"""Name of a tensor of the state that holds the logarithm of the scale of another one, by convention of the cells."""


@torch.no_grad()
def state_deviations(
    cell: Cell, xs: Num[Tensor, "time batch ..."]
) -> tuple[Float[Tensor, "time batch features"], list[float]]:
    """Return the outputs without noise, and the root mean square of each tensor of the state over steps and trials.

    It is 0 for tensors that receive no noise: integers, and the logarithm of a scale.
    """
    state = cell.initial_state(xs.shape[1])
    squares = [0.0 for _ in leaves(state)]
    outputs = []
    us, step = prepared_steps(cell, xs)
    for x, u in zip(xs.unbind(), us.unbind(), strict=True):
        state = step(u, state)
        outputs.append(cell.output_at(x, state))
        for place, (name, tensor) in enumerate(named_leaves(state)):
            if _takes_noise(name, tensor):
                squares[place] += float(tensor.abs().double().square().mean())
    return torch.stack(outputs), [(square / len(xs)) ** 0.5 for square in squares]


@torch.no_grad()
def run_with_noise(
    cell: Cell,
    xs: Num[Tensor, "time batch ..."],
    deviations: Sequence[float],
    levels: Sequence[float],
    seed: int,
) -> Float[Tensor, "levels time batch features"]:
    """Return the outputs at each level of noise, with the same draws at all levels.

    After every step, each number of a tensor of the state receives independent Gaussian noise whose standard deviation
    is the level times the deviation of that tensor. The output is read from the noisy state.
    """
    trials = xs.shape[1]
    generator = seeded_generator(seed)
    repeated = xs.repeat(1, len(levels), *(1,) * (xs.dim() - 2))  # the levels are further trials
    factors = torch.tensor(levels, dtype=torch.float64, device=xs.device).repeat_interleave(trials)
    state = cell.initial_state(trials * len(levels))
    outputs = []
    us, step = prepared_steps(cell, repeated)
    for x, u in zip(repeated.unbind(), us.unbind(), strict=True):
        state = _disturbed(step(u, state), deviations, factors, trials, generator)
        outputs.append(cell.output_at(x, state))
    return torch.stack(outputs).unflatten(1, (len(levels), trials)).transpose(0, 1)


def _disturbed(
    state: State,
    deviations: Sequence[float],
    factors: Float[Tensor, " batch"],
    trials: int,
    generator: torch.Generator,
) -> State:
    sizes = iter(deviations)

    def disturb(tensor: Tensor) -> Tensor:
        deviation = next(sizes)
        if not deviation:
            return tensor
        # Float64 on the CPU, so that the draws do not depend on the device.
        kind = torch.complex128 if tensor.is_complex() else torch.float64
        noise = torch.randn(trials, *tensor.shape[1:], generator=generator, dtype=kind).to(factors.device)
        size = (deviation * factors).view(-1, *(1,) * (tensor.dim() - 1))
        return tensor + (size * noise.repeat(len(factors) // trials, *(1,) * (tensor.dim() - 1))).to(tensor)

    return map_state(disturb, state)


def _takes_noise(name: str, tensor: Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and name.rpartition(".")[2] != LOGARITHM
