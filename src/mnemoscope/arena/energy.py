"""The energy that a GPU reports while a run trains, by NVIDIA's management library, which comes with the driver.

The library counts the energy of a whole GPU. When several processes share it, each of them takes an equal part: the
energy of every second divided by the number of processes that compute on the GPU at its end. The parts of all processes
then add up to the energy of the GPU, with the power that it takes while idle.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypedDict, runtime_checkable

import torch

from mnemoscope.base.files import write_json
from mnemoscope.base.reading import read_json
from mnemoscope.training.callbacks import Callback, StartInfo, StepInfo

FILE = "energy.json"
"""File in the folder of a run with its energy up to the last interruption."""
LIBRARY = "libnvidia-ml.so.1"
_INSUFFICIENT_SIZE = 7
"""Answer to a request for the processes of a GPU without memory for a list: their number is known."""


@runtime_checkable
class GPUCounters(Protocol):
    """Counters of the GPU on which this process computes."""

    def joules(self) -> float | None:
        """Return the energy that the GPU has used since the driver was loaded; None if it does not report it."""
        ...

    def processes(self) -> int | None:
        """Return the number of processes that compute on the GPU; None if it does not report it."""
        ...


class NVML:
    """Counters of a GPU by its identifier, `GPU-...`."""

    def __init__(self, identifier: str, library: Any = None) -> None:
        self._library = library or ctypes.CDLL(LIBRARY)
        self._check(self._library.nvmlInit_v2())
        self._device = ctypes.c_void_p()
        self._check(self._library.nvmlDeviceGetHandleByUUID(identifier.encode(), ctypes.byref(self._device)))

    def joules(self) -> float | None:
        millijoules = ctypes.c_ulonglong()
        answer = self._library.nvmlDeviceGetTotalEnergyConsumption(self._device, ctypes.byref(millijoules))
        return millijoules.value / 1000 if answer == 0 else None

    def processes(self) -> int | None:
        number = ctypes.c_uint(0)
        answer = self._library.nvmlDeviceGetComputeRunningProcesses_v3(self._device, ctypes.byref(number), None)
        return number.value if answer in (0, _INSUFFICIENT_SIZE) else None

    @staticmethod
    def _check(answer: int) -> None:
        if answer != 0:
            raise OSError(f"NVIDIA's management library answers with error {answer}.")


def gpu_counters() -> GPUCounters | None:
    """Return the counters of the GPU of this process; None without a GPU or without the library."""
    if not torch.cuda.is_available():
        return None
    try:
        return NVML(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
    except (OSError, AttributeError):  # no such library, no such function in it, or no right to ask
        return None


class _File(TypedDict):
    joules: float | None
    seconds: float


class EnergyMeter(Callback):
    """Callback that adds up this process's share of the energy of the GPU, also over interruptions.

    Args:
        counters: the counters of the GPU; None if it has none, so that nothing is measured.
        interval: seconds between two readings.
        clock: returns the time in seconds.

    """

    def __init__(
        self, counters: GPUCounters | None, interval: float = 1.0, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._counters, self._interval, self._clock = counters, interval, clock
        self._total: float | None = None if counters is None else 0.0
        self._seconds = 0.0
        self._file: Path | None = None

    def on_start(self, info: StartInfo) -> None:
        self._file = info.folder / FILE
        if self._file.exists():
            earlier: _File = read_json(self._file, _File)
            self._total = None if self._total is None else earlier["joules"]
            self._seconds = earlier["seconds"]
        self._last, self._reading = self._clock(), None if self._counters is None else self._counters.joules()

    def on_step(self, info: StepInfo) -> None:
        if self._total is not None and self._clock() - self._last >= self._interval:
            self._read()

    def close(self) -> None:
        """Add the time since the last reading, and write the file, so that a resumed run continues the sum."""
        if self._file is not None and self._counters is not None:
            if self._total is not None:
                self._read()
            write_json(self._file, {"joules": self._total, "seconds": self._seconds})

    def _read(self) -> None:
        assert self._counters is not None
        now, reading, processes = self._clock(), self._counters.joules(), self._counters.processes()
        if self._reading is None or reading is None or not processes:
            self._total = None  # a part is unknown, and so is the sum
            return
        assert self._total is not None
        self._total += (reading - self._reading) / processes
        self._seconds += now - self._last
        self._reading, self._last = reading, now


def measured_joules(folder: Path, seconds: float) -> float | None:
    """Return the energy of a run that trained for `seconds`; None if it was not measured.

    A process that is killed loses its last part, so that the sum is scaled from the seconds that it covers to all.
    """
    if not (folder / FILE).exists():
        return None
    found: _File = read_json(folder / FILE, _File)
    if found["joules"] is None or not found["seconds"]:
        return None
    return found["joules"] * seconds / found["seconds"]
