"""Jobs in this process, in sequence."""

from __future__ import annotations

import time
import traceback
from collections.abc import Generator, Sequence
from contextlib import nullcontext

from mnemoscope.base.progress import redirect_progress
from mnemoscope.engines.job import Event, Job, Outcome


class InProcess:
    """Run jobs in the calling process. A job that raises does not affect the others; one that crashes ends all.

    Progress bars draw on the terminal, unless `progress` is False, and yield no events.
    """

    def __init__(self, progress: bool = True) -> None:
        self.progress = progress

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        for job in jobs:
            started, error, log = time.perf_counter(), None, ""
            try:
                with nullcontext() if self.progress else redirect_progress(lambda _: None):
                    job.run()
            except Exception as raised:  # any error: the other jobs still run
                error, log = f"{type(raised).__name__}: {raised}", traceback.format_exc()
            yield Outcome(job, time.perf_counter() - started, error, log)
