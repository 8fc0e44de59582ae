"""The protocol of engines."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol, runtime_checkable

from mnemoscope.engines.job import Event, Job


@runtime_checkable
class Engine(Protocol):
    """Something that runs jobs."""

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run the jobs, and yield events as they happen: progress now and then, and one `Outcome` for each job.

        Closing the generator early stops the running jobs.
        """
        ...
