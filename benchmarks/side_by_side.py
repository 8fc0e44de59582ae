"""Trainings side by side on one GPU: iterations per second of all processes together.

    python benchmarks/side_by_side.py --keep          each process has the GPU for a slice of time
    python benchmarks/side_by_side.py --mps --keep    under NVIDIA's Multi-Process Service, kernels overlap

Four trainings: a neural Turing machine that copies (preset `ntm`, lengths 1 to 20), a RelRNN of 128 units on copying
with a delay of 200 (batch 10), and two blocks of Gated DeltaNet of 64 units on MQAR (8 pairs in 64 steps, batch 64)
with a vocabulary of 128 tokens, and with the published 8,192. Every process trains with another seed and one CPU
thread. All wait for each other after their first iterations, so that compiling and the recording of CUDA graphs do not
count, and then train for some seconds. Trainings per minute follow from the iterations of a training: 4,000 as in the
preset `ntm`, 10,000, and 3,000 for MQAR.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace

import mnemoscope as ms
from common import command, folder, option_parser, write_json
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.engines.shared_gpu import multi_process_service
from mnemoscope.training import StepInfo

RELRNN = RunConfig(
    "relrnn",
    task="copy",
    task_options={"delay": 200},
    cell="relrnn",
    cell_options={"short_term": 10, "relevant": 10},
    hidden_size=128,
    batch_size=10,
    learning_rate=2e-4,
)
MQAR = RunConfig(
    "mqar",
    task="mqar",
    task_options={"vocabulary": 128, "pairs": 8, "length": 64},
    cell="blocks",
    cell_options={"family": "gated-deltanet", "depth": 2, "heads": 2},
    hidden_size=64,
    batch_size=64,
    learning_rate=3e-3,
    clip=1.0,
)
PUBLISHED = replace(MQAR, name="mqar-8192", task_options={**MQAR.task_options, "vocabulary": 8192})
TRAININGS = {
    "ntm": (PRESETS["ntm"], 4_000),
    "relrnn": (RELRNN, 10_000),
    "mqar": (MQAR, 3_000),
    "mqar-8192": (PUBLISHED, 3_000),
}
"""Configurations, and the iterations of a training."""
WARM_UP = {"ntm": 250, "relrnn": 20, "mqar": 20, "mqar-8192": 20}
"""Iterations before the clock starts; the 20 lengths of copying have all been recorded as graphs by then."""
LONGEST = 10**6
"""Iterations of a configuration: more than the clock allows."""


@dataclass(frozen=True)
class Measurement:
    """Iterations per second of all processes together."""

    training: str
    processes: int
    iterations_per_second: float
    trainings_per_minute: float


def main() -> None:
    """Measure, print, write."""
    options = _options()
    if options.worker:
        _work(options.worker, options.seed, options.device, options.seconds)
        return
    with multi_process_service() if options.mps else nullcontext({}) as service:
        rows = [_measure(name, number, options, service) for name in options.trainings for number in options.processes]
    chosen = "" if options.trainings == [*TRAININGS] else "".join(f"_{name}" for name in options.trainings)
    results, name = folder(options.keep), f"side_by_side_{options.device}{'_mps' if options.mps else ''}{chosen}"
    write_json(results / f"{name}.json", seconds=options.seconds, rows=[asdict(row) for row in rows])
    (results / f"{name}.md").write_text(_table(rows, options.seconds))
    print(_table(rows, options.seconds))


def _measure(name: str, number: int, options: argparse.Namespace, service: Mapping[str, str]) -> Measurement:
    arguments = ["--worker", name, "--device", options.device, "--seconds", str(options.seconds)]
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, *arguments, "--seed", str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **service, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        for seed in range(number)
    ]
    for worker in workers:
        assert worker.stdout is not None
        if worker.stdout.readline() != "ready\n":
            raise RuntimeError(
                f"A training of {name} among {number} ended before it was measured; see its error above."
            )
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    rate = sum(float(worker.communicate()[0]) for worker in workers)
    row = Measurement(name, number, rate, 60 * rate / TRAININGS[name][1])
    print(row, flush=True)
    return row


def _work(name: str, seed: int, device: str, seconds: float) -> None:
    """Train until the time is over, and print the iterations per second."""
    config = replace(
        TRAININGS[name][0],
        seed=seed,
        device=device,
        steps=LONGEST,
        evaluate_every=LONGEST,
        checkpoint_every=LONGEST,
        threads=1,
        target_loss=None,
        target_score=None,
    )
    begin = 0.0

    def watch(info: StepInfo) -> None:
        nonlocal begin
        if info.step == WARM_UP[name]:
            print("ready", flush=True)
            sys.stdin.readline()
            begin = time.perf_counter()
        elif info.step > WARM_UP[name] and time.perf_counter() > begin + seconds:
            print((info.step - WARM_UP[name]) / (time.perf_counter() - begin), flush=True)
            os._exit(0)  # without a checkpoint: nobody resumes this run

    with tempfile.TemporaryDirectory() as root:
        ms.train(config, root, progress=False, callbacks=[watch])


def _table(rows: list[Measurement], seconds: float) -> str:
    lines = [
        f"`{command()}`: {seconds:g} s each.",
        "",
        "| training | processes | iterations per second, all together | trainings per minute | gain |",
        "|---|---|---|---|---|",
    ]
    alone = {row.training: row.iterations_per_second for row in rows if row.processes == 1}
    for row in rows:
        gain = f"{row.iterations_per_second / alone[row.training]:.1f}" if row.training in alone else ""
        rate, finished = f"{row.iterations_per_second:.0f}", f"{row.trainings_per_minute:.2f}"
        lines.append(f"| {row.training} | {row.processes} | {rate} | {finished} | {gain} |")
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--trainings", nargs="+", default=[*TRAININGS], choices=[*TRAININGS])
    parser.add_argument("--seconds", type=float, default=5.0, help="time of each measurement")
    parser.add_argument("--mps", action="store_true", help="start the Multi-Process Service for the measurement")
    parser.add_argument("--worker", default="", choices=["", *TRAININGS], help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
