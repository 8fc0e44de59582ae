"""How much does an engine add to a trial, beyond the start of Python with torch?

    python benchmarks/trials.py --keep

200 tiny trials, each in a process of its own, as many at once as there are cores; beside them as many processes that
import torch and end, started one after the other by as many threads. What a trial takes more is the engine's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from common import folder, write_json
from mnemoscope.engines import Job, Local, Outcome

ASKED = 0.3
"""Seconds that a trial may take more."""


def main() -> None:
    """Measure, print, and keep if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="how many")
    parser.add_argument("--keep", action="store_true", help="write to benchmarks/results")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    engine = Local()
    os.environ["OMP_NUM_THREADS"] = str(engine.threads)

    began = time.perf_counter()
    with ThreadPoolExecutor(engine.at_once) as pool:
        list(
            pool.map(
                lambda _: subprocess.run([sys.executable, "-c", "import torch"], check=True), range(options.trials)
            )
        )
    alone = (time.perf_counter() - began) / options.trials * engine.at_once

    began = time.perf_counter()
    with TemporaryDirectory() as root:
        jobs = [Job(str(n), "tiny:add", {"number": n}, root) for n in range(options.trials)]
        failed = [one for one in engine.events(jobs) if isinstance(one, Outcome) and one.error is not None]
        assert not failed, failed[0]
        assert len(list(Path(root).iterdir())) == options.trials
    each = (time.perf_counter() - began) / options.trials * engine.at_once

    row = {"trials": options.trials, "at once": engine.at_once, "seconds of a trial": round(each, 3),
           "seconds of a process that imports torch": round(alone, 3), "more": round(each - alone, 3)}  # fmt: skip
    for name, value in row.items():
        print(f"{name}: {value}")
    print(f"Asked: at most {ASKED} s more.")
    write_json(folder(options.keep) / "trials.json", row=row)


def _start(_: int) -> None:
    subprocess.run([sys.executable, "-c", "import torch"], check=True)


if __name__ == "__main__":
    main()
