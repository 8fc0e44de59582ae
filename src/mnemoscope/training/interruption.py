"""Ctrl-C and SIGTERM that take effect at the end of a step, so that the checkpoint is complete."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from mnemoscope.base.signals import Terminated, raise_terminated


class Interruption:
    """Context in which the first Ctrl-C or SIGTERM only requests a stop, and the second Ctrl-C interrupts immediately.

    A second SIGTERM changes nothing: schedulers repeat it before they kill a process. A SIGTERM handler of the caller
    is kept. Python delivers signals to the main thread only, so this context has no effect in other threads.
    """

    def __init__(self) -> None:
        self.requested = False
        """Whether this process was asked to stop."""
        self.agreed: bool | None = None
        """Whether the processes of a distributed run agreed to stop after this step; None in a single process."""
        self._signals: list[int] = []
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def stop(self) -> bool:
        """Whether to stop after this step. All processes of a distributed run stop after the same step."""
        return self.requested if self.agreed is None else self.agreed

    def error(self, place: str) -> KeyboardInterrupt:
        """Return what to raise after the checkpoint was written; `place` says where the run stopped and continues."""
        if signal.SIGTERM in self._signals:
            return Terminated(f"Stopped by SIGTERM {place}")
        return KeyboardInterrupt(f"Stopped {place}")

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._previous[signal.SIGINT] = signal.signal(signal.SIGINT, self._on_signal)
            if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, raise_terminated):
                self._previous[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and number in self._signals:
            raise KeyboardInterrupt("Stopped immediately; the last checkpoint is kept.")
        self._signals.append(number)
        self.requested = True
