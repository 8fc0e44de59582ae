"""Jobs on this machine, several in parallel, each in a separate process: a crash affects no other job."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from math import inf, isinf
from pathlib import Path

from mnemoscope.base.validation import check_whole
from mnemoscope.engines.job import Event, Job, Outcome, Progress
from mnemoscope.engines.shared_gpu import multi_process_service, names_under_the_service

LOG_LINES = 30
"""Log lines kept in an error report."""
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment in which Python does not search the working directory: a `random.py` there would replace Python's."""
START_WORKER = """import sys
sys.path += [folder for folder in sys.argv[1:] if folder not in sys.path]
from mnemoscope.engines.worker import main
sys.exit(main())"""
"""Program of a worker. It also finds the modules that this process can import, but Python's and packages' first."""
INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a job that was interrupted and has reported it."""
STOP_TIMEOUT = 30.0
"""Time that an interrupted job has to write a checkpoint, in seconds."""


class Local:
    """Run each job in a subprocess.

    Args:
        max_jobs: number of jobs that run simultaneously; None for one per core (or per GPU).
        gpus: number of GPUs that are distributed among the jobs, one GPU per job; 0: all jobs see all GPUs.
        cores: CPU cores that are divided among the jobs; None for all available ones.
        share_gpu: start NVIDIA's Multi-Process Service, so that jobs use a GPU at the same time instead of in turns.

    """

    def __init__(
        self, max_jobs: int | None = None, gpus: int = 0, cores: int | None = None, share_gpu: bool = False
    ) -> None:
        cores = cores or available_cores()
        if max_jobs is not None:
            check_whole(1, max_jobs=max_jobs)
        check_whole(0, gpus=gpus)
        self.max_jobs = max_jobs or gpus or cores
        self.threads = max(1, cores // self.max_jobs)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else [str(n) for n in range(gpus)]
        self.gpus = (names_under_the_service(names) if share_gpu else names)[:gpus]
        self.share_gpu = share_gpu

    def events(self, jobs: Sequence[Job], seconds: float | None = None) -> Generator[Event]:
        """Run the jobs, and yield events as they happen: progress now and then, and an `Outcome` for each ended job.

        Args:
            jobs: the jobs, in the order in which they start.
            seconds: time after which the running jobs are interrupted, so that they write checkpoints. No job starts
                that needs more than the time left, and a job that did not start has no outcome. None: no limit.

        """
        waiting, running = deque(jobs), set[_Process]()
        free_slots = list(range(self.max_jobs))
        end = inf if seconds is None else time.monotonic() + seconds
        with ExitStack() as stack:
            service = stack.enter_context(multi_process_service()) if self.share_gpu else {}
            selector = stack.enter_context(selectors.DefaultSelector())
            try:
                while True:
                    while waiting and free_slots:
                        job = waiting.popleft()
                        if job.least_seconds > end - time.monotonic():
                            continue
                        slot = free_slots.pop(0)
                        process = _Process(job, slot, self._environment(slot, service))
                        running.add(process)
                        selector.register(process.messages, selectors.EVENT_READ, process)
                    if not running:
                        return
                    if time.monotonic() >= end:
                        waiting.clear()
                        end = _interrupt(running)
                    for key, _ in selector.select(None if isinf(end) else max(0.0, end - time.monotonic())):
                        process = key.data
                        yield from process.read()
                        if not process.ended:
                            continue
                        selector.unregister(process.messages)
                        running.remove(process)
                        free_slots.append(process.slot)
                        yield process.outcome()
            finally:
                _stop(running)

    def _environment(self, slot: int, service: Mapping[str, str]) -> dict[str, str]:
        settings = {"OMP_NUM_THREADS": str(self.threads), "MKL_NUM_THREADS": str(self.threads), **service}
        if self.gpus:
            settings["CUDA_VISIBLE_DEVICES"] = self.gpus[slot % len(self.gpus)]
        return {**os.environ, **settings, **SAFE_PATH}


class _Process:
    """The worker process of one job."""

    def __init__(self, job: Job, slot: int, environment: dict[str, str]) -> None:
        self.job, self.slot, self.started = job, slot, time.perf_counter()
        self.error: str | None = None
        self.done = self.ended = self.interrupted = False
        self.rest = b""
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process runs)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START_WORKER, *search_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches only this process, which forwards it
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.messages = self.process.stdout
        try:
            self.process.stdin.write((job.as_json() + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the worker ended before it could read; its log has the reason

    def read(self) -> Generator[Progress]:
        """Read the messages that have arrived, at least one, and yield progress; set `ended` after the last one."""
        content = os.read(self.messages.fileno(), 1 << 16)
        *lines, self.rest = (self.rest + content).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "progress" in message:
                yield Progress(self.job, **message["progress"])
            self.error = message.get("error", self.error)
            self.done = self.done or "done" in message
        self.ended = not content

    def outcome(self) -> Outcome:
        """Wait for the process to end, and return its outcome."""
        code = self.process.wait()
        error = self.error
        if error is None and not self.done:
            error = f"ended without an answer, {_exit_description(code)}"
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.messages.close()
        with self.log:
            seconds = time.perf_counter() - self.started
            interrupted = self.interrupted and not self.done and (self.error is None or code == INTERRUPTED)
            return Outcome(self.job, seconds, error, "" if error is None else self._log_tail(), interrupted)

    def _log_tail(self) -> str:
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - (1 << 14)))
        return "\n".join(self.log.read().decode(errors="replace").splitlines()[-LOG_LINES:])


def _exit_description(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    hint = ": was there too little memory?" if -code == signal.SIGKILL else ""
    return f"killed by {signal.Signals(-code).name}{hint}"


def _interrupt(running: set[_Process]) -> float:
    """Interrupt the processes so that each can write a checkpoint, or kill those that have had the time.

    Returns:
        The time at which to do so again.

    """
    for process in running:
        process.process.send_signal(signal.SIGKILL if process.interrupted else signal.SIGINT)
        process.interrupted = True
    return time.monotonic() + STOP_TIMEOUT


def _stop(running: set[_Process]) -> None:
    """Interrupt the processes so that each can write a checkpoint, and kill those that take too long."""
    deadline = _interrupt({process for process in running if not process.interrupted})
    for process in running:
        try:
            process.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.process.kill()
        process.outcome()


def search_path() -> list[str]:
    """Return the folders in which this process finds modules, as absolute paths."""
    return [str(Path.cwd() / folder) for folder in sys.path]


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
