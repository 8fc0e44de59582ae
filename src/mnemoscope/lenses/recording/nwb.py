"""Read units or a sampled series, and trials, of an NWB file (needs the `nwb` extra), as plain tables and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.base.trial_table import Condition, Epoch, TrialTable
from mnemoscope.lenses.recording.binning import bin_samples
from mnemoscope.lenses.recording.spikes import bin_spikes

Edges = tuple[str | float, str | float]
"""Beginning and end of an epoch: a column of times in seconds, or seconds after the start of a trial."""


def read_nwb(
    path: str | Path,
    step: float,
    conditions: Sequence[str],
    epochs: Mapping[str, Edges],
    start: str,
    stop: str,
    trials: Any,
    units: Any,
    series: str | None,
) -> tuple[Float[Tensor, "time trials units"], TrialTable]:
    """Return counts of spikes, or means of a series, in bins of `step` milliseconds, and the table of the trials."""
    pynwb = import_extra("pynwb", "nwb", "NWB files need")
    with pynwb.NWBHDF5IO(str(path), "r", load_namespaces=True) as file:
        return read_contents(file.read(), step, conditions, epochs, start, stop, trials, units, series)


def read_contents(
    contents: Any,
    step: float,
    conditions: Sequence[str],
    epochs: Mapping[str, Edges],
    start: str,
    stop: str,
    trials: Any,
    units: Any,
    series: str | None = None,
) -> tuple[Float[Tensor, "time trials units"], TrialTable]:
    """Return activity and table of an open file."""
    if contents.trials is None:
        raise ValueError("The file needs a table of trials, but has none.")
    rows = np.arange(len(contents.trials))[_index(trials)]
    starts, stops = (_times(contents.trials, name)[rows] for name in (start, stop))
    known = ~(starts.isnan() | stops.isnan())
    rows, starts, stops = rows[known.numpy()], starts[known], stops[known]
    if series is None:
        activity = _spike_counts(contents, starts, stops, step / 1000, units)
    else:
        samples, times = _series(contents, series)
        activity = bin_samples(samples[:, _index(units)], times, starts, stops, step / 1000)
    columns = tuple(_condition(name, _column(contents.trials, name)[rows]) for name in conditions)
    parts = []
    for name, edges in epochs.items():
        first, last = (_steps(contents.trials, edge, rows, starts, step, len(activity)) for edge in edges)
        parts.append(Epoch(name, torch.minimum(first, last), last))  # empty if it begins after its end
    return activity, TrialTable(columns, tuple(parts), step)


def _spike_counts(contents: Any, starts: Tensor, stops: Tensor, step: float, units: Any) -> Tensor:
    if contents.units is None or "spike_times" not in contents.units.colnames:
        known = ", ".join(_all_series(contents)) or "none"
        raise ValueError(
            f"The file has no units with spike times. Name a series of samples instead, series=...; there are {known}."
        )
    numbers = np.arange(len(contents.units))[_index(units)]
    spike_times = [contents.units["spike_times"][int(unit)] for unit in numbers]
    observed = None
    if "obs_intervals" in contents.units.colnames:
        observed = [contents.units["obs_intervals"][int(unit)] for unit in numbers]
    return bin_spikes(spike_times, starts, stops, step, observed)


def _all_series(contents: Any) -> dict[str, Any]:
    """Return everything in the file that has samples over time, by its name."""
    found = [each for each in contents.objects.values() if hasattr(each, "data") and hasattr(each, "starting_time")]
    return {each.name: each for each in found}


def _series(contents: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples (samples, units) of a series, and their times in seconds."""
    known = _all_series(contents)
    if name not in known:
        listed = ", ".join(known) or "none"
        raise KeyError(f"The file has no series {name!r}: it has {listed}.{did_you_mean(name, known)}")
    series = known[name]
    samples = np.asarray(series.data[:], dtype=np.float64)
    if samples.ndim > 2:
        raise ValueError(f"The series {name!r} has {samples.ndim} dimensions, but samples x units are two.")
    samples = samples.reshape(len(samples), -1)
    if series.timestamps is not None:
        return samples, np.asarray(series.timestamps[:], dtype=np.float64)
    return samples, (series.starting_time or 0.0) + np.arange(len(samples)) / series.rate


def _index(chosen: Any) -> Any:
    return slice(None) if chosen is None else np.asarray(chosen)


def _column(table: Any, name: str) -> np.ndarray:
    if name not in table.colnames:
        known = ", ".join(table.colnames)
        raise KeyError(f"The trials have no column {name!r}: they have {known}.{did_you_mean(name, table.colnames)}")
    return np.asarray(table[name][:])


def _times(table: Any, name: str) -> Tensor:
    return torch.from_numpy(_column(table, name).astype(np.float64))


def _condition(name: str, values: np.ndarray) -> Condition:
    """Return a column as a condition: numbers unchanged, text and truth values as labels."""
    if values.ndim != 1:
        raise ValueError(f"Column {name!r} has {values.ndim} dimensions, but a condition has one value in each trial.")
    if values.dtype.kind in "iuf":
        return Condition(name, torch.from_numpy(values.astype(np.float64)))
    labels, places = np.unique(values.astype(str), return_inverse=True)
    return Condition(name, torch.from_numpy(places.astype(np.int64)), tuple(labels.tolist()))


def _steps(table: Any, edge: str | float, rows: np.ndarray, starts: Tensor, step: float, longest: int) -> Tensor:
    """Return an edge of an epoch in steps of each trial; a time that is missing is after the last step."""
    after = _times(table, edge)[rows] - starts if isinstance(edge, str) else torch.full_like(starts, edge)
    return (1000 * after / step).nan_to_num(nan=longest).round().long().clamp(0, longest)
