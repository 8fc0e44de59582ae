"""Summaries of squared influences `I(t, s)` of the inputs s on the outputs t.

Entries after the end of a short sequence, and those with s > t, are 0. Rows do not sum to 1, since influences are not
weights of an average.
"""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int

Energies = Float[Tensor, "*batch rows time"]
"""I(t, s) for some outputs t and all inputs s."""


def by_lag(energies: Energies, rows: Int[Tensor, " rows"]) -> Float[Tensor, "*batch rows lags"]:
    """Return `I(t, t - k)` for the lags k = 0, 1, ...; 0 where there is no such input."""
    places = rows.unsqueeze(-1) - torch.arange(energies.shape[-1], device=energies.device)
    lagged = energies.gather(-1, places.clamp_min(0).expand(energies.shape))
    return lagged.masked_fill(places < 0, 0.0)


def lag_curve(
    energies: Energies, rows: Int[Tensor, " rows"], lengths: Int[Tensor, "*batch"]
) -> Float[Tensor, "*batch lags"]:
    """Return the mean of `I(t, t - k)` over the outputs t that have an input k steps before; NaN if none has."""
    time = energies.shape[-1]
    lags = torch.arange(time, device=energies.device)
    if time > 1 and torch.equal(rows, lags):  # all outputs
        return _diagonal_sums(energies) / (lengths.unsqueeze(-1) - lags).clamp_min(0)
    counted = (rows.unsqueeze(-1) >= lags) & (rows < lengths.unsqueeze(-1)).unsqueeze(-1)  # (*batch, rows, lags)
    return by_lag(energies, rows).sum(-2) / counted.sum(-2)


def _diagonal_sums(energies: Float[Tensor, "*batch time time"]) -> Float[Tensor, "*batch lags"]:
    """Return the sums along the diagonals from the main one down, of matrices that are 0 above it.

    In rows of length time + 1, the entries of a diagonal are in one column, next to entries above the main diagonal.
    """
    time = energies.shape[-1]
    flat = energies.flatten(-2)
    sums = flat[..., :-1].unflatten(-1, (time - 1, time + 1)).sum(-2)
    return torch.cat([sums[..., :1] + flat[..., -1:], sums[..., 2:].flip(-1)], -1)


def half_life(curve: Float[Tensor, "*batch lags"]) -> Float[Tensor, "*batch"]:
    """Return the first lag at which a curve is below half of its value at lag 0.

    If it never is, return the number of lags at which it is known, a lower bound; short sequences have fewer.

    >>> half_life(torch.tensor([[8.0, 6.0, 3.0], [1.0, 1.0, 1.0], [1.0, 1.0, torch.nan]])).tolist()
    [2.0, 3.0, 2.0]
    """
    lags = torch.arange(curve.shape[-1], device=curve.device)
    known = (~curve.isnan()).sum(-1, keepdim=True)
    return torch.where(curve < curve[..., :1] / 2, lags, known).amin(-1).to(curve.dtype)


def windows(
    energies: Energies, rows: Int[Tensor, " rows"], lengths: Int[Tensor, "*batch"], share: float
) -> Float[Tensor, "*batch"]:
    """Return the least number of last inputs that hold a share of the influence on an output, the mean over outputs."""
    time = energies.shape[-1]
    chunk = max(1, isqrt(time))  # sums of chunks, and of the inputs of one chunk, take less time than those of all
    whole = time // chunk * chunk
    sums = energies[..., :whole].unflatten(-1, (-1, chunk)).sum(-1)
    older = torch.cat([sums, energies[..., whole:].sum(-1, keepdim=True)], -1).cumsum(-1)
    total = older[..., -1]
    level = ((1 - share) * total).unsqueeze(-1)
    full = torch.searchsorted(older, level, right=True).clamp_max(sums.shape[-1])  # chunks that are not needed
    before = torch.where(full > 0, older.gather(-1, (full - 1).clamp_min(0)), 0.0)
    places = full * chunk + torch.arange(chunk, device=energies.device)
    inside = energies.gather(-1, places.clamp_max(time - 1)).masked_fill(places >= time, 0.0)
    unneeded = full * chunk + ((before + inside.cumsum(-1) <= level) & (places < time)).sum(-1, keepdim=True)
    return _over_rows((rows + 1 - unneeded.squeeze(-1)).to(energies.dtype), total, rows, lengths)


def participations(
    energies: Energies, rows: Int[Tensor, " rows"], lengths: Int[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    """Return `(sum_s I)^2 / sum_s I^2`, the number of inputs that share the influence on an output, as a mean."""
    total = energies.sum(-1)
    numbers = (total / torch.linalg.vector_norm(energies, dim=-1)).square()
    return _over_rows(numbers, total, rows, lengths)


def retention(energies: Energies, rows: Int[Tensor, " rows"]) -> Float[Tensor, "*batch time"]:
    """Return the influence of each input on later outputs, relative to that of the other inputs at the same lags.

    1 is an input that is remembered as well as the others; NaN if an input has no later output, or no other input has
    the same lags. The comparison at equal lags keeps the first inputs from looking weak only because they are old.

    >>> energies = torch.tensor([[1.0, 0, 0], [6.0, 1, 0], [5.0, 2, 1]])
    >>> retention(energies, torch.arange(3)).tolist()
    [3.0, 0.333..., nan]
    """
    lags = rows.unsqueeze(-1) - torch.arange(energies.shape[-1], device=energies.device)  # (rows, time)
    lagged = by_lag(energies, rows)
    known = (rows.unsqueeze(-1) >= torch.arange(energies.shape[-1], device=energies.device)).sum(0)  # inputs of a lag
    total, number = (x[..., lags.clamp_min(0)] for x in (lagged.sum(-2), known))
    compared = (lags >= 1) & (number > 1)
    others = (total - energies) / (number - 1).clamp_min(1)
    usual = others.masked_fill(~compared, 0.0).sum(-2)
    return energies.masked_fill(~compared, 0.0).sum(-2) / torch.where(usual > 0, usual, torch.nan)


def kept_for(energies: Energies, rows: Int[Tensor, " rows"]) -> Int[Tensor, "*batch time"]:
    """Return the last lag at which the influence of each input is at least half of its largest; 0 without outputs."""
    if not len(rows):
        return rows.new_zeros(*energies.shape[:-2], energies.shape[-1])
    lags = (rows.unsqueeze(-1) - torch.arange(energies.shape[-1], device=energies.device)).expand(energies.shape)
    largest = energies.amax(-2, keepdim=True)
    return lags.masked_fill((energies < largest / 2) | (lags < 0), 0).amax(-2)


def _over_rows(values: Tensor, total: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean over the outputs of each sequence that any input influences."""
    counted = (rows < lengths.unsqueeze(-1)) & (total > 0)
    return values.masked_fill(~counted, 0.0).sum(-1) / counted.sum(-1)
