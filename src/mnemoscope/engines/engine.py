"""What an engine is."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol, runtime_checkable

from mnemoscope.engines.job import Event, Job


@runtime_checkable
class Engine(Protocol):
    """Somewhere to do jobs."""

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Do the jobs, and tell what happens as it does: now and then the progress of one, and once for each how it
        ended. Closed before its end, it stops the jobs that run.
        """
        ...
