"""Run the test of the Ray engine on its cluster, in a process that starts with the cluster's token.

python ray_driver.py ADDRESS FOLDER PID_OF_THE_SECOND_NODE
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from mnemoscope.arena import read_arena, run_arena
from mnemoscope.engines import Job, Outcome, Progress
from mnemoscope.engines.ray_cluster import Ray
from mnemoscope.replication import run_study

NUMBER = 6
STEPS = 300
"""Steps of the jobs that a lost node interrupts, each of 0.05 s."""


def alive(ray):
    return sum(node["Alive"] for node in ray.nodes())


def kill(node):
    """Kill a node with all processes of its session."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(path.name)) == node:
                os.kill(int(path.name), signal.SIGKILL)


class Interrupted:
    """The engine, interrupted as by Ctrl-C when a file of this name has come back, unless it is None."""

    def __init__(self, engine, folder, name):
        self.engine, self.folder, self.name, self.first = engine, folder, name, None

    def events(self, jobs):
        for event in self.engine.events(jobs):
            if isinstance(event, Progress) and self.first is None:
                self.first = event.done
            if self.name is not None and list(self.folder.rglob(self.name)):
                raise KeyboardInterrupt
            yield event


def interrupt_an_arena(address, folder):
    """Interrupt the first training of an arena, and finish the arena by another call."""
    arena = read_arena("tiny").part(["gru"], ["parity"])
    with suppress(KeyboardInterrupt):
        engine = Interrupted(Ray(address, save_every=0.0), folder, "checkpoint.safetensors")
        run_arena(arena, folder, engine=engine, progress=False)
    assert list(folder.rglob("checkpoint.safetensors"))
    assert not list(folder.rglob("result.json"))
    engine = Interrupted(Ray(address), folder, None)
    result = run_arena(arena, folder, engine=engine, progress=False)
    assert (result.finished, result.failed) == (4, [])
    assert engine.first >= 100, "it continues from the checkpoint at step 100"


def lose_a_node(address, folder, second):
    """Lose a node while each of two nodes runs a long job, and others wait."""
    steps = {"number": STEPS}
    jobs = [Job(name, "engine_jobs:save", {**steps, "folder": name}, str(folder), name) for name in ("a", "b")]
    jobs += [
        Job(str(n), "engine_jobs:write", {"number": n, "folder": f"lost/{n}"}, str(folder), f"lost/{n}")
        for n in range(NUMBER)
    ]
    ended, begun = [], {"a": 0, "b": 0}
    for event in Ray(address, save_every=1.0).events(jobs):
        if isinstance(event, Outcome):
            ended.append(event)
        elif event.job.name in begun and second is not None:
            begun[event.job.name] = event.done
            if min(begun.values()) > STEPS / 2:
                kill(second)
                second = None
    assert not any(outcome.error for outcome in ended), ended
    assert len(ended) == len(jobs)
    starts = {name: [int(line) for line in (folder / name / "begun").read_text().split()] for name in begun}
    assert sorted(map(len, starts.values())) == [1, 2], "one of the two jobs was lost, and ran again"
    assert max(max(starts.values(), key=len)) > 0, "it continued from the files that had come back"


def main():
    import ray  # pyright: ignore[reportMissingImports]

    address, folder, second = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    ray.init(address, log_to_driver=False)
    while alive(ray) < 2:
        time.sleep(0.1)
    result = run_study("fisher-delay-line", "smoke", root=folder / "there", progress=False, engine=Ray(address))
    assert not result.failed, result.failed
    interrupt_an_arena(address, folder / "arena")
    lose_a_node(address, folder, second)
    while alive(ray) > 1:  # the cluster has noticed the loss
        time.sleep(0.1)


if __name__ == "__main__":
    main()
