"""Run the test of the Ray engine on its cluster, in a process that starts with the cluster's token.

python ray_driver.py ADDRESS FOLDER PID_OF_THE_SECOND_NODE
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from mnemoscope.engines import Job, Outcome
from mnemoscope.engines.ray_cluster import Ray
from mnemoscope.replication import run_study

NUMBER = 6


def alive(ray):
    return sum(node["Alive"] for node in ray.nodes())


def kill(node):
    """Kill a node with all processes of its session."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(path.name)) == node:
                os.kill(int(path.name), signal.SIGKILL)


def main():
    import ray  # pyright: ignore[reportMissingImports]

    address, folder, second = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    ray.init(address, log_to_driver=False)
    while alive(ray) < 2:
        time.sleep(0.1)
    result = run_study("fisher-delay-line", "smoke", root=folder / "there", progress=False, engine=Ray(address))
    assert not result.failed, result.failed

    jobs = [
        Job(str(n), "engine_jobs:write", {"number": n, "wait": 2.0, "folder": f"lost/{n}"}, str(folder), f"lost/{n}")
        for n in range(NUMBER)
    ]
    ended = []
    for event in Ray(address).events(jobs):
        if isinstance(event, Outcome):
            ended.append(event)
            if len(ended) == 2:
                kill(second)
    assert not any(outcome.error for outcome in ended), ended
    while alive(ray) > 1:  # the cluster has noticed the loss
        time.sleep(0.1)


if __name__ == "__main__":
    main()
