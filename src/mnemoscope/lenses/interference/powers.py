"""Powers of signal and interference in the reads of one layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.lenses.exact_influence.value_path import ValuePaths, value_paths
from mnemoscope.lenses.interference.moments import ValueMoments, value_moments
from mnemoscope.lenses.interference.trials import RecallTrials


@dataclass(frozen=True)
class Powers:
    """The squared weight of every stored value in every query, times its power about the mean value."""

    energies: Float[Tensor, "queries steps"]
    """`sum_heads |M_ts (v_s - mean v_s)|^2`; 0 from the step of the query on."""
    asked_for: Bool[Tensor, "queries steps"]
    """Steps that hold the value asked for."""
    moments: ValueMoments
    """Moments of the values asked for."""
    same_sign: Float[Tensor, " queries"]
    """Power of all others whose weight has the sign of that of the value asked for."""
    all_signs: Float[Tensor, " queries"]
    """Power of all others, whatever their sign."""
    sequence: Int[Tensor, " queries"]
    """Sequence of each query."""

    def ratios(self) -> Float[Tensor, " queries"]:
        """Return the ratio of the power of the value asked for to that of all others; infinite if it is alone."""
        signal = (self.energies * self.asked_for).sum(1)
        others = (self.energies * ~self.asked_for).sum(1)
        return torch.where(signal > 0, signal / others, 0.0)

    def sign_powers(self, sequences: int) -> Float[Tensor, "sequences 2"]:
        """Return the power of the others of the same sign, and that of all of them, added up in each sequence."""
        powers = torch.stack([self.same_sign, self.all_signs], 1)
        return powers.new_zeros(sequences, 2).index_add_(0, self.sequence, powers)

    def by_step(self, asked_for: bool, sequences: int) -> Float[Tensor, "sequences steps 2"]:
        """Return the power of each step in the queries that ask for it, or in all others, and the number of these.

        Both are added up in each sequence. A step that no query comes after has no power.
        """
        counted = self.asked_for if asked_for else ~self.asked_for
        numbers = torch.stack([self.energies * counted, counted], 2)
        return numbers.new_zeros(sequences, *numbers.shape[1:]).index_add_(0, self.sequence, numbers)


def query_powers(layer: AffineLayer, trials: RecallTrials, reach: int) -> Powers:
    """Return the powers of the values of a layer in every query, in the order of time and then of sequences.

    The value asked for is that of `reach` steps from its source on.
    """
    paths = value_paths(layer)
    energies = replace(paths, values=paths.values - paths.values.mean(0)).energies().sum(1)  # (batch, time, steps)
    step, sequence = trials.asked.nonzero(as_tuple=True)
    source, steps = trials.sources[step, sequence], torch.arange(energies.shape[-1], device=step.device)
    own = (steps >= source.unsqueeze(1)) & (steps < source.unsqueeze(1) + reach)
    energies = energies[sequence, step].masked_fill(steps >= step.unsqueeze(1), 0.0)
    first = paths.values[:, :, :: paths.micro_steps]  # of each input, its first write
    moments = value_moments(first[sequence, :, source].flatten(1), sequence, trials.asked.shape[1])
    others = ~own & (steps < step.unsqueeze(1))
    signs = _sign_powers(paths, step, sequence, source, others)
    return Powers(energies.double().cpu(), own.cpu(), moments, *signs, sequence.cpu())


def _sign_powers(
    paths: ValuePaths, step: Tensor, sequence: Tensor, source: Tensor, others: Tensor
) -> tuple[Float[Tensor, " queries"], Float[Tensor, " queries"]]:
    """Return the power of other values whose weight has the sign of that of the source, and that of all others."""
    micro = paths.micro_steps
    weights = paths.matrix[sequence, :, step]  # (queries, heads, writes)
    asked_for = weights.gather(2, (source * micro).view(-1, 1, 1).expand(-1, weights.shape[1], 1))
    power = (paths.values - paths.values.mean(0)).abs().square().sum(-1)[sequence] * weights.abs().square()
    power = power * others.repeat_interleave(micro, 1).unsqueeze(1)
    same = (weights * asked_for.conj()).real > 0
    same_sign, all_signs = ((power * chosen).sum((1, 2)).double().cpu() for chosen in (same, 1))
    return same_sign, all_signs
