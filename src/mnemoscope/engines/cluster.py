"""Jobs on a Ray cluster: one that runs already, or one of this machine's own."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mnemoscope.engines.carrying import packed, unpack
from mnemoscope.engines.job import Event, Job, Outcome, Progress
from mnemoscope.engines.local import Local
from mnemoscope.registry.plugins import VARIABLE

LAST = "trial.json"
"""What says that a folder is whole."""


class Ray:
    """A Ray task for each job, which runs it in a process of its own, as `Local` does.

    Nodes need not see this machine's files: what a job has written so far goes with it, what it writes comes back. A
    job whose node is lost is run again elsewhere. Authentication is as the cluster has it: head, nodes and this process
    need the same token (RAY_AUTH_TOKEN or its file). Plugins that are used here must be there as well.

    Args:
        address: of a cluster that runs ("auto": the one of this machine, or of RAY_ADDRESS); None: one is started here,
            and ends with this process.
        cores: that a job takes.
        gpus: that a job takes, or the part of one.
        retries: of a job whose node or process is lost.

    """

    def __init__(self, address: str | None = None, cores: float = 1, gpus: float = 0, retries: int = 3) -> None:
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ModuleNotFoundError("The engine ray needs Ray: pip install 'mnemoscope[ray]'.") from error
        self.ray, self.address = ray, address
        self.options = {"num_cpus": cores, "num_gpus": gpus, "max_retries": retries, "num_returns": "streaming"}
        self.threads = max(1, int(cores))

    def events(self, jobs: Sequence[Job]) -> Generator[Event]:
        """See `Engine.events`."""
        ray, began_here = self.ray, False
        if not ray.is_initialized():
            _check_reachable(self.address)
            own = self.address is None  # without an address, Ray would take the last cluster of this machine
            ray.init("local" if own else self.address, include_dashboard=False if own else None, log_to_driver=False)
            began_here = True
        task = ray.remote(**self.options)(_do)
        began = time.perf_counter()
        plugins = os.environ.get(VARIABLE, "")
        running: dict[Any, Job] = {
            task.remote(job.as_json(), packed(Path(job.root, job.own)), self.threads, plugins): job for job in jobs
        }
        try:
            while running:
                ready, _ = ray.wait(list(running), num_returns=1, timeout=None, fetch_local=False)
                for answers in ready:
                    event = self._next(running[answers], answers, time.perf_counter() - began)
                    if isinstance(event, Outcome):
                        del running[answers]
                    yield event
        finally:
            for answers in running:
                ray.cancel(answers, force=True)
            if began_here:
                ray.shutdown()

    def _next(self, job: Job, answers: Any, seconds: float) -> Event:
        """The next answer of a job: its progress, or its end."""
        try:
            answer = self.ray.get(next(answers))
        except StopIteration:
            return Outcome(job, seconds, "ended without an answer")
        except self.ray.exceptions.RayError as error:
            return Outcome(job, seconds, f"{type(error).__name__}: {str(error).splitlines()[0]}", str(error))
        if "progress" in answer:
            return Progress(job, **answer["progress"])
        if answer["files"]:
            unpack(answer["files"], Path(job.root, job.own), LAST)
        return Outcome(job, answer["seconds"], answer["error"], answer["log"])


def _check_reachable(address: str | None) -> None:
    """Ray would go on trying, without a word."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ConnectionError(f"No Ray cluster answers at {address}: {error}.") from error


def _do(line: str, before: bytes, threads: int, plugins: str) -> Generator[dict[str, Any]]:
    """On a node: do the job in a folder of its own, and send back what it has written."""
    os.environ[VARIABLE] = plugins
    with TemporaryDirectory(prefix="mnemoscope-") as root:
        job = replace(Job.from_json(line), root=root)
        unpack(before, Path(root, job.own), LAST)
        for event in Local(1, cores=threads).events([job]):
            own = {each.name: getattr(event, each.name) for each in fields(event) if each.name != "job"}
            yield {"progress": own} if isinstance(event, Progress) else {"files": packed(Path(root, job.own)), **own}
