"""Signals of a command: SIGTERM as an exception, so that it can save its work, and Ctrl-C during imports."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: the system asks to stop, for example because a job is preempted. Acts like Ctrl-C."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a command that this interruption ends, by the convention of shells: 130 or 143."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


_repeats_count = True
"""Whether a signal interrupts this process again while it handles an earlier one."""


@contextmanager
def command_signals(once: bool = False) -> Generator[None]:
    """Raise `Terminated` on SIGTERM inside the context, and exit on Ctrl-C during an import.

    Handlers that someone else has set are kept. Python delivers signals to the main thread only, so this context has no
    effect in other threads.

    Args:
        once: ignore all signals after the first that these handlers take, so that a checkpoint is completed. This is
            for a process whose parent ends it if that takes too long: a scheduler signals both, and the parent passes
            its signal on.

    """
    global _repeats_count
    handlers = {signal.SIGTERM: raise_terminated, signal.SIGINT: _exit_from_imports}
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in handlers} if in_main else {}
    replaced = {number: handler for number, handler in before.items() if handler in defaults}
    for number in replaced:
        signal.signal(number, handlers[number])
    counted = _repeats_count
    if in_main:
        _repeats_count = not once
    try:
        yield
    finally:
        if in_main:
            _repeats_count = counted
        for number, handler in before.items():  # also of a signal that was ignored after the first
            if handler is not None:  # installed by Python
                signal.signal(number, handler)


def raise_terminated(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM by raising `Terminated`."""
    _ignore_repeats()
    raise Terminated


def _ignore_repeats() -> None:
    """Ignore further signals if the context asks for it."""
    if not _repeats_count:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _exit_from_imports(number: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C: exit at once during an import, and raise KeyboardInterrupt otherwise.

    Some libraries catch the exception, and fail later because they are half imported: torch while it imports NumPy.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            os.write(2, b"\nStopped.\n")
            os._exit(exit_code(KeyboardInterrupt()))
        frame = frame.f_back
    _ignore_repeats()
    raise KeyboardInterrupt
