"""Measured linear memory capacity of any cell: drive it with white signals and fit linear readouts of the past ones."""

from __future__ import annotations

from math import inf, isfinite
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.base.plurals import pluralise
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Network, as_cell, scan
from mnemoscope.lenses.capacity.result import MemoryCapacity
from mnemoscope.lenses.fisher.sources import input_vector

FARTHEST = 30.0
"""Root mean square of the evaluated states in any direction that the readout uses, in units of that of the fitted ones.
In directions beyond, the fitted states say nothing about the evaluated ones."""
GROWTH = 1e6
"""Growth of the outputs between the halves of the steps above which a network counts as unstable."""
RIDGES = (0.0, *(10.0**exponent for exponent in range(-10, 1)), inf)
"""Candidates of a ridge that is chosen, in units of the mean variance of the outputs; `inf` predicts the mean."""
DIFFERENT = 4.0
"""Largest ratio of the errors on other steps and on those of the fit that is taken as overfitting. It is 16 / 9 for
independent steps, if there are the least allowed, four for each number."""
BLOCKS = 20
"""Number of blocks of the evaluated steps, whose spread gives the standard errors."""


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
    sequences: int = 1,
    ridge: float | None = 0.0,
    seed: int = 0,
) -> MemoryCapacity:
    """Drive a cell with independent signals, and recover each past signal from its outputs.

    Readouts for all delays are fitted to one sequence, or to several, and evaluated on as many others. They are
    overfitted: their error is too small on the steps of the fit, and too large by as much on the others. R^2 is 1 less
    the geometric mean of the two errors, so that it is 0 on average where there is no memory, whether or not successive
    states are independent. Delays beyond all memory therefore add noise to the total, but hardly any bias
    (`benchmarks/memory_capacity.py` measures it).

    The total is the sum over these delays: a network that remembers longer has more. Its standard error comes from
    blocks of a twentieth of the steps, and is too small if many more delays than that are summed.

    A network with several attractors, or one whose state keeps changing for thousands of steps, visits other states in
    one long sequence than in another. Many short sequences cover them, and a ridge keeps a readout from directions
    that hardly vary.

    Args:
        cell: any network; it is copied, and run in float64.
        direction: how signals enter the inputs: the number of a feature, or a vector (features,).
        signal: distribution of the signals, of mean 0.
        strength: standard deviation of the signals.
        noise: variance of independent normal noise on the input features, one number or one for each.
        delays: length of the curve.
        steps: length of each sequence after the washout.
        washout: first steps of each sequence, which are discarded.
        sequences: number of sequences to which readouts are fitted, and on which they are evaluated.
        ridge: regularisation that is added to the variance of the outputs; 0 for least squares. None: chosen for each
            delay among `RIDGES`, by the error on further sequences, as many again.
        seed: seed of signals and noise.

    >>> from mnemoscope.cells import Elman
    >>> capacity = measure_memory_capacity(Elman(1, 8, "tanh"), strength=0.1, delays=20, steps=2000)
    >>> 1 < capacity.total < 8
    tensor(True)

    """
    frozen = as_cell(cell).time_first().frozen(torch.float64, torch.device("cpu"))
    features = frozen.input_size or (1 if isinstance(direction, int) else len(direction))
    d, deviations = input_vector(direction, features), _noise_deviations(noise, features)
    _check(signal, strength, delays, steps, washout, sequences, ridge)
    generator, groups = seeded_generator(seed), 2 if ridge is not None else 3
    drawn = _draw_signals(signal, (washout + delays + steps, groups * sequences), generator)
    s = strength * drawn.unflatten(1, (groups, sequences))  # (time, group, sequence)
    s = s - s.mean((0, 2), keepdim=True)  # a mean would be missed, or recovered, by chance at all delays together
    xs = s.flatten(1).unsqueeze(-1) * d
    if deviations.any():
        xs = xs + deviations * torch.randn(xs.shape, generator=generator, dtype=xs.dtype)
    with torch.no_grad():
        outputs = scan(frozen, xs)[0][-steps:]
    first, second = (half.square().mean().sqrt() for half in outputs.tensor_split(2))
    if not torch.isfinite(outputs).all():
        raise ValueError("The network is unstable under these signals: it returns NaN or infinite numbers.")
    if second > GROWTH * first > 0:
        raise ValueError(
            f"The network is unstable under these signals: its outputs are more than {GROWTH:g} times as large in the "
            f"second half of the steps as in the first."
        )
    # The rows of each group: all steps of its first sequence, then those of the next.
    states = outputs.unflatten(1, (groups, sequences)).permute(1, 2, 0, 3).flatten(1, 2)  # (group, row, size)
    past = s.unfold(0, steps, 1).flip(0)[:delays]  # (delays, group, sequence, steps): the signals k steps ago
    targets = past.permute(1, 2, 3, 0).flatten(1, 2)  # (group, row, delays)
    readouts = _Readouts(states[0], targets[0])
    if ridge is None:
        ridges = readouts.chosen_ridges(states[2], targets[2])
    else:
        ridges = torch.full((delays,), ridge, dtype=torch.float64)
        readouts.check_distance(states[1], ridges)
    parameters, share = readouts.parameters(ridges)
    _check_steps(steps * sequences, parameters)
    fitted, fitted_deviation = _unexplained(targets[0], readouts(states[0], ridges))
    tested, tested_deviation = _unexplained(targets[1], readouts(states[1], ridges))
    unexplained = _without_overfitting(fitted, tested, share)
    curve = 1 - unexplained
    tiny = torch.finfo(torch.float64).tiny  # a readout without error has no deviations either
    deviation = share / 2 * fitted_deviation / fitted.clamp_min(tiny)
    deviation = unexplained * (deviation + (1 - share / 2) * tested_deviation / tested.clamp_min(tiny))
    errors, total_error = _standard_error(deviation), _standard_error(deviation.sum(1, keepdim=True))
    route = f"measured with {signal} signals over {steps} steps" + (f" x {sequences}" if sequences > 1 else "")
    return MemoryCapacity(curve, curve.sum(), outputs.shape[2], route, errors, total_error.item())


class _Readouts:
    """Linear readouts with an intercept, one for each delay, fitted by ridge regression.

    Directions without variance beyond rounding are not used.
    """

    def __init__(self, states: Float[Tensor, "rows size"], targets: Float[Tensor, "rows delays"]) -> None:
        self._state_mean, self._target_mean = states.mean(0), targets.mean(0)
        left, self._scale, self._right = torch.linalg.svd(states - self._state_mean, full_matrices=False)
        self._kept = self._scale > torch.finfo(self._scale.dtype).eps * max(states.shape) * self._scale[0]
        self._projected = left.mT @ (targets - self._target_mean)  # (size, delays)
        self._rows = len(states)

    def __call__(
        self, states: Float[Tensor, "rows size"], ridges: Float[Tensor, " delays"]
    ) -> Float[Tensor, "rows delays"]:
        """Return what the readouts recover from states."""
        return self._predict(states - self._state_mean, self._weight(ridges))

    def parameters(self, ridges: Float[Tensor, " delays"]) -> tuple[Float[Tensor, " delays"], Float[Tensor, " delays"]]:
        """Return the effective numbers of parameters, `tr H^2`, and their share in `tr H`, H the hat matrix."""
        hat = self._weight(ridges) * self._scale.unsqueeze(1)  # its eigenvalues, from 0 to 1
        number = hat.square().sum(0)
        return number, torch.where(number > 0, number / hat.sum(0), 0.0)

    def check_distance(self, states: Float[Tensor, "rows size"], ridges: Float[Tensor, " delays"]) -> None:
        """Raise if the states are far outside of those of the fit, in a direction that a readout uses."""
        weight = self._weight(ridges)
        found = ((states - self._state_mean) @ self._right.mT).square().sum(0).sqrt().unsqueeze(1)
        distance = torch.where(weight > 0, found * weight, 0.0).max()
        if distance > FARTHEST:
            raise ValueError(
                f"The network visits other states in the second of two sequences than in the first, up to "
                f"{distance:.2g} times as far from its mean in some direction, as networks with several attractors do. "
                f"No linear readout of the one can be tested on the other; try more sequences, another strength, or a "
                f"ridge above 0 or chosen (None)."
            )

    def chosen_ridges(
        self, states: Float[Tensor, "rows size"], targets: Float[Tensor, "rows delays"]
    ) -> Float[Tensor, " delays"]:
        """Return the ridge of each delay whose readout has the smallest error on these states."""
        unit = self._scale.square().sum() / (self._rows * len(self._scale))
        candidates = torch.tensor(RIDGES, dtype=unit.dtype)
        candidates[:-1] *= unit  # which may be 0
        far = states - self._state_mean
        weights = (self._weight(ridge.expand(targets.shape[1])) for ridge in candidates)
        errors = torch.stack([(targets - self._predict(far, weight)).square().mean(0) for weight in weights])
        return candidates[errors.argmin(0)]

    def _weight(self, ridges: Float[Tensor, " delays"]) -> Float[Tensor, "size delays"]:
        scale = self._scale.unsqueeze(1)
        return torch.where(self._kept.unsqueeze(1), scale / (scale.square() + ridges * self._rows), 0.0)

    def _predict(self, far: Float[Tensor, "rows size"], weight: Float[Tensor, "size delays"]) -> Tensor:
        return far @ (self._right.mT @ (weight * self._projected)) + self._target_mean


def _check_steps(steps: int, parameters: Float[Tensor, " delays"]) -> None:
    most = float(parameters.max())
    if steps < 4 * (most + 2):
        raise ValueError(
            f"A readout of {most:.0f} numbers needs more than {steps} steps for a fair evaluation: at least four "
            f"times as many as numbers, {4 * (most + 2):.0f}."
        )


def _unexplained(
    targets: Float[Tensor, "rows delays"], predicted: Float[Tensor, "rows delays"]
) -> tuple[Float[Tensor, " delays"], Float[Tensor, "rows delays"]]:
    """Return the share of the variance that is not recovered, and each step's share in the error of that ratio."""
    squared_errors, power = (targets - predicted).square(), targets.square()
    unexplained = squared_errors.mean(0) / power.mean(0)
    return unexplained, (unexplained * power - squared_errors) / power.mean(0)


def _without_overfitting(
    fitted: Float[Tensor, " delays"], tested: Float[Tensor, " delays"], share: Float[Tensor, " delays"]
) -> Float[Tensor, " delays"]:
    """Return the error of the best readout, given the errors on the steps of the fit and on others.

    With least squares, w for the best readout and C the covariance of the states, a fitted readout w + d has the error
    `e - d^T C d` on the steps of the fit and `e + d^T C d` on others, up to higher orders, whatever the correlations of
    d, of the states and of the errors of the best readout. For n independent normal rows and p numbers the two are
    `e (1 - p/n)` and `e / (1 - p/n)`, whose geometric mean is e.

    A ridge shrinks: of the difference `2 e tr(H) / n` of the two errors, only `e tr(H^2) / n` is overfitting. `share`
    is the ratio of these traces. An error on other steps of more than `DIFFERENT` times that of the fit is not
    overfitting alone, as the network then does something else there.
    """
    return tested * (fitted / tested).clamp_min(1 / DIFFERENT).nan_to_num(1.0) ** (share / 2)


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


def _check(
    signal: str, strength: float, delays: int, steps: int, washout: int, sequences: int, ridge: float | None
) -> None:
    if signal not in ("uniform", "normal"):
        raise ValueError(f'signal must be "uniform" or "normal", but is {signal!r}.')
    check_whole(1, sequences=sequences, delays=delays)
    check_whole(2, steps=steps)
    check_whole(0, washout=washout)
    if not (isfinite(strength) and strength > 0) or not (ridge is None or (isfinite(ridge) and ridge >= 0)):
        raise ValueError(f"strength must be positive and ridge not negative, but they are {strength} and {ridge}.")
    if steps * sequences < 2 * BLOCKS:
        raise ValueError(
            f"At least {2 * BLOCKS} steps of all sequences together are needed, but there are {steps} steps of "
            f"{pluralise(sequences, 'sequence')}."
        )
