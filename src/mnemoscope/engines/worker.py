"""The worker process of one job, which `Local` starts with the job as the first line of its input.

The worker writes lines of JSON to standard output: its progress, and at the end success or the error. The job's own
output goes to standard error. The parent process keeps the worker's input open while it lives. When the input closes,
the result is no longer needed and the worker exits immediately, as after a crash; a job's files must survive that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from threading import Lock, Thread
from typing import Any, TextIO

from mnemoscope.base.progress import redirect_progress
from mnemoscope.base.signals import command_signals, exit_code
from mnemoscope.engines.job import Job


def main() -> int:
    """Run the job of the first line of standard input, and return the exit code."""
    job = Job.from_json(sys.stdin.readline())
    Thread(target=_exit_without_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore SIGINT otherwise
    if hasattr(signal, "SIGUSR2"):
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # Slurm warns all processes of a job; the parent passes it on
    send = _MessageWriter(os.fdopen(os.dup(1), "w", buffering=1))
    os.dup2(2, 1)  # prints of any library go to standard error, not between the messages
    try:
        with command_signals(once=True), redirect_progress(lambda state: send({"progress": state})):
            job.run()
    except KeyboardInterrupt as stop:
        send({"error": str(stop) or "interrupted"})
        return exit_code(stop)
    except BaseException as error:
        traceback.print_exc()
        send({"error": f"{type(error).__name__}: {error}"})
        return 1
    send({"done": True})
    return 0


class _MessageWriter:
    def __init__(self, file: TextIO) -> None:
        self.file, self.lock = file, Lock()

    def __call__(self, message: dict[str, Any]) -> None:
        with self.lock:
            self.file.write(json.dumps(message) + "\n")


def _exit_without_parent() -> None:
    while sys.stdin.buffer.raw.read(1):  # type: ignore  # blocks until the input closes
        pass
    os._exit(1)
