"""Jobs on a Ray cluster: a running one, or one that is started on this machine."""

from __future__ import annotations

import io
import os
import socket
import tarfile
import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mnemoscope.base.files import TEMPORARY_PREFIX
from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.engines.job import Event, Job, Outcome, Progress, event_fields
from mnemoscope.engines.local import Local
from mnemoscope.registry.plugins import VARIABLE

WAITING = 100
"""Jobs that wait on the cluster for a free node, besides as many as the cluster runs at a time. A new node finds work,
and an autoscaler sees demand; but the time to ask for the next event grows with the number of submitted jobs."""
MESSAGES = 100
"""Messages about progress that the jobs of a cluster send in a second, at most. The driver takes some milliseconds for
each, and a training alone would send ten."""
LAST = "trial.json"
"""File whose presence marks the folder of a job as complete."""


class Ray:
    """Run each job as a Ray task, in a separate process, as `Local` does.

    Nodes need no shared file system: the files that a job has written before are sent with it, and its new files come
    back. A job whose node is lost runs again on another node. Authentication follows the cluster: head, nodes and this
    process need the same token (RAY_AUTH_TOKEN or its file). Plugins must be installed on the nodes as well.

    Args:
        address: address of a running cluster ("auto": the one of this machine, or of RAY_ADDRESS). None starts a
            cluster on this machine, which ends with this process.
        cores: CPU cores of a job.
        gpus: GPUs of a job; a fraction shares a GPU.
        retries: restarts of a job whose node or process is lost.

    """

    def __init__(self, address: str | None = None, cores: float = 1, gpus: float = 0, retries: int = 3) -> None:
        self.ray, self.address = import_extra("ray", "ray", "The engine ray needs"), address
        self.options = {"num_cpus": cores, "num_gpus": gpus, "max_retries": retries, "num_returns": "streaming"}
        self.threads = max(1, int(cores))

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        ray, started_here = self.ray, False
        if not ray.is_initialized():
            _check_reachable(self.address)
            local = self.address is None  # without an address, Ray would take the last cluster of this machine
            ray.init(
                "local" if local else self.address, include_dashboard=False if local else None, log_to_driver=False
            )
            started_here = True
        task = ray.remote(**self.options)(_run_on_node)
        started = time.perf_counter()
        waiting, running = deque(jobs), dict[Any, Job]()
        try:
            while waiting or running:
                at_a_time = self._at_a_time()
                pause = max(1.0, at_a_time / MESSAGES)
                while waiting and len(running) < WAITING + 2 * at_a_time:
                    job = waiting.popleft()
                    files = pack_folder(Path(job.root, job.folder))
                    running[task.remote(job.as_json(), files, self.threads, os.environ.get(VARIABLE, ""), pause)] = job
                for messages in self._ready(list(running)):
                    event = self._next(running[messages], messages, time.perf_counter() - started)
                    if isinstance(event, Outcome):
                        del running[messages]
                    yield event
        finally:
            for messages in running:
                ray.cancel(messages, force=True)
            if started_here:
                ray.shutdown()

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

    def _next(self, job: Job, messages: Any, seconds: float) -> Event:
        """Return the next event of a job: its progress, or its end."""
        try:
            message = self.ray.get(next(messages))
        except StopIteration:
            return Outcome(job, seconds, "ended without an answer")
        except self.ray.exceptions.RayError as error:
            return Outcome(job, seconds, f"{type(error).__name__}: {str(error).splitlines()[0]}", str(error))
        if "progress" in message:
            return Progress(job, **message["progress"])
        if message["files"]:
            unpack_folder(message["files"], Path(job.root, job.folder), LAST)
        return Outcome(job, message["seconds"], message["error"], message["log"])


def _check_reachable(address: str | None) -> None:
    """Raise unless the address accepts connections; Ray would retry silently and forever."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ConnectionError(f"No Ray cluster answers at {address}: {error}.") from error


def _run_on_node(line: str, files: bytes, threads: int, plugins: str, pause: float) -> Generator[dict[str, Any]]:
    """Run a job in a temporary folder of a node, and send its progress and its files back.

    There are at least `pause` seconds between two messages about its progress.
    """
    os.environ[VARIABLE] = plugins
    sent = -pause
    with TemporaryDirectory(prefix="mnemoscope-") as root:
        job = replace(Job.from_json(line), root=root)
        unpack_folder(files, Path(root, job.folder), LAST)
        for event in Local(1, cores=threads).events([job]):
            if isinstance(event, Progress):
                if time.monotonic() >= sent + pause:
                    sent = time.monotonic()
                    yield {"progress": event_fields(event)}
            else:
                yield {"files": pack_folder(Path(root, job.folder)), **event_fields(event)}


def pack_folder(folder: Path) -> bytes:
    """Return all files below a folder as an archive; an absent folder gives an empty archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith(TEMPORARY_PREFIX):
                archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return buffer.getvalue()


def unpack_folder(content: bytes, folder: Path, last: str) -> None:
    """Unpack an archive from `pack_folder` below a folder, which is created if absent, each file atomically.

    The file named `last` is moved into place after all others, so that its presence marks a complete folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=folder) as temporary:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            archive.extractall(temporary, filter="data")
        files = [path.relative_to(temporary) for path in sorted(Path(temporary).rglob("*")) if path.is_file()]
        for path in sorted(files, key=lambda path: path.name == last):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            Path(temporary, path).replace(folder / path)
