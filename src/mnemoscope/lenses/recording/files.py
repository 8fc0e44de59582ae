"""Recordings in files: arrays of NumPy, NWB files, and recordings that were saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from mnemoscope.base.trial_table import Condition, TrialTable
from mnemoscope.lenses.recording.result import Recording

KINDS = (".npy", ".npz", ".nwb", ".safetensors")
"""Endings of files that hold a recording."""


def read_recording(
    path: str | Path,
    *,
    step: float | None = None,
    conditions: Sequence[str] = (),
    series: str | None = None,
    smoothing: float | None = None,
) -> Recording:
    """Return the recording in a file.

    Args:
        path: `.npy`, an array (trials, time, units) with NaN where nothing was recorded; `.npz`, such an array of the
            name `activity`, if needed `inputs` (trials, time, features), and one value or word for each trial under the
            name of every condition; `.nwb`; or the `.safetensors` file of `Recording.save`.
        step: duration of a step in milliseconds; an NWB file is binned with it, and needs it.
        conditions: columns of the trials of an NWB file to keep, or names in an `.npz` file, all by default.
        series: name of a series of samples in an NWB file, instead of spike times.
        smoothing: standard deviation of a Gaussian kernel, in milliseconds, or in steps where a step has no duration.

    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.suffix not in KINDS:
        raise ValueError(f"A recording is a file that ends with {', '.join(KINDS)}, but the file is {path.name}.")
    if series is not None and path.suffix != ".nwb":
        raise ValueError(f"A series belongs to an NWB file, but the file is {path.name}.")
    if path.suffix == ".nwb":
        if step is None:
            raise ValueError("An NWB file is cut into bins: name their width in milliseconds as step, such as 20.")
        return Recording.from_nwb(path, step=step, conditions=conditions, series=series, smoothing=smoothing)
    saved = path.suffix == ".safetensors"
    if saved and (step is not None or conditions):
        raise ValueError(
            f"{path.name} is a saved recording, with its step and its conditions: omit step and conditions."
        )
    recording = Recording.load(path) if saved else _read_arrays(path, step, conditions)
    return recording if smoothing is None else recording.smoothed(smoothing)


def _read_arrays(path: Path, step: float | None, conditions: Sequence[str]) -> Recording:
    try:
        content = np.load(path, allow_pickle=False)
        arrays = {"activity": content} if path.suffix == ".npy" else {name: content[name] for name in content.files}
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path.name} holds no arrays of numbers or words. ({error})") from error
    if "activity" not in arrays:
        raise ValueError(f"{path.name} needs an array `activity` (trials, time, units), but has {', '.join(arrays)}.")
    for name in ("activity", "inputs"):
        if name in arrays and arrays[name].dtype.kind not in "biuf":
            raise ValueError(f"The {name} in {path.name} must be real numbers, but are of type {arrays[name].dtype}.")
    activity, inputs = arrays.pop("activity"), arrays.pop("inputs", None)
    unknown = [name for name in conditions if name not in arrays]
    if unknown:
        raise KeyError(f"{path.name} has no condition {unknown[0]!r}: it has {', '.join(arrays) or 'none'}.")
    chosen = {name: values for name, values in arrays.items() if not conditions or name in conditions}
    for name, values in chosen.items():
        if values.shape != activity.shape[:1]:
            raise ValueError(
                f"A condition has one value for each of {len(activity)} trials, but {name!r} in {path.name} has the "
                f"shape {values.shape}: name the conditions to keep, without it, or check that activity is (trials, "
                f"time, units)."
            )
    columns = tuple(_condition(name, values) for name, values in chosen.items())
    return Recording.from_trials(activity, TrialTable(columns, step=step), inputs=inputs)


def _condition(name: str, values: np.ndarray) -> Condition:
    if values.dtype.kind not in "US":
        return Condition(name, torch.as_tensor(values))
    labels, numbers = np.unique(values, return_inverse=True)
    return Condition(name, torch.from_numpy(numbers), tuple(labels.tolist()))
