"""Jobs on a Slurm cluster, by submitit."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from mnemoscope.engines.job import Event, Job, Outcome
from mnemoscope.engines.local import Local


class Slurm:
    """A Slurm job for each job, all in one array; the folder of all runs must be on a file system that nodes share.

    Args:
        partition: of the cluster; None: its default.
        minutes: after which Slurm ends a job.
        cores: of a job.
        gpus: of a job.
        memory: of a job, in GB.
        at_once: jobs that run at the same time, at most.
        folder: for scripts and logs.
        cluster: "slurm"; "local" runs the same in processes of this machine, to try it.
        look_every: seconds between looks at the queue.

    """

    def __init__(
        self,
        partition: str | None = None,
        minutes: int = 60,
        cores: int = 1,
        gpus: int = 0,
        memory: int = 8,
        at_once: int = 256,
        folder: str = "runs/slurm",
        cluster: Literal["slurm", "local"] = "slurm",
        look_every: float = 2.0,
    ) -> None:
        try:
            import submitit
        except ImportError as error:
            raise ModuleNotFoundError("The engine slurm needs submitit: pip install 'mnemoscope[slurm]'.") from error
        try:
            self.executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: the engine slurm works where sbatch does, on a login node.") from error
        self.cores, self.look_every = cores, look_every
        self.executor.update_parameters(
            timeout_min=minutes, cpus_per_task=cores, gpus_per_node=gpus, mem_gb=memory, name="mnemoscope"
        )
        if cluster == "slurm":
            self.executor.update_parameters(slurm_partition=partition, slurm_array_parallelism=at_once)

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        """See `Engine.events`; progress is not told."""
        began = time.perf_counter()
        with self.executor.batch():
            sent = [(job, self.executor.submit(_do, _at_home(job), self.cores)) for job in jobs]
        waiting = dict(enumerate(sent))
        try:
            while waiting:
                for n, (job, there) in list(waiting.items()):
                    if there.done():
                        del waiting[n]
                        yield _outcome(job, there, time.perf_counter() - began)
                time.sleep(self.look_every if waiting else 0)
        finally:
            for _, there in waiting.values():
                there.cancel(check=False)


def _at_home(job: Job) -> str:
    """The job with a root that means the same wherever it is read."""
    return Job(job.name, job.target, job.arguments, str(Path(job.root).resolve()), job.own).as_json()


def _outcome(job: Job, there: Any, seconds: float) -> Outcome:
    try:
        return Outcome(job, **there.result())
    except Exception as error:  # whatever ended the job on its node, in submitit's words
        return Outcome(job, seconds, f"{type(error).__name__}: {str(error).splitlines()[0]}", there.stderr() or "")


def _do(line: str, cores: int) -> dict[str, Any]:
    """On a node."""
    (outcome,) = (one for one in Local(1, cores=cores).events([Job.from_json(line)]) if isinstance(one, Outcome))
    return {each.name: getattr(outcome, each.name) for each in fields(outcome) if each.name != "job"}
