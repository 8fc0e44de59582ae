"""The number of dimensions that the stored values fill."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact, Int


class ValueMoments(NamedTuple):
    """Second moments of the values asked for, by sequence."""

    powers: Float[Tensor, "sequences 2"]
    """Sum of the squared norms of the values of each sequence about the mean of all, and number of the values."""
    overlaps: Float[Tensor, "sequences sequences"]
    """Sum of the squared products of the values of two sequences."""
    size: int
    """Number of components of a value in all heads; a complex number has two."""

    def dimension(self, rows: Int[Tensor, " drawn"] | None = None) -> Float[Tensor, ""]:
        """Return the participation ratio `(trace C)^2 / trace C^2` of the covariance C, of some of the sequences.

        `trace C^2` is the mean squared product of two independent values. It is taken over values of different
        sequences: those of one sequence may be the same, and with them the ratio is too small. For that reason two
        draws of the same sequence in a resample do not count as two either. No ratio exceeds the number of components.
        """
        rows = torch.arange(len(self.powers)) if rows is None else rows
        power, number = self.powers[rows].sum(0)
        apart = (rows.unsqueeze(1) != rows).double()
        counts = torch.outer(self.powers[rows, 1], self.powers[rows, 1])
        mean_square = (self.overlaps[rows][:, rows] * apart).sum() / (counts * apart).sum()
        ratio = torch.where(power > 0, (power / number).square() / mean_square, 1.0)
        return ratio.clamp_max(self.size)


def value_moments(
    values: Inexact[Tensor, "queries size"], sequence: Int[Tensor, " queries"], sequences: int
) -> ValueMoments:
    """Return the moments of the values that queries ask for, given the sequence of each query.

    >>> planes = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).repeat(3, 1)
    >>> value_moments(planes, torch.arange(3).repeat_interleave(4), 3).dimension().item()
    2.0
    """
    centred = (torch.view_as_real(values).flatten(1) if values.is_complex() else values).double()
    centred = centred - centred.mean(0)
    empty = centred.new_zeros(sequences)
    number, power = (
        empty.index_add(0, sequence, each) for each in (torch.ones_like(centred[:, 0]), centred.square().sum(1))
    )
    overlaps = torch.stack(
        [
            empty.index_add(0, sequence, (centred @ centred[sequence == which].mT).square().sum(1))
            for which in range(sequences)
        ]
    )
    return ValueMoments(torch.stack([power, number], 1).cpu(), overlaps.cpu(), centred.shape[1])
