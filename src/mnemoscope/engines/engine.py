"""What an engine is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, runtime_checkable

from mnemoscope.engines.job import Job, Outcome

Tell = Callable[[Job, dict[str, Any]], None]
"""Called with a running job and the state of its progress bar."""


@runtime_checkable
class Engine(Protocol):
    """Somewhere to do jobs."""

    def outcomes(self, jobs: Sequence[Job], tell: Tell) -> Generator[Outcome]:
        """Do the jobs, and yield how each ended as soon as it has. Stopped before its end, it stops the jobs."""
        ...
