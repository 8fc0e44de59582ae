"""Variance of each unit that one condition explains beyond the others, with a permutation test."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int


def unique_variance(
    values: Float[Tensor, "trials units"],
    tested: Float[Tensor, "trials columns"],
    others: Float[Tensor, "trials more"],
    shuffles: int,
    generator: torch.Generator,
) -> tuple[Float[Tensor, " units"], Float[Tensor, " units"]]:
    """Return omega squared of the tested columns beyond the others, and its probability under permutations.

    Omega squared is the share of all variance that the tested columns add, corrected so that chance is 0. What the
    other columns leave of the values is permuted between trials (Freedman & Lane 1983). Both are NaN if the columns
    cannot be separated from the others, or if no degree of freedom is left.
    """
    base = _basis(torch.cat([torch.ones(len(values), 1, dtype=torch.float64), others], 1))
    added = _basis(tested - base @ (base.T @ tested))
    freedom, left = added.shape[1], len(values) - base.shape[1] - added.shape[1]
    if freedom == 0 or left <= 0:
        unknown = torch.full((values.shape[1],), torch.nan, dtype=torch.float64)
        return unknown, unknown.clone()
    rest = values - base @ (base.T @ values)
    total = ((values - values.mean(0)) ** 2).sum(0)

    def ratio(residual: Tensor) -> tuple[Tensor, Tensor]:
        residual = residual - base @ (base.T @ residual)
        explained = ((added.T @ residual) ** 2).sum(0)
        error = ((residual**2).sum(0) - explained).clamp_min(0) / left
        return explained, error

    explained, error = ratio(rest)
    observed = explained / error
    reached = torch.ones(values.shape[1], dtype=torch.float64)
    for _ in range(shuffles):
        sums, errors = ratio(rest[torch.randperm(len(rest), generator=generator)])
        reached += (sums / errors >= observed * (1 - 1e-12)).double()  # equal but for rounding
    constant = rest.square().sum(0) <= 1e-20 * values.square().sum(0)
    share = (explained - freedom * error) / (total + error)
    probability = reached / (shuffles + 1)
    return share.masked_fill(constant, torch.nan), probability.masked_fill(constant, torch.nan)


def dummy_columns(levels: Int[Tensor, " trials"]) -> Float[Tensor, "trials levels"]:
    """Return a column of zeros and ones for each level."""
    return torch.nn.functional.one_hot(levels).double()


def _basis(columns: Float[Tensor, "trials columns"]) -> Float[Tensor, "trials rank"]:
    """Return an orthonormal basis of the space of the columns."""
    left, lengths, _ = torch.linalg.svd(columns, full_matrices=False)
    return left[:, lengths > 1e-9 * max(1.0, len(columns) ** 0.5)]


def false_discovery(probabilities: Float[Tensor, "*batch units"], rate: float) -> Tensor:
    """Return which units remain at a false discovery rate (Benjamini & Hochberg 1995); NaN never does.

    >>> false_discovery(torch.tensor([0.01, 0.02, 0.04, 0.9]), 0.05).tolist()
    [True, True, False, False]
    """
    known = ~probabilities.isnan()
    ordered, order = probabilities.nan_to_num(nan=2.0).sort(-1)
    number = known.sum(-1, keepdim=True)
    ranks = torch.arange(1, probabilities.shape[-1] + 1)
    passed = ordered <= rate * ranks / number.clamp_min(1)
    last = (passed * ranks).amax(-1, keepdim=True)  # all up to the last that passes
    kept = ranks <= last
    return torch.zeros_like(known).scatter(-1, order, kept)
