"""How much does an engine add to a trial, beyond the start of Python with torch?

    python benchmarks/trials.py --keep

200 tiny trials, each in a process of its own, as many at once as there are cores; beside them as many processes that
import torch and end, started one after the other by as many threads. What a trial takes more is the engine's: of time,
on a machine that does nothing else, and of the time of CPUs, its own and that of all processes, also on a busy one. A
trial of a study imports more than torch; what that takes is told too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from common import folder, write_json
from mnemoscope.engines import Job, Local, Outcome

ASKED = 0.3
"""Seconds that a trial may take more."""
STUDY = "import mnemoscope.replication.runner"


def main() -> None:
    """Measure, print, and keep if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="how many")
    parser.add_argument("--keep", action="store_true", help="write to benchmarks/results")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    engine = Local()
    os.environ["OMP_NUM_THREADS"] = str(engine.threads)
    number, at_once = options.trials, engine.max_jobs

    def processes(of: int, code: str) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda _: subprocess.run([sys.executable, "-c", code], check=True), range(of)))

    def trials() -> None:
        with TemporaryDirectory() as root:
            jobs = [Job(str(n), "tiny:add", {"number": n}, root) for n in range(number)]
            failed = [one for one in engine.events(jobs) if isinstance(one, Outcome) and one.error is not None]
            assert not failed, failed[0]
            assert len(list(Path(root).iterdir())) == number

    alone, alone_cpu = _measured(lambda: processes(number, "import torch"), number)
    each, each_cpu = _measured(trials, number)
    _, study_cpu = _measured(lambda: processes(max(1, number // 10), STUDY), max(1, number // 10))
    row = {
        "trials": number, "at once": at_once,
        "seconds of a trial": round(each * at_once, 3),
        "seconds of a process that imports torch": round(alone * at_once, 3),
        "more": round((each - alone) * at_once, 3),
        "CPU seconds of a trial": round(each_cpu, 3),
        "CPU seconds of a process that imports torch": round(alone_cpu, 3),
        "more CPU seconds": round(each_cpu - alone_cpu, 3),
        "CPU seconds of a process that imports what a study's trial does": round(study_cpu, 3),
    }  # fmt: skip
    for name, value in row.items():
        print(f"{name}: {value}")
    print(f"Asked: at most {ASKED} s more.")
    write_json(folder(options.keep) / "trials.json", row=row)


def _measured(act: Callable[[], None], number: int) -> tuple[float, float]:
    """Seconds and CPU seconds of this process and all that it has waited for, divided by a number."""
    began, before = time.perf_counter(), sum(os.times()[:4])
    act()
    return (time.perf_counter() - began) / number, (sum(os.times()[:4]) - before) / number


if __name__ == "__main__":
    main()
