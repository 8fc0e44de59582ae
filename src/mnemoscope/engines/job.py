"""A job: a function and its arguments, as data that can be sent to another process or machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Job:
    """What to call, with what. Its result is what it writes; a job that was done before finds that, and returns.

    >>> job = Job("a greeting", "builtins:print", {"sep": "-"})
    >>> Job.from_json(job.as_json()) == job
    True
    """

    name: str
    """For people."""
    target: str
    """The function, as `module:name`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Its arguments by name; JSON."""
    folder: str = ""
    """Where it writes, if in one place: what an engine without a common file system has to bring back."""

    def __post_init__(self) -> None:
        module, _, name = self.target.partition(":")
        if not module or not name:
            raise ValueError(f"target is module:name, but is {self.target!r}.")

    def load(self) -> Callable[..., Any]:
        """The function."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Job:
        """A job from `as_json`."""
        return Job(**json.loads(line))


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    job: Job
    seconds: float
    error: str | None = None
    """What went wrong, in a line; None: nothing."""
    log: str = ""
    """The end of what it printed, if it went wrong."""
