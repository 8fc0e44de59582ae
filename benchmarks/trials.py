"""Time that an engine adds to a trial, beyond the start of Python with torch.

    python benchmarks/trials.py --keep

200 tiny trials, each in its process, with as many processes at a time as there are cores, are compared with as many
processes that only import torch. The difference is the overhead of the engine: in wall time on an idle machine, and in
CPU time of all processes also on a busy one. A trial of a study imports more than torch; this time is reported too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from common import folder, option_parser, write_json
from mnemoscope.engines import Job, Local, Outcome

TARGET = 0.3
"""Largest overhead of a trial, in seconds."""
STUDY_IMPORTS = "import mnemoscope.replication.runner"
"""Imports of a process that runs a trial of a study."""


def main() -> None:
    """Measure, print, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--trials", type=int, default=200, help="number of trials")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    engine = Local()
    os.environ["OMP_NUM_THREADS"] = str(engine.threads)
    number, at_once = options.trials, engine.max_jobs

    def processes(count: int, code: str) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda _: subprocess.run([sys.executable, "-c", code], check=True), range(count)))

    def trials() -> None:
        with TemporaryDirectory() as root:
            jobs = [Job(str(n), "tiny_trial:add", {"number": n}, root) for n in range(number)]
            failed = [event for event in engine.events(jobs) if isinstance(event, Outcome) and event.error is not None]
            assert not failed, failed[0]
            assert len(list(Path(root).iterdir())) == number

    process, process_cpu = _measure(lambda: processes(number, "import torch"), number)
    trial, trial_cpu = _measure(trials, number)
    few = max(1, number // 10)
    _, study_cpu = _measure(lambda: processes(few, STUDY_IMPORTS), few)
    row = {
        "trials": number,
        "at a time": at_once,
        "seconds of a trial": round(trial * at_once, 3),
        "seconds of a process that imports torch": round(process * at_once, 3),
        "overhead in seconds": round((trial - process) * at_once, 3),
        "CPU seconds of a trial": round(trial_cpu, 3),
        "CPU seconds of a process that imports torch": round(process_cpu, 3),
        "overhead in CPU seconds": round(trial_cpu - process_cpu, 3),
        "CPU seconds of a process with the imports of a study's trial": round(study_cpu, 3),
    }
    for name, value in row.items():
        print(f"{name}: {value}")
    print(f"Target: an overhead of at most {TARGET} s.")
    write_json(folder(options.keep) / "trials.json", row=row)


def _measure(work: Callable[[], None], number: int) -> tuple[float, float]:
    """Return wall seconds, and CPU seconds of this process and its finished children, divided by `number`."""
    start, before = time.perf_counter(), sum(os.times()[:4])
    work()
    return (time.perf_counter() - start) / number, (sum(os.times()[:4]) - before) / number


if __name__ == "__main__":
    main()
