"""Time that the engine `ray` adds to a trial, on a cluster of two local nodes.

    python benchmarks/ray_trials.py --trials 10000 --keep
    python benchmarks/ray_trials.py --parts waiting --keep      how long the driver takes to find the next event

Trials that do nothing run on two nodes of one core each, which `ray start` starts on this machine. Three rates are
compared: empty tasks of Ray, which run in Ray's own processes; empty trials, each in a separate process with its folder
sent there and back, as this library runs them; and the bare start of such a process without Ray. The difference of the
last two is the overhead of scheduling. The driver's own CPU time bounds the number of trials that one driver can
distribute in a second on a larger cluster. It asks for the next event among all submitted jobs, which are more on such
a cluster: the second part submits as many as the engine would on 100, 1,000 and 10,000 GPUs, and times the question.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import folder, option_parser, write_json
from mnemoscope.base.lazy_imports import import_extra

NODES = 2
"""Nodes of the cluster, each with one core."""


def main() -> None:
    """Measure, print, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--trials", type=int, default=10_000, help="number of trials")
    parser.add_argument("--processes", type=int, default=200, help="number of processes to start without Ray")
    parser.add_argument("--parts", nargs="+", default=["trials"], choices=("trials", "waiting"))
    options = parser.parse_args()
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    search = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(search)  # the nodes import the trial from here
    if "trials" in options.parts:
        row = {"trials": options.trials, "nodes": NODES, **start_processes(options.processes)}
        with cluster() as address:
            row |= run_on_cluster(address, options.trials)
        per_trial, per_process = (row[f"seconds per {name} on a core"] for name in ("trial", "process"))
        _write("ray_trials.json", row | {"seconds of scheduling per trial": per_trial - per_process}, options.keep)
    if "waiting" in options.parts:
        with cluster() as address:
            _write("ray_waiting.json", wait_among(address), options.keep)


def _write(name: str, row: dict[str, float], keep: bool) -> None:
    """Print a row, and write it with four digits."""
    for label, value in row.items():
        print(f"{label}: {value:.4g}")
    rounded = {label: value if isinstance(value, int) else float(f"{value:.4g}") for label, value in row.items()}
    write_json(folder(keep) / name, row=rounded)


def start_processes(number: int) -> dict[str, float]:
    """Return the time of a trial's process without Ray, with as many at a time as the cluster has nodes."""
    from mnemoscope.engines import Job, Local

    with TemporaryDirectory() as root:
        jobs = [Job(str(n), "empty_trial:nothing", {}, root, str(n)) for n in range(number)]
        start = time.perf_counter()
        for _ in Local(NODES, cores=NODES).events(jobs):
            pass
    return {"seconds per process on a core": (time.perf_counter() - start) * NODES / number}


def run_on_cluster(address: str, number: int) -> dict[str, float]:
    """Return the times of empty tasks of Ray and of empty trials, and the driver's CPU time."""
    from mnemoscope.engines import Job, Outcome
    from mnemoscope.engines.ray_cluster import Ray

    ray = _ray()
    ray.init(address, log_to_driver=False)
    while sum(node["Alive"] for node in ray.nodes()) < NODES:
        time.sleep(0.1)
    task = ray.remote(num_cpus=1)(_nothing)
    ray.get([task.remote() for _ in range(100)])  # starts Ray's own processes
    start = time.perf_counter()
    ray.get([task.remote() for _ in range(number)])
    tasks = (time.perf_counter() - start) / number
    with TemporaryDirectory() as root:
        jobs = [Job(str(n), "empty_trial:nothing", {}, root, str(n)) for n in range(number)]
        start, cpu = time.perf_counter(), time.process_time()
        ends: list[float] = []
        for event in Ray(address).events(jobs):
            if isinstance(event, Outcome):
                assert event.error is None, event
                ends.append(time.perf_counter() - start)
        cpu = time.process_time() - cpu
    ray.shutdown()
    last = max(1, number // 10)
    return {
        "seconds in all": ends[-1],
        "seconds per empty task of Ray": tasks,
        "seconds per trial on a core": ends[-1] * NODES / number,
        "the same of the last tenth": (ends[-1] - ends[-last]) * NODES / (last - 1) if last > 1 else ends[-1],
        "CPU seconds of the driver per trial": cpu / number,
    }


def wait_among(address: str, repeats: int = 200) -> dict[str, float]:
    """Return the driver's time to ask which of the submitted jobs has an event, as the engine does."""
    from mnemoscope.engines.ray_cluster import WAITING

    ray = _ray()
    ray.init(address, log_to_driver=False)
    task, row = ray.remote(num_cpus=1, num_returns="streaming")(_rest), {}
    for gpus in (1, 100, 1000, 10_000):
        running = {task.remote(): number for number in range(WAITING + 2 * gpus)}
        start = time.perf_counter()
        for _ in range(repeats):
            ray.wait(list(running), num_returns=1, timeout=0, fetch_local=False)
        row[f"seconds to wait among {len(running)} jobs"] = (time.perf_counter() - start) / repeats
        for each in running:
            ray.cancel(each, force=True)
    ray.shutdown()
    return row


def _ray() -> Any:
    return import_extra("ray", "ray", "This benchmark needs")


def _rest() -> Generator[None]:
    """Sleep until the job is cancelled."""
    time.sleep(3600)
    yield


def _nothing() -> None:
    """Do nothing."""


@contextmanager
def cluster() -> Generator[str]:
    """Start nodes of one core each on this machine, and stop them at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    first, others = ["--head", f"--port={port}", "--include-dashboard=false"], [f"--address=127.0.0.1:{port}"]
    nodes: list[subprocess.Popen[Any]] = []
    try:
        for number in range(NODES):
            nodes.append(_start_node(first if number == 0 else others))
            _wait_for(port)
        yield f"127.0.0.1:{port}"
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait()


def _start_node(arguments: list[str]) -> subprocess.Popen[Any]:
    command = [str(Path(sys.executable).parent / "ray"), "start", *arguments]
    command += ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--block"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _wait_for(port: int, seconds: float = 60.0) -> None:
    """Wait until the head node accepts connections."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"No Ray node answered within {seconds:g} s.")


if __name__ == "__main__":
    main()
