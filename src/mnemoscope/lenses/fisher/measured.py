"""Linear memory capacity of any cell, measured: white signals in, the best linear readout of each past one."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Cell, Model, adapt, scan
from mnemoscope.lenses.fisher.capacity import MemoryCapacity

BLOCKS = 20
"""Pieces of a sequence, whose spread gives the standard errors."""


def measure_memory_capacity(
    cell: Cell | nn.Module,
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
    """Drive a cell with independent signals, and recover each past one from what it gives out.

    Two sequences are run. Readouts are fitted to one, for all delays at once, and judged by the
    other, and what they miss is corrected for the steps that they were fitted to: where there is no memory, R^2 is 0 on
    average. So delays beyond all memory add no bias to the total, but noise, which its error tells.

    Args:
        cell: a `Cell` or a torch.nn recurrent module; it is copied, and run in float64.
        direction: how signals enter the inputs: the number of a feature, or a vector (features,).
        signal: their distribution, of mean 0.
        strength: their standard deviation.
        noise: variance of independent normal noise on the input features, one number or one for each.
        delays: length of the curve.
        steps: of each sequence, after the washout.
        washout: steps that are not looked at.
        ridge: added to the variance of what the cell gives out; 0: least squares.
        seed: of signals and noise.

    >>> from mnemoscope.cells import Elman
    >>> capacity = measure_memory_capacity(Elman(1, 8, "tanh"), strength=0.1, delays=20, steps=2000)
    >>> 1 < capacity.total < 8
    tensor(True)

    """
    frozen = _frozen(cell)
    features = frozen.input_size or (1 if isinstance(direction, int) else len(direction))
    d, deviations = _direction(direction, features), _deviations(noise, features)
    _check(signal, strength, delays, steps, washout, ridge)
    generator = torch.Generator().manual_seed(seed)
    s = strength * _drawn(signal, (washout + delays + steps, 2), generator)
    s = s - s.mean(0)  # else it would be missed, or recovered, by chance, for all delays at once
    xs = s.unsqueeze(-1) * d
    if deviations.any():
        xs = xs + deviations * torch.randn(xs.shape, generator=generator, dtype=xs.dtype)
    with torch.no_grad():
        outputs = scan(frozen, xs)[0][-steps:]
    if not torch.isfinite(outputs).all():
        raise ValueError("The network gives out NaN or infinite numbers: it is unstable under these signals.")
    past = s.unfold(0, steps, 1).flip(0)[:delays]  # (delays, sequence, steps): the signals k steps ago
    readout, free = _fit(outputs[:, 0], past[:, 0].mT, ridge)
    judged = past[:, 1].mT
    misses, power = (judged - readout(outputs[:, 1])).square(), (judged - judged.mean(0)).square()  # (steps, delays)
    misses = misses / _by_chance(steps, free)
    missed = misses.mean(0) / power.mean(0)
    curve = 1 - missed
    moved = (missed * power - misses) / power.mean(0)  # what each step contributes to the error of a quotient of means
    errors, total_error = _standard_error(moved), _standard_error(moved.sum(1, keepdim=True))
    words = f"measured with {signal} signals over {steps} steps"
    return MemoryCapacity(curve, curve.sum(), outputs.shape[2], words, errors, total_error.item())


def _fit(
    states: Float[Tensor, "steps size"], targets: Float[Tensor, "steps delays"], ridge: float
) -> tuple[Callable[[Tensor], Tensor], float]:
    """The best linear readout with an intercept, and how many numbers it was free to choose; directions
    without variance beyond rounding are left alone.
    """
    centre, middle = states.mean(0), targets.mean(0)
    left, scale, right = torch.linalg.svd(states - centre, full_matrices=False)
    kept = scale > torch.finfo(scale.dtype).eps * max(states.shape) * scale[0]
    weight = torch.where(kept, scale / (scale.square() + ridge * len(states)), 0.0)
    readout = right.mT @ (weight.unsqueeze(1) * (left.mT @ (targets - middle)))
    return (lambda seen: (seen - centre) @ readout + middle), float((weight * scale).square().sum())


def _by_chance(steps: int, free: float) -> float:
    """Mean square of what a readout misses that was fitted to so many independent steps with so many free numbers, in
    units of what the best one misses: of normal numbers, `(n - 2) / (n - p - 2)`.
    """
    if steps < 4 * (free + 2):
        raise ValueError(
            f"A readout of {free:.0f} numbers needs more than {steps} steps to be judged fairly: at least four times "
            f"as many as numbers, {4 * (free + 2):.0f}."
        )
    return (steps - 2) / (steps - free - 2)


def _standard_error(terms: Float[Tensor, "steps delays"]) -> Float[Tensor, " delays"]:
    """Of the mean over the steps, which are not independent but in pieces that are long enough."""
    blocks = torch.stack([piece.mean(0) for piece in terms.tensor_split(BLOCKS)])
    return blocks.std(0) / BLOCKS**0.5


def _drawn(signal: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Independent numbers of mean 0 and variance 1."""
    if signal == "normal":
        return torch.randn(shape, generator=generator, dtype=torch.float64)
    return 12**0.5 * (torch.rand(shape, generator=generator, dtype=torch.float64) - 0.5)


def _frozen(cell: Cell | nn.Module) -> Cell:
    if isinstance(cell, Model):
        raise TypeError("A Model reads its cell out; look at the cell itself: model.cell.")
    return adapt(cell).frozen(torch.float64, torch.device("cpu"))


def _direction(direction: Inexact[Tensor, " features"] | np.ndarray | int, features: int) -> Float[Tensor, " features"]:
    if isinstance(direction, int):
        if not 0 <= direction < features:
            raise ValueError(f"There are {features} input features, numbered from 0, but direction is {direction}.")
        return torch.eye(features, dtype=torch.float64)[direction]
    d = torch.as_tensor(direction).detach().to(device="cpu", dtype=torch.float64)
    if d.shape != (features,) or not torch.isfinite(d).all() or not d.any():
        raise ValueError(
            f"direction must be {features} finite numbers, not all of them 0, but has the shape {tuple(d.shape)}: it "
            f"lies in the space of the inputs."
        )
    return d


def _deviations(noise: float | Inexact[Tensor, " features"], features: int) -> Float[Tensor, " features"]:
    variances = torch.as_tensor(noise).detach().to(device="cpu", dtype=torch.float64)
    if (
        variances.dim() > 1
        or variances.numel() not in (1, features)
        or not ((variances >= 0) & variances.isfinite()).all()
    ):
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
