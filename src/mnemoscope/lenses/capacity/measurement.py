"""Measured linear memory capacity of any cell: drive it with white signals and fit linear readouts of the past ones."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.base.progress import show_slow
from mnemoscope.cells import Network, as_cell, scan
from mnemoscope.lenses.capacity.result import MemoryCapacity
from mnemoscope.lenses.fisher.sources import input_vector

FARTHEST = 30.0
"""Root mean square of the states of the second sequence in any direction that the readout uses, in units of that of the
first one. In directions beyond, a readout of the first sequence says nothing about the second."""
BLOCKS = 20
"""Number of blocks of a sequence, whose spread gives the standard errors."""


@show_slow("memory capacity")
def measure_memory_capacity(
    cell: Network,
    direction: Inexact[Tensor, " features"] | np.ndarray | int = 0,
    *,
    signal: Literal["uniform", "normal"] = "uniform",
    strength: float = 1.0,
    noise: float | Inexact[Tensor, " features"] = 0.0,
    delays: int = 100,
    steps: int = 10_000,
    washout: int = 200,
    ridge: float = 0.0,
    seed: int = 0,
) -> MemoryCapacity:
    """Drive a cell with independent signals, and recover each past signal from its outputs.

    Readouts for all delays are fitted to one sequence and evaluated on a second one. Their error is corrected for the
    number of steps that they were fitted to, so that R^2 is 0 on average where there is no memory. Delays beyond all
    memory therefore add noise to the total, which its standard error includes, but no bias.

    Args:
        cell: any network; it is copied, and run in float64.
        direction: how signals enter the inputs: the number of a feature, or a vector (features,).
        signal: distribution of the signals, of mean 0.
        strength: standard deviation of the signals.
        noise: variance of independent normal noise on the input features, one number or one for each.
        delays: length of the curve.
        steps: length of each sequence after the washout.
        washout: first steps of each sequence, which are discarded.
        ridge: regularisation that is added to the variance of the outputs; 0 for least squares.
        seed: seed of signals and noise.

    >>> from mnemoscope.cells import Elman
    >>> capacity = measure_memory_capacity(Elman(1, 8, "tanh"), strength=0.1, delays=20, steps=2000)
    >>> 1 < capacity.total < 8
    tensor(True)

    """
    frozen = as_cell(cell).time_first().frozen(torch.float64, torch.device("cpu"))
    features = frozen.input_size or (1 if isinstance(direction, int) else len(direction))
    d, deviations = input_vector(direction, features), _noise_deviations(noise, features)
    _check(signal, strength, delays, steps, washout, ridge)
    generator = torch.Generator().manual_seed(seed)
    s = strength * _draw_signals(signal, (washout + delays + steps, 2), generator)
    s = s - s.mean(0)  # a mean would be missed, or recovered, by chance at all delays together
    xs = s.unsqueeze(-1) * d
    if deviations.any():
        xs = xs + deviations * torch.randn(xs.shape, generator=generator, dtype=xs.dtype)
    with torch.no_grad():
        outputs = scan(frozen, xs)[0][-steps:]
    if not torch.isfinite(outputs).all():
        raise ValueError("The network returns NaN or infinite numbers: it is unstable under these signals.")
    past = s.unfold(0, steps, 1).flip(0)[:delays]  # (delays, sequence, steps): the signals k steps ago
    readout, parameters = _fit_readout(outputs, past[:, 0].mT, ridge)
    targets = past[:, 1].mT
    squared_errors = (targets - readout(outputs[:, 1])).square()  # (steps, delays)
    squared_errors = squared_errors / _overfitting_factor(steps, parameters)
    power = (targets - targets.mean(0)).square()
    unexplained = squared_errors.mean(0) / power.mean(0)
    curve = 1 - unexplained
    # each step's share in the error of a ratio of means
    deviation = (unexplained * power - squared_errors) / power.mean(0)
    errors, total_error = _standard_error(deviation), _standard_error(deviation.sum(1, keepdim=True))
    route = f"measured with {signal} signals over {steps} steps"
    return MemoryCapacity(curve, curve.sum(), outputs.shape[2], route, errors, total_error.item())


def _fit_readout(
    outputs: Float[Tensor, "steps 2 size"], targets: Float[Tensor, "steps delays"], ridge: float
) -> tuple[Callable[[Tensor], Tensor], float]:
    """Return the best linear readout of the first sequence with an intercept, and its effective number of parameters.

    Directions without variance beyond rounding are not used. Raises if the second sequence has states far outside.
    """
    states = outputs[:, 0]
    state_mean, target_mean = states.mean(0), targets.mean(0)
    left, scale, right = torch.linalg.svd(states - state_mean, full_matrices=False)
    kept = scale > torch.finfo(scale.dtype).eps * max(states.shape) * scale[0]
    weight = torch.where(kept, scale / (scale.square() + ridge * len(states)), 0.0)
    found = ((outputs[:, 1] - state_mean) @ right.mT).square().sum(0).sqrt()
    distance = torch.where(weight > 0, found * weight, 0.0).max()
    if distance > FARTHEST:
        raise ValueError(
            f"The network visits other states in the second of two sequences than in the first, up to {distance:.2g} "
            f"times as far from its mean in some direction, as networks with several attractors do. No linear readout "
            f"of the one can be tested on the other; try another strength, or a ridge above 0."
        )
    matrix = right.mT @ (weight.unsqueeze(1) * (left.mT @ (targets - target_mean)))
    parameters = float((weight * scale).square().sum())
    return (lambda inputs: (inputs - state_mean) @ matrix + target_mean), parameters


def _overfitting_factor(steps: int, parameters: float) -> float:
    """Return the mean square error of a fitted readout on new steps, in units of the best readout's error.

    For normal variables it is `(n - 2) / (n - p - 2)`, with n steps and p parameters.
    """
    if steps < 4 * (parameters + 2):
        raise ValueError(
            f"A readout of {parameters:.0f} numbers needs more than {steps} steps for a fair evaluation: at least four "
            f"times as many as numbers, {4 * (parameters + 2):.0f}."
        )
    return (steps - 2) / (steps - parameters - 2)


def _standard_error(terms: Float[Tensor, "steps delays"]) -> Float[Tensor, " delays"]:
    """Return the standard error of the mean over steps, from blocks long enough to be independent."""
    blocks = torch.stack([block.mean(0) for block in terms.tensor_split(BLOCKS)])
    return blocks.std(0) / BLOCKS**0.5


def _draw_signals(signal: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return independent numbers of mean 0 and variance 1."""
    if signal == "normal":
        return torch.randn(shape, generator=generator, dtype=torch.float64)
    return 12**0.5 * (torch.rand(shape, generator=generator, dtype=torch.float64) - 0.5)


def _noise_deviations(noise: float | Inexact[Tensor, " features"], features: int) -> Float[Tensor, " features"]:
    variances = torch.as_tensor(noise).detach().to(device="cpu", dtype=torch.float64)
    is_valid = ((variances >= 0) & variances.isfinite()).all()
    if variances.dim() > 1 or variances.numel() not in (1, features) or not is_valid:
        raise ValueError(f"noise must be a variance, or one for each of the {features} input features.")
    return variances.sqrt().expand(features)


def _check(signal: str, strength: float, delays: int, steps: int, washout: int, ridge: float) -> None:
    if signal not in ("uniform", "normal"):
        raise ValueError(f'signal must be "uniform" or "normal", but is {signal!r}.')
    if not (isfinite(strength) and strength > 0) or not (isfinite(ridge) and ridge >= 0):
        raise ValueError(f"strength must be positive and ridge not negative, but they are {strength} and {ridge}.")
    if delays < 1 or washout < 0 or steps < 2 * BLOCKS:
        raise ValueError(
            f"At least 1 delay, {2 * BLOCKS} steps and a washout of 0 or more are needed, but they are {delays}, "
            f"{steps} and {washout}."
        )
