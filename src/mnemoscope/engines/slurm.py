"""Jobs on a Slurm cluster, submitted by submitit."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.engines.job import Event, Job, Outcome, event_fields
from mnemoscope.engines.local import SAFE_PATH, Local, search_path


class Slurm:
    """Run the jobs as one Slurm job array, without progress events. The nodes must share the folder of all runs.

    Args:
        partition: partition of the cluster; None for its default.
        minutes: time limit of a job.
        cores: CPU cores of a job.
        gpus: GPUs of a job.
        memory: memory of a job, in GB.
        max_jobs: largest number of jobs that run simultaneously.
        folder: folder for scripts and logs.
        cluster: "slurm"; "local" runs the jobs in processes of this machine, to test a setup.
        poll_every: seconds between polls of the queue.

    """

    def __init__(
        self,
        partition: str | None = None,
        minutes: int = 60,
        cores: int = 1,
        gpus: int = 0,
        memory: int = 8,
        max_jobs: int = 256,
        folder: str = "runs/slurm",
        cluster: Literal["slurm", "local"] = "slurm",
        poll_every: float = 2.0,
    ) -> None:
        submitit = import_extra("submitit", "slurm", "The engine slurm needs")
        try:
            self.executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: the engine slurm works where sbatch does, on a login node.") from error
        self.cores, self.poll_every = cores, poll_every
        self.executor.update_parameters(
            timeout_min=minutes, cpus_per_task=cores, gpus_per_node=gpus, mem_gb=memory, name="mnemoscope"
        )
        if cluster == "slurm":
            exports = [f"export {name}={value}" for name, value in SAFE_PATH.items()]  # where sbatch passes nothing on
            self.executor.update_parameters(
                slurm_partition=partition, slurm_array_parallelism=max_jobs, slurm_setup=exports
            )

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        started = time.perf_counter()
        with _environment(SAFE_PATH), self.executor.batch():
            submitted = [
                (job, self.executor.submit(_run_on_node, _resolved(job), self.cores, search_path())) for job in jobs
            ]
        waiting = dict(enumerate(submitted))
        try:
            while waiting:
                for number, (job, slurm_job) in list(waiting.items()):
                    if slurm_job.done():
                        del waiting[number]
                        yield _outcome(job, slurm_job, time.perf_counter() - started)
                time.sleep(self.poll_every if waiting else 0)
        finally:
            for _, slurm_job in waiting.values():
                slurm_job.cancel(check=False)


def _resolved(job: Job) -> str:
    """Return the job as JSON with an absolute root, which means the same on every node."""
    return replace(job, root=str(Path(job.root).resolve())).as_json()


def _outcome(job: Job, slurm_job: Any, seconds: float) -> Outcome:
    try:
        return Outcome(job, **slurm_job.result())
    except Exception as error:  # submitit's report of any failure on the node
        message = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return Outcome(job, seconds, message, slurm_job.stderr() or "")


@contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    """Set environment variables for the processes that are started inside the context."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _run_on_node(line: str, cores: int, folders: Sequence[str]) -> dict[str, Any]:
    """Run a job on a node, and return the fields of its outcome; modules are also searched in `folders`."""
    sys.path += [folder for folder in folders if folder not in sys.path]
    events = Local(1, cores=cores).events([Job.from_json(line)])
    (outcome,) = (event for event in events if isinstance(event, Outcome))
    return event_fields(outcome)
