"""Jobs, functions with their arguments as data that can be sent to another process or machine, and their events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mnemoscope.base.files import write_atomically
from mnemoscope.base.lazy_imports import load_object


@dataclass(frozen=True)
class Job:
    """A function call whose result is the files that it writes. A job that was done before finds them, and returns.

    A job reads and writes only in one folder, `root/folder`. The function receives `root` besides its arguments. A
    machine without the same file system calls it with another root, and the folder is copied there and back.

    >>> job = Job("a list", "builtins:sorted", {"reverse": True}, root="runs", folder="lists/a")
    >>> Job.from_json(job.as_json()) == job
    True
    """

    name: str
    """Name to display."""
    target: str
    """The function, as `module:name`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments besides `root`, as JSON values."""
    root: str = "runs"
    """Folder of all runs."""
    folder: str = ""
    """Folder below the root that holds all files of this job; no other job writes there."""
    least_seconds: float = 0.0
    """Time below which it is no use to start the job, as it would be interrupted before it has made progress."""

    def __post_init__(self) -> None:
        if not all(self.target.partition(":")):
            raise ValueError(f"target is module:name, but is {self.target!r}.")

    def run(self) -> None:
        """Call the function."""
        load_object(self.target)(root=self.root, **self.arguments)

    def as_json(self) -> str:
        """Return the job as one line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Job:
        """Return the job of a line from `as_json`."""
        return Job(**json.loads(line))


@dataclass(frozen=True)
class Progress:
    """Event: the state of a job's progress bar."""

    job: Job
    done: float
    total: float | None
    """None if the total is unknown."""
    unit: str = "it"
    description: str = ""
    postfix: str = ""


@dataclass(frozen=True)
class Outcome:
    """Event: the end of a job."""

    job: Job
    seconds: float
    error: str | None = None
    """The error in one line; None after success."""
    log: str = ""
    """Last lines of the job's output, after an error."""
    interrupted: bool = False
    """Whether the job was interrupted because the time was over; it continues when it is run again."""

    def save_log(self, path: Path) -> str:
        """Write the log to a file, and return the error in one line that names the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.log.encode())
        return f"{self.job.name}: {self.error} (see {path})"


Event = Progress | Outcome


def event_fields(event: Event) -> dict[str, Any]:
    """Return the fields of an event except its job, to send to another machine."""
    return {field.name: getattr(event, field.name) for field in fields(event) if field.name != "job"}
