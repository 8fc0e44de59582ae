"""A job: a function and its arguments, as data that can be sent to another process or machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """What to call, with what. Its result is what it writes; a job that was done before finds that, and returns.

    All that it reads and writes lies in one folder, `root/own`. The function is given `root` beside its arguments; a
    machine that does not see the same files calls it with another root, to which the folder is carried and back.

    >>> job = Job("a list", "builtins:sorted", {"reverse": True}, root="runs", own="lists/a")
    >>> Job.from_json(job.as_json()) == job
    True
    """

    name: str
    """For people."""
    target: str
    """The function, as `module:name`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Its arguments by name beside `root`; JSON."""
    root: str = "runs"
    """Folder of all runs."""
    own: str = ""
    """Folder below the root in which everything of this job lies; no other job writes there."""

    def __post_init__(self) -> None:
        module, _, name = self.target.partition(":")
        if not module or not name:
            raise ValueError(f"target is module:name, but is {self.target!r}.")

    def do(self) -> None:
        """Call the function."""
        module, _, name = self.target.partition(":")
        getattr(import_module(module), name)(root=self.root, **self.arguments)

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Job:
        """A job from `as_json`."""
        return Job(**json.loads(line))


@dataclass(frozen=True)
class Progress:
    """How far a job is: the state of its progress bar."""

    job: Job
    done: float
    of: float | None
    """None: it is not known."""
    unit: str = "it"
    what: str = ""
    more: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    job: Job
    seconds: float
    error: str | None = None
    """What went wrong, in a line; None: nothing."""
    log: str = ""
    """The end of what it printed, if it went wrong."""

    def kept(self, log: Path) -> str:
        """What went wrong, in a line; what it printed is written to a file."""
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(self.log, encoding="utf-8")
        return f"{self.job.name}: {self.error} (see {log})"


Event = Progress | Outcome
