"""Ctrl-C that takes effect at the end of a step, so that the checkpoint is complete."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interruption:
    """Context in which the first Ctrl-C only requests a stop, and the second one interrupts immediately.

    Python delivers signals to the main thread only, so this context has no effect in other threads.
    """

    def __init__(self) -> None:
        self.requested = False
        """Whether this process was asked to stop."""
        self.agreed: bool | None = None
        """Whether the processes of a distributed run agreed to stop after this step; None in a single process."""
        self._previous: Any = None

    @property
    def stop(self) -> bool:
        """Whether to stop after this step. All processes of a distributed run stop after the same step."""
        return self.requested if self.agreed is None else self.agreed

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt("Stopped immediately; the last checkpoint is kept.")
        self.requested = True
