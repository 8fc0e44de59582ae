"""Jobs on a Ray cluster: a running one, or one that is started on this machine."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.engines.afterwards import run_if_killed
from mnemoscope.engines.folder_transfer import FolderChanges, pack_folder, unpack_folder
from mnemoscope.engines.job import Event, Job, Outcome, Progress, event_fields
from mnemoscope.engines.local import Local
from mnemoscope.registry.plugins import VARIABLE

REMOVE = 'for n in 1 2 3 4; do sleep 1; rm -rf "$0"; done'
"""Program of the shell that removes a folder, in which a job that is just being stopped may still write."""
WAITING = 100
"""Jobs that wait on the cluster for a free node, besides as many as the cluster runs at a time. A new node finds work,
and an autoscaler sees demand; but the time to ask for the next event grows with the number of submitted jobs."""
MESSAGES = 100
"""Messages about progress that the jobs of a cluster send in a second, at most. The driver takes some milliseconds for
each, and a training alone would send ten."""
TRANSFERS = 10
"""Times in a second, at most, at which running jobs send their files. The driver takes some 15 ms for each."""


class Ray:
    """Run each job as a Ray task, in a separate process, as `Local` does.

    Nodes need no shared file system: the files that a job has written before are sent with it, and its new files come
    back, also while it runs. A job whose node is lost continues on another node, and one that was interrupted continues
    in the next call, from the files that have come back. Authentication follows the cluster: head, nodes and this
    process need the same token (RAY_AUTH_TOKEN or its file). Plugins must be installed on the nodes as well.

    Args:
        address: address of a running cluster ("auto": the one of this machine, or of RAY_ADDRESS). None starts a
            cluster on this machine, which ends with this process.
        cores: CPU cores of a job.
        gpus: GPUs of a job; a fraction shares a GPU.
        retries: restarts of a job whose node or process is lost.
        save_every: seconds after which the files of a running job come back, with its next message about progress;
            longer on a cluster with many jobs.

    """

    def __init__(
        self,
        address: str | None = None,
        cores: float = 1,
        gpus: float = 0,
        retries: int = 3,
        save_every: float = 30.0,
    ) -> None:
        self.ray, self.address = import_extra("ray", "ray", "The engine ray needs"), address
        # Ray's own retries would start a job from the files that it was submitted with, and need attempts that send
        # equally many messages.
        self.options = {"num_cpus": cores, "num_gpus": gpus, "max_retries": 0, "num_returns": "streaming"}
        self.threads, self.retries, self.save_every = max(1, int(cores)), retries, save_every

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        ray, started_here = self.ray, False
        if not ray.is_initialized():
            _check_reachable(self.address)
            local = self.address is None  # without an address, Ray would take the last cluster of this machine
            ray.init(
                "local" if local else self.address, include_dashboard=False if local else None, log_to_driver=False
            )
            started_here = True
        started = time.perf_counter()
        waiting, running = deque((job, 0) for job in jobs), dict[Any, tuple[Job, int]]()
        try:
            while waiting or running:
                at_a_time = self._at_a_time()
                while waiting and len(running) < WAITING + 2 * at_a_time:
                    job, losses = waiting.popleft()
                    running[self._submit(job, at_a_time)] = job, losses
                for messages in self._ready(list(running)):
                    job, losses = running[messages]
                    event, lost = self._next(job, messages, time.perf_counter() - started)
                    if isinstance(event, Outcome):
                        del running[messages]
                    if lost and losses < self.retries:
                        ray.cancel(messages, force=True)  # a lost message does not end its task
                        waiting.appendleft((job, losses + 1))
                    else:
                        yield event
        finally:
            for messages in running:
                ray.cancel(messages, force=True)
            if started_here:
                ray.shutdown()

    def _submit(self, job: Job, at_a_time: int) -> Any:
        """Submit a job with its present files, and return its stream of messages."""
        task = self.ray.remote(**self.options)(_run_on_node)
        pauses = max(1.0, at_a_time / MESSAGES), max(self.save_every, at_a_time / TRANSFERS)
        files = pack_folder(Path(job.root, job.folder))
        return task.remote(job.as_json(), files, self.threads, os.environ.get(VARIABLE, ""), *pauses)

    def _at_a_time(self) -> int:
        """Return the number of jobs that the cluster can run at present."""
        resources = self.ray.cluster_resources()
        wanted = {"CPU": self.options["num_cpus"], "GPU": self.options["num_gpus"]}
        return int(min((resources.get(name, 0) / number for name, number in wanted.items() if number), default=0))

    def _ready(self, running: list[Any]) -> list[Any]:
        """Wait for an event, and return the message streams of all jobs that have one.

        The time of a question grows with the number of jobs, so that one question serves all events.
        """
        self.ray.wait(running, num_returns=1, timeout=None, fetch_local=False)
        return self.ray.wait(running, num_returns=len(running), timeout=0, fetch_local=False)[0]

    def _next(self, job: Job, messages: Any, seconds: float) -> tuple[Event, bool]:
        """Return the next event of a job, its progress or its end, and whether it ended because its node was lost."""
        errors = self.ray.exceptions
        try:
            message = self.ray.get(next(messages))
        except StopIteration:
            return Outcome(job, seconds, "ended without an answer"), False
        except errors.RayError as error:
            lost = (errors.NodeDiedError, errors.WorkerCrashedError, errors.ObjectLostError, errors.OutOfMemoryError)
            reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            return Outcome(job, seconds, reason, str(error)), isinstance(error, lost)
        unpack_folder(message["files"], Path(job.root, job.folder), message["removed"])
        if "progress" in message:
            return Progress(job, **message["progress"]), False
        return Outcome(job, message["seconds"], message["error"], message["log"]), False


def _check_reachable(address: str | None) -> None:
    """Raise unless the address accepts connections; Ray would retry silently and forever."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ConnectionError(f"No Ray cluster answers at {address}: {error}.") from error


def _run_on_node(
    line: str, files: bytes, threads: int, plugins: str, pause: float, save_every: float
) -> Generator[dict[str, Any]]:
    """Run a job in a temporary folder of a node, and send its progress and its files back.

    There are at least `pause` seconds between two messages about its progress. One of them has the changed files if
    `save_every` seconds have passed since those before.
    """
    os.environ[VARIABLE] = plugins
    sent, saved = -pause, time.monotonic()
    with TemporaryDirectory(prefix="mnemoscope-") as root, run_if_killed(["sh", "-c", REMOVE, root]):
        job = replace(Job.from_json(line), root=root)
        folder = Path(root, job.folder)
        unpack_folder(files, folder)
        changes = FolderChanges(folder)
        for event in Local(1, cores=threads).events([job]):
            now, message = time.monotonic(), dict[str, Any](files=b"", removed=[])
            if isinstance(event, Progress):
                if now < sent + pause:
                    continue
                sent, message["progress"] = now, event_fields(event)
            else:
                message |= event_fields(event)
            if isinstance(event, Outcome) or now >= saved + save_every:
                saved, (message["files"], message["removed"]) = now, changes.pack()
            yield message
