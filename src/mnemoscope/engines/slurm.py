"""Jobs on a Slurm cluster, submitted by submitit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.base.validation import check_whole
from mnemoscope.engines.job import Event, Job, Outcome, event_fields
from mnemoscope.engines.local import SAFE_PATH, Local, search_path

WARNING_SECONDS = 90
"""Time before its limit at which Slurm warns a job, which then has half a minute to write a checkpoint. The warning may
be a minute early."""
STATES_EVERY = 10.0
"""Seconds between questions to Slurm's controller about the states of all jobs. Results need no question."""
RESULT_SECONDS = 15.0
"""Time in which the result of a job that has ended may appear on a shared file system."""
CANCEL_SECONDS = 60.0
"""Time in which cancelled jobs end: Slurm kills them 30 s (its KillWait) after the first signal."""
ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
"""Slurm's states of jobs that do not run again by themselves."""
GONE = "no longer known to Slurm"
"""State of a job that Slurm has forgotten, minutes after its end."""
AGAIN = "Run the same command again (a study or a sweep with --resume): it continues from the last checkpoint"
"""Remedy for a job that was stopped."""


class Slurm:
    """Run the jobs as one Slurm job array, without progress events. The nodes must share the folder of all runs.

    A job whose time is nearly over, or that is cancelled or preempted, writes a checkpoint. States of jobs come from
    squeue, so that the cluster needs no accounting (sacct).

    Args:
        partition: partition of the cluster; None for its default.
        minutes: time limit of a job. It is interrupted 90 s earlier, or after two thirds of a limit below 5 minutes.
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
        check_whole(1, minutes=minutes)
        self.cores, self.poll_every, self.cluster = cores, poll_every, cluster
        self.minutes, self.memory = minutes, memory
        self.executor.update_parameters(
            timeout_min=minutes, cpus_per_task=cores, gpus_per_node=gpus, mem_gb=memory, name="mnemoscope"
        )
        if cluster == "slurm":
            exports = [f"export {name}={value}" for name, value in SAFE_PATH.items()]  # where sbatch passes nothing on
            self.executor.update_parameters(
                slurm_partition=partition,
                slurm_array_parallelism=max_jobs,
                slurm_setup=exports,
                slurm_signal_delay_s=min(WARNING_SECONDS, 20 * minutes),
            )

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        started = time.perf_counter()
        with _environment(SAFE_PATH), self.executor.batch():
            submitted = [
                (job, self.executor.submit(_run_on_node, _resolved(job), self.cores, search_path())) for job in jobs
            ]
        waiting = dict(enumerate(submitted))
        asked, ended = -STATES_EVERY, dict[str, tuple[str, float]]()
        try:
            while waiting:
                now = time.perf_counter()
                if self.cluster == "slurm" and now >= asked + STATES_EVERY:
                    asked = now
                    states = _states([each.job_id for _, each in waiting.values()])
                    ended = {
                        name: ended.get(name, (state, now)) for name, state in states.items() if state in (*ENDED, GONE)
                    }
                for number, (job, slurm_job) in list(waiting.items()):
                    state, since = ended.get(slurm_job.job_id, ("", now))
                    if self._has_result(slurm_job) or now > since + RESULT_SECONDS:
                        del waiting[number]
                        yield self._outcome(job, slurm_job, now - started, state)
                time.sleep(self.poll_every if waiting else 0)
        finally:
            self._cancel([slurm_job for _, slurm_job in waiting.values()])

    def _has_result(self, slurm_job: Any) -> bool:
        """Return whether a job has written its result; a process of this machine may also have ended without one."""
        return slurm_job.paths.result_pickle.exists() if self.cluster == "slurm" else slurm_job.done()

    def _outcome(self, job: Job, slurm_job: Any, seconds: float, state: str) -> Outcome:
        if self.cluster == "local" or self._has_result(slurm_job):
            try:
                outcome = Outcome(job, **slurm_job.result())
            except Exception as error:  # submitit's report of any failure on the node
                reason = f"{type(error).__name__}: {_reason(str(error))}"
                return Outcome(job, seconds, reason, slurm_job.stderr() or "")
            if outcome.interrupted:  # Slurm may queue a preempted job again: the next call would meet it
                self._cancel([slurm_job], wait=False)
            return replace(outcome, interrupted=False)  # as it was not this process that stopped it
        remedies = {
            "TIMEOUT": f"its {self.minutes} minutes were over. {AGAIN}. The engine option minutes sets the time",
            "OUT_OF_MEMORY": f"{self.memory} GB were too little. Pass a larger value of the engine option memory",
            "FAILED": f"its log has the reason, if there is one. {AGAIN}",
        }
        message = f"Slurm reports {state}: {remedies.get(state, AGAIN)}."
        return Outcome(job, seconds, message, slurm_job.stderr() or "")

    def _cancel(self, slurm_jobs: Sequence[Any], wait: bool = True) -> None:
        """Cancel jobs, and wait until they have written their checkpoints, so that the next call does not meet them."""
        if self.cluster == "local":
            for each in slurm_jobs:
                each.cancel(check=False)
            return
        names = [each.job_id for each in slurm_jobs]
        if not names:
            return
        subprocess.run(["scancel", *names], check=False)
        end = time.perf_counter() + CANCEL_SECONDS
        while wait and time.perf_counter() < end:
            if all(state in (*ENDED, GONE) for state in _states(names).values()):
                return
            time.sleep(min(1.0, self.poll_every))


def _states(names: Sequence[str]) -> dict[str, str]:
    """Return Slurm's state of each job, by its name such as 12_0; "UNKNOWN" if the controller does not answer."""
    numbers = sorted({name.partition("_")[0] for name in names})
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T", f"--jobs={','.join(numbers)}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    found = dict(line.split() for line in answer.stdout.splitlines())
    forgotten = answer.returncode == 0 or "Invalid job id" in answer.stderr
    return {name: found.get(name, GONE if forgotten else "UNKNOWN") for name in names}


def _resolved(job: Job) -> str:
    """Return the job as JSON with an absolute root, which means the same on every node."""
    return replace(job, root=str(Path(job.root).resolve())).as_json()


def _reason(message: str) -> str:
    """Return the line of a message of submitit that says most: the last one of a traceback, or else the first one."""
    head, *rest = re.split(r"\n-{10,}\n", message)
    lines = (rest[0] if len(rest) > 1 else head.partition("\n")[0]).strip().splitlines()
    return lines[-1] if lines else "it gave no reason"


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
    job, started = Job.from_json(line), time.perf_counter()
    try:
        with _stop_signals():
            (outcome,) = (event for event in Local(1, cores=cores).events([job]) if isinstance(event, Outcome))
    except _Stopped as stop:
        outcome = Outcome(job, time.perf_counter() - started, f"{stop} {AGAIN}.", interrupted=True)
    return event_fields(outcome)


class _Stopped(KeyboardInterrupt):
    """Slurm asks a job to stop."""


@contextmanager
def _stop_signals() -> Generator[None]:
    """Raise `_Stopped` at the first of Slurm's signals: SIGUSR2 before the time is over, SIGTERM to cancel or preempt.

    Later ones are ignored: the job is writing its checkpoint.
    """
    reasons = {
        signal.SIGUSR2: "Slurm announced the end of the job's time; the engine option minutes sets it.",
        signal.SIGTERM: "Slurm stopped the job: it was cancelled or preempted.",
    }

    def stop(number: int, frame: FrameType | None) -> None:
        for each in reasons:
            signal.signal(each, signal.SIG_IGN)
        raise _Stopped(reasons[signal.Signals(number)])

    before = {number: signal.signal(number, stop) for number in reasons}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
