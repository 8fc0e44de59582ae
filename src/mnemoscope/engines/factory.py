"""The protocol of engines, and engines by name, with options as the command line passes them."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mnemoscope.base.lazy_imports import load_object
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.engines.job import Event, Job

if TYPE_CHECKING:
    from mnemoscope.config.options import Option


@runtime_checkable
class Engine(Protocol):
    """Something that runs jobs."""

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run the jobs, and yield events as they happen: progress now and then, and one `Outcome` for each job.

        Closing the generator early stops the running jobs.
        """
        ...


ENGINES = {
    "local": "mnemoscope.engines.local:Local",
    "ray": "mnemoscope.engines.ray_cluster:Ray",
    "slurm": "mnemoscope.engines.slurm:Slurm",
}
"""Classes of the engines, by name."""


def build_engine(name: str, options: Mapping[str, Option] | None = None) -> Engine:
    """Return the engine of that name.

    >>> build_engine("local", {"max_jobs": 3}).max_jobs
    3
    >>> build_engine("local", {"size": 3})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: The engine 'local' has no option 'size'. Its options: max_jobs = None, gpus = 0, cores = None, ...
    """
    from mnemoscope.config.options import checked_options  # loads all presets, which a worker process does not need

    if name not in ENGINES:
        raise ValueError(f"There is no engine {name!r}.{did_you_mean(name, ENGINES)} There are {', '.join(ENGINES)}.")
    engine_class = load_object(ENGINES[name])
    return engine_class(**checked_options(engine_class, f"engine {name!r}", options or {}))
