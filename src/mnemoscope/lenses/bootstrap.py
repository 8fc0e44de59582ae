"""Confidence intervals over sequences: the bootstrap for any statistic, and Wilson's interval for a share."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole, is_number

DRAWS = 1000
"""Resamples of an interval by default."""
LEVEL = 0.95
"""Confidence of an interval by default."""
MOST_ELEMENTS = 2**24
"""Size of the largest tensor of which torch computes quantiles."""

Interval = tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]
"""Lower and upper edge."""


def bootstrap_interval(
    samples: Tensor | tuple[Tensor, ...],
    statistic: Callable[..., Tensor] | None = None,
    *,
    draws: int = DRAWS,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """Return the percentile bootstrap interval of a statistic, with sequences as the unit that is drawn again.

    Sequences are independent, while the steps of one sequence are not: resample sequences, never steps. The interval
    describes the scatter between sequences alone; networks trained with other seeds scatter more. A single sequence
    has no scatter, so that its interval is NaN. Intervals of few sequences are too narrow: they do not reach beyond the
    smallest and the largest value, between which three values hold the median of all sequences in 75% of cases. For a
    share that may be 0 or 1, such as that of prompts, use `wilson_interval`: all resamples of equal values are equal,
    and the bootstrap would return a single point.

    Args:
        samples: values with sequences along the first dimension, or a tuple of such tensors with the same sequences.
        statistic: maps resampled values, one argument for each tensor, to a tensor of any shape. By default the mean
            over the sequences for which a value is known, i.e. not NaN.
        draws: number of resamples.
        level: confidence of the interval, from 0 to 1.
        seed: seed of the resamples.

    >>> values = torch.arange(100.0, dtype=torch.float64)
    >>> low, high = bootstrap_interval(values)
    >>> low.round().item(), high.round().item()  # 49.5 -+ 2 standard errors of 2.9
    (44.0, 55.0)

    """
    check_whole(1, draws=draws)
    _check_level(level)
    parts = samples if isinstance(samples, tuple) else (samples,)
    number = parts[0].shape[0] if parts[0].dim() else 0
    if number < 1 or any(part.dim() == 0 or part.shape[0] != number for part in parts):
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(
            f"Samples have the sequences along their first dimension, at least one and the same in all tensors, but "
            f"their shapes are {shapes}."
        )
    rows = _resampled_rows(number, draws, seed)
    if statistic is None:
        drawn = _resampled_means(parts[0], rows)
    else:
        drawn = torch.stack([statistic(*(part[chosen.to(part.device)] for part in parts)) for chosen in rows]).double()
    if number == 1:
        drawn = torch.full_like(drawn, torch.nan)
    return interval_of_draws(drawn, level)


def ratio_interval(
    numerators: Float[Tensor, " sequences *shape"], denominators: Float[Tensor, " sequences *shape"]
) -> Interval:
    """Return the bootstrap interval of the quotient of two sums over sequences, without a loop over resamples.

    >>> values = torch.arange(100.0, dtype=torch.float64)
    >>> low, high = ratio_interval(values, torch.ones_like(values))
    >>> low.round().item(), high.round().item()
    (44.0, 55.0)
    """
    rows = _resampled_rows(len(numerators), DRAWS, 0)
    drawn = _resampled_means(numerators, rows) / _resampled_means(denominators, rows)
    return interval_of_draws(drawn if len(numerators) > 1 else torch.full_like(drawn, torch.nan))


def interval_of_draws(drawn: Float[Tensor, " draws *shape"], level: float = LEVEL) -> Interval:
    """Return the quantiles between which this share of the draws lies, where NaN does not count; for any size.

    >>> low, high = interval_of_draws(torch.arange(101.0), 0.9)
    >>> low.item(), high.item()
    (5.0, 95.0)
    """
    edges = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=drawn.dtype, device=drawn.device)
    columns = drawn.reshape(len(drawn), -1).split(max(1, MOST_ELEMENTS // len(drawn)), 1)
    low, high = torch.cat([torch.nanquantile(part, edges, dim=0) for part in columns], 1).reshape(2, *drawn.shape[1:])
    return low, high


def wilson_interval(successes: Any, trials: Any, *, level: float = LEVEL) -> Interval:
    """Return the confidence interval of a share of independent trials (Wilson 1927); it is never a single point.

    >>> low, high = wilson_interval(torch.tensor([0, 10]), 10)
    >>> low.tolist(), high.tolist()
    ([0.0, 0.722...], [0.277..., 1.0])

    """
    _check_level(level)
    z, n = NormalDist().inv_cdf((1 + level) / 2), torch.as_tensor(trials, dtype=torch.float64)
    p = torch.as_tensor(successes, dtype=torch.float64) / n
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (p * (1 - p) / n + z**2 / (4 * n**2)).sqrt()
    low, high = (middle - half).clamp_min(0), (middle + half).clamp_max(1)
    return torch.minimum(low, p), torch.maximum(high, p)  # rounding may exclude p


def widen_certain(interval: Interval, mean: Float[Tensor, "*shape"], sequences: Any) -> Interval:
    """Return the interval of a share over sequences, with that of Wilson where the share is 0 or 1.

    All sequences then have the same share, and the bootstrap returns a point. Wilson's interval counts each sequence as
    one trial, although it has several steps: they are not independent. It stays unknown for a single sequence.

    >>> values = torch.tensor([[1.0, 0.5], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    >>> low, high = widen_certain(bootstrap_interval(values), values.mean(0), len(values))
    >>> low.tolist(), high.tolist()
    ([0.438..., 0.0], [1.0, 1.0])

    """
    trials = torch.as_tensor(sequences, dtype=torch.float64).clamp_min(1)
    certain = (mean == 0) | (mean == 1)
    wide = wilson_interval(mean * trials, trials)
    low, high = (torch.where(certain & ~edge.isnan(), new, edge) for edge, new in zip(interval, wide, strict=True))
    return low, high


def _resampled_rows(number: int, draws: int, seed: int) -> Int[Tensor, "draws number"]:
    """Draw so many resamples of numbered sequences."""
    return torch.randint(number, (draws, number), generator=seeded_generator(seed))


def _resampled_means(values: Tensor, rows: Tensor) -> Tensor:
    """Return the mean of each resample over its known values, as a product with the numbers of draws of each row."""
    values = values.double()
    counts = torch.zeros(rows.shape, dtype=torch.float64)
    counts.scatter_add_(1, rows, torch.ones_like(counts))
    counts, flat = counts.to(values.device), values.reshape(len(values), -1)
    if flat.isinf().any():
        raise ValueError(
            "Samples contain infinite values, which have no mean; NaN stands for a value that is not known."
        )
    known = ~flat.isnan()
    means = counts @ torch.where(known, flat, 0) / (counts @ known.double())  # NaN where no value is known
    return means.reshape(len(rows), *values.shape[1:])


def _check_level(level: float) -> None:
    if not is_number(level) or not 0 < level < 1:
        raise ValueError(f"level must be a number between 0 and 1, but is {level!r}.")
