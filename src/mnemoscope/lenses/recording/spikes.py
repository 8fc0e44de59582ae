"""Spike times as firing rates: counts in bins of each trial, and smoothing by a Gaussian kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.recording.binning import trial_bins


def bin_spikes(
    spike_times: Sequence[Any],
    starts: Float[Tensor, " trials"],
    stops: Float[Tensor, " ends"],
    step: float,
    intervals: Sequence[Any] | None = None,
) -> Float[Tensor, "time trials units"]:
    """Return the number of spikes in bins of `step` seconds from the start of each trial.

    A bin that ends after the end of its trial is NaN, and so are all bins of a unit that was not observed during the
    whole trial.

    Args:
        spike_times: times in seconds for each unit, in any order.
        starts: beginning of each trial in seconds.
        stops: end of each trial.
        step: width of a bin in seconds.
        intervals: for each unit the intervals (number, 2) in seconds in which it was observed, or None for always.

    """
    if intervals is not None and len(intervals) != len(spike_times):
        raise ValueError(f"There are {len(spike_times)} units, but the observed intervals of {len(intervals)}.")
    lengths, edges = trial_bins(starts, stops, step)
    time, trials = int(lengths.max()), len(starts)
    counts = np.zeros((trials, time, len(spike_times)))
    for unit, times in enumerate(spike_times):
        ordered = np.sort(np.asarray(times, dtype=np.float64))
        counts[:, :, unit] = np.diff(np.searchsorted(ordered, edges), axis=1)
    activity = torch.from_numpy(counts).transpose(0, 1)
    activity = activity.masked_fill((torch.arange(time).unsqueeze(1) >= lengths).unsqueeze(2), torch.nan)
    if intervals is None:
        return activity
    observed = torch.stack([_observed(each, starts, stops) for each in intervals], 1)  # (trials, units)
    return activity.masked_fill(~observed, torch.nan)


def _observed(intervals: Any, starts: Tensor, stops: Tensor) -> Tensor:
    """Return which trials lie within one of the intervals."""
    if intervals is None:
        return torch.ones(len(starts), dtype=torch.bool)
    edges = torch.as_tensor(np.asarray(intervals, dtype=np.float64)).reshape(-1, 2)
    return ((edges[:, :1] <= starts) & (edges[:, 1:] >= stops)).any(0)


def smooth(activity: Float[Tensor, "time trials units"], width: float) -> Float[Tensor, "time trials units"]:
    """Return activity averaged over time with Gaussian weights of this standard deviation in steps; NaN has none.

    Near the ends of a trial the weights of the steps that exist are scaled up, so that a constant stays constant.
    """
    reach = max(1, int(np.ceil(4 * width)))
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float64)
    kernel = torch.exp(-(offsets**2) / (2 * width**2)).view(1, 1, -1)
    known = ~activity.isnan()

    def weighted(values: Tensor) -> Tensor:
        lines = values.flatten(1).T.unsqueeze(1)  # (trials x units, 1, time)
        return torch.nn.functional.conv1d(lines, kernel, padding=reach)[:, 0].T.reshape(activity.shape)

    averaged = weighted(activity.nan_to_num()) / weighted(known.double())
    return averaged.masked_fill(~known, torch.nan)
