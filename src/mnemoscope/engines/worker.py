"""The process of one job: `python -m mnemoscope.engines.worker`, with the job as the first line of its input.

It answers in lines of JSON: its progress, and in the end what went wrong, if anything did. What the job prints goes to
standard error. The input stays open for as long as whoever sent the job is alive; when it closes, nobody wants the
result any more, and the process ends at once, as after a crash: whatever a job writes must stand that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from threading import Lock, Thread
from typing import Any, TextIO

from mnemoscope.base.progress import told_to
from mnemoscope.engines.job import Job

INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""


def main() -> int:
    """Do the job of the first line of standard input."""
    job = Job.from_json(sys.stdin.readline())
    Thread(target=_end_when_alone, daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored, where a shell began all this in background
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what is printed, by whichever language, must not come between the answers
    tell = _Tell(answers)
    try:
        with told_to(lambda state: tell({"progress": state})):
            job.do()
    except KeyboardInterrupt:
        tell({"error": "interrupted"})
        return INTERRUPTED
    except BaseException as error:
        traceback.print_exc()
        tell({"error": f"{type(error).__name__}: {error}"})
        return 1
    tell({"done": True})
    return 0


class _Tell:
    def __init__(self, answers: TextIO) -> None:
        self.answers, self.lock = answers, Lock()

    def __call__(self, answer: dict[str, Any]) -> None:
        with self.lock:
            self.answers.write(json.dumps(answer) + "\n")


def _end_when_alone() -> None:
    while sys.stdin.buffer.raw.read(1):  # pyright: ignore[reportAttributeAccessIssue]  # nothing is sent: it waits
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
