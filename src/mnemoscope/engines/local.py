"""Jobs on this machine, some at a time, each in a process of its own: one that crashes takes no other with it."""

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
from collections.abc import Callable, Generator, Sequence

from mnemoscope.base.validation import check_whole
from mnemoscope.engines.job import Event, Job, Outcome, Progress

LINES = 30
"""Of a log that tell what went wrong."""
PATIENCE = 30.0
"""Seconds that an interrupted job has to write a checkpoint."""


class Local:
    """A subprocess for each job.

    Args:
        at_once: jobs that run at the same time; None: one for each core.
        gpus: that jobs take turns on, each one of them at a time; 0: all jobs see whatever there is.
        cores: that are divided among the jobs; None: all that there are.

    """

    def __init__(self, at_once: int | None = None, gpus: int = 0, cores: int | None = None) -> None:
        cores = cores or available_cores()
        if at_once is not None:
            check_whole(1, at_once=at_once)
        check_whole(0, gpus=gpus)
        self.at_once = at_once or gpus or cores
        self.threads = max(1, cores // self.at_once)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.gpus = (visible.split(",") if visible else [str(n) for n in range(gpus)])[:gpus]

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        """See `Engine.events`."""
        waiting, running = deque(jobs), set[_Process]()
        places = list(range(self.at_once))
        with selectors.DefaultSelector() as answers:
            try:
                while waiting or running:
                    while waiting and places:
                        process = _Process(waiting.popleft(), places.pop(0), self._environment)
                        running.add(process)
                        answers.register(process.answers, selectors.EVENT_READ, process)
                    for key, _ in answers.select():
                        process = key.data
                        yield from process.listen()
                        if not process.ended:
                            continue
                        answers.unregister(process.answers)
                        running.remove(process)
                        places.append(process.place)
                        yield process.outcome()
            finally:
                _stop(running)

    def _environment(self, place: int) -> dict[str, str]:
        own = {"OMP_NUM_THREADS": str(self.threads), "MKL_NUM_THREADS": str(self.threads)}
        if self.gpus:
            own["CUDA_VISIBLE_DEVICES"] = self.gpus[place % len(self.gpus)]
        return {**os.environ, **own}


class _Process:
    def __init__(self, job: Job, place: int, environment: Callable[[int], dict[str, str]]) -> None:
        self.job, self.place, self.began = job, place, time.perf_counter()
        self.error: str | None = None
        self.done = self.ended = False
        self.rest = b""
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (open for as long as the process)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mnemoscope.engines.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment(place),
            start_new_session=True,  # Ctrl-C is for the one who sent the job, who passes it on
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.answers = self.process.stdout
        try:
            self.process.stdin.write((job.as_json() + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended before it could read: its log says why

    def listen(self) -> Generator[Progress]:
        """Take the answers that are there, at least one; `ended` if there will be no more."""
        got = os.read(self.answers.fileno(), 1 << 16)
        *lines, self.rest = (self.rest + got).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "progress" in answer:
                yield Progress(self.job, **answer["progress"])
            self.error = answer.get("error", self.error)
            self.done = self.done or "done" in answer
        self.ended = not got

    def outcome(self) -> Outcome:
        code = self.process.wait()
        error = self.error
        if error is None and not self.done:
            error = f"ended without an answer, {_how(code)}"
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.answers.close()
        with self.log:
            return Outcome(self.job, time.perf_counter() - self.began, error, "" if error is None else self._end())

    def _end(self) -> str:
        """The last lines of what was printed."""
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - (1 << 14)))
        return "\n".join(self.log.read().decode(errors="replace").splitlines()[-LINES:])


def _how(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    hint = ": was there too little memory?" if -code == signal.SIGKILL else ""
    return f"killed by {signal.Signals(-code).name}{hint}"


def _stop(running: set[_Process]) -> None:
    """Let each write a checkpoint, as after Ctrl-C; who takes too long is killed."""
    for each in running:
        each.process.send_signal(signal.SIGINT)
    end = time.monotonic() + PATIENCE
    for each in running:
        try:
            each.process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.process.kill()
        each.outcome()


def available_cores() -> int:
    """Cores that this process may use, which may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
