"""Bins of equal width in trials, and the means of a sampled signal in them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int


def trial_bins(
    starts: Float[Tensor, " trials"], stops: Float[Tensor, " ends"], step: float
) -> tuple[Int[Tensor, " trials"], np.ndarray]:
    """Return the number of whole bins of each trial, and the edges (trials, bins + 1) of those of the longest.

    Times and the width of a bin are in seconds.
    """
    if not step > 0:
        raise ValueError(f"The width of a bin must be positive, but is {step:g} s.")
    if len(starts) != len(stops) or not len(starts):
        raise ValueError(f"Every trial needs a start and a stop, but there are {len(starts)} and {len(stops)}.")
    if bool((starts.isnan() | stops.isnan()).any()):
        raise ValueError("A start or a stop is NaN: leave these trials out.")
    lengths = torch.floor((stops - starts) / step + 1e-6).long()  # whole bins, in spite of rounding
    if int(lengths.min()) < 1:
        raise ValueError(
            f"Trial {int(lengths.argmin())} is {float((stops - starts).min()):.4g} s long, which is shorter than a "
            f"bin of {step:g} s."
        )
    return lengths, starts.numpy()[:, None] + step * np.arange(int(lengths.max()) + 1)


def bin_samples(
    samples: np.ndarray,
    times: np.ndarray,
    starts: Float[Tensor, " trials"],
    stops: Float[Tensor, " ends"],
    step: float,
) -> Float[Tensor, "time trials units"]:
    """Return the mean of the samples in bins of `step` seconds from the start of each trial.

    Samples that are NaN do not count. A bin without samples, and one that ends after the end of its trial, is NaN.

    Args:
        samples: values (samples, units).
        times: rising times of the samples in seconds.
        starts: beginning of each trial in seconds.
        stops: end of each trial.
        step: width of a bin in seconds.

    """
    if len(times) != len(samples) or bool((np.diff(times) < 0).any()):
        raise ValueError(f"The {len(samples)} samples need as many rising times, but there are {len(times)}.")
    lengths, edges = trial_bins(starts, stops, step)
    apart = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    if step < (1 - 1e-6) * apart:
        raise ValueError(f"The samples are {1000 * apart:.4g} ms apart: choose bins at least as wide.")
    first = np.searchsorted(times, edges - 1e-6 * step)  # at an edge, in spite of rounding
    known = ~np.isnan(samples)
    nothing = np.zeros((1, samples.shape[1]))
    totals = np.concatenate([nothing, np.cumsum(np.where(known, samples, 0.0), 0)])
    counts = np.concatenate([nothing, np.cumsum(known, 0)])
    total, count = (np.diff(sums[first], axis=1) for sums in (totals, counts))  # (trials, time, units)
    means = torch.from_numpy(np.where(count > 0, total / np.maximum(count, 1), np.nan)).transpose(0, 1)
    after_end = torch.arange(len(means)).unsqueeze(1) >= lengths
    if bool((torch.from_numpy(count).transpose(0, 1).sum(2) == 0)[~after_end].all()):
        raise ValueError("No sample lies in any of the trials: their times and those of the series do not overlap.")
    return means.masked_fill(after_end.unsqueeze(2), torch.nan)
