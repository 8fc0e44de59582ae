"""Jobs in this process, one after the other."""

from __future__ import annotations

import time
import traceback
from collections.abc import Generator, Sequence
from contextlib import nullcontext

from mnemoscope.base.progress import told_to
from mnemoscope.engines.job import Event, Job, Outcome


class Here:
    """No process of its own for a job: one that fails takes no other with it, but one that crashes takes all.

    Args:
        progress: whether jobs draw their bars.

    """

    def __init__(self, progress: bool = True) -> None:
        self.progress = progress

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        """See `Engine.events`; progress is drawn, not told."""
        for job in jobs:
            began, error, log = time.perf_counter(), None, ""
            try:
                with nullcontext() if self.progress else told_to(lambda _: None):
                    job.do()
            except Exception as raised:  # whatever it is, the others are done
                error, log = f"{type(raised).__name__}: {raised}", traceback.format_exc()
            yield Outcome(job, time.perf_counter() - began, error, log)
