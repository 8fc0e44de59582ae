"""Time and memory of attention to the past as sequences grow.

    python benchmarks/attention.py --keep
    python benchmarks/attention.py --device cuda --keep
    python benchmarks/attention.py --models memrnn sab --keep

Forward and backward pass of networks of 128 units, batch 10, as in Kerg, Fig 2 (centre). "eager MemRNN" is the naive
implementation: a list of states, stacked and attended to at every step. A short warm-up precedes each measurement.
Memory is the rise of the peak: of resident memory in a new process on the CPU, of allocated memory on a GPU. Slopes are
those of log seconds and log megabytes against log T, between the shortest length of at least 1,000 and the longest: 1
is linear, 2 quadratic. Below the table the numbers are compared with their targets. With `--models`, only these are
measured, and the rows of the others are those of the last results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from math import log

import torch
from torch import Tensor, nn

import mnemoscope as ms
from common import command, folder, option_parser, peak_memory, synchronise, write_json
from mnemoscope.cells import Cell
from mnemoscope.networks.attentive import memlstm, memrnn, rellstm, relrnn, sab

UNITS, BATCH, FEATURES, WARM_UP_STEPS = 128, 10, 10, 20
LENGTHS = {
    "rnn": (1000, 2000, 4000, 8000),
    "lstm": (1000, 2000, 4000, 8000),
    "relrnn": (200, 1000, 2000, 4000, 8000),
    "rellstm": (1000, 2000, 4000, 8000),
    "memrnn": (200, 1000, 2000),
    "memlstm": (1000, 2000),
    "sab": (1000, 2000, 4000),
    "eager MemRNN": (200, 1000),
}
MODELS = {
    "rnn": lambda: ms.cells.Elman(FEATURES, UNITS, "tanh"),
    "lstm": lambda: ms.cells.LSTM(FEATURES, UNITS),
    "relrnn": lambda: relrnn(FEATURES, UNITS),
    "rellstm": lambda: rellstm(FEATURES, UNITS),
    "memrnn": lambda: memrnn(FEATURES, UNITS),
    "memlstm": lambda: memlstm(FEATURES, UNITS),
    "sab": lambda: sab(FEATURES, UNITS),
    "eager MemRNN": lambda: Eager(),
}


class Eager(nn.Module):
    """A naive implementation of full attention."""

    def __init__(self) -> None:
        super().__init__()
        self.drive = nn.Linear(FEATURES, UNITS)
        self.recur, self.query, self.key = (nn.Linear(UNITS, UNITS, bias=False) for _ in range(3))
        self.direction = nn.Parameter(torch.randn(UNITS) / UNITS**0.5)

    def forward(self, xs: Tensor) -> Tensor:
        s = xs.new_zeros(xs.shape[1], UNITS)
        states, keys, outputs = [], [], []
        for u in self.drive(xs).unbind():
            h = torch.tanh(u + self.recur(s))
            states.append(h)
            keys.append(self.key(h))
            past = torch.stack(states)
            scores = torch.tanh(self.query(s) + torch.stack(keys)) @ self.direction
            s = h + (scores.softmax(0).unsqueeze(-1) * past).sum(0)
            outputs.append(s)
        return torch.stack(outputs)


@dataclass(frozen=True)
class Cost:
    """Cost of a forward and backward pass of one model at one length."""

    model: str
    length: int
    seconds: float
    megabytes: float


def main() -> None:
    """Measure each model and length, print, write."""
    options = _options()
    if options.one:
        print(json.dumps(asdict(_measure(options.one, options.length, options.device))))
        return
    results, name = folder(options.keep), f"attention_{options.device}"
    measured = {}
    if options.models:
        last = json.loads((results / f"{name}.json").read_text())["rows"]
        measured = {(row["model"], row["length"]): Cost(**row) for row in last}
    for model in options.models or LENGTHS:
        for length in LENGTHS[model]:
            row = measured[model, length] = _least_cost(model, length, options.device, options.repeats)
            print(f"{model:14} T = {length:5}: {row.seconds:8.3f} s, {row.megabytes:8.1f} MB", flush=True)
    rows = [measured[model, length] for model, lengths in LENGTHS.items() for length in lengths]
    write_json(results / f"{name}.json", units=UNITS, batch=BATCH, rows=[asdict(row) for row in rows])
    (results / f"{name}.md").write_text(_table(rows, options.device))
    print((results / f"{name}.md").read_text())


def _least_cost(model: str, length: int, device: str, repeats: int) -> Cost:
    """Return the least of several measurements, since disturbances only add to the cost."""
    costs = [
        _measure(model, length, device) if device == "cuda" else _measure_in_process(model, length)
        for _ in range(repeats)
    ]
    return Cost(model, length, min(cost.seconds for cost in costs), min(cost.megabytes for cost in costs))


def _measure_in_process(model: str, length: int) -> Cost:
    """Measure in a new process, since the peak of resident memory never falls."""
    call = [sys.executable, __file__, "--one", model, "--length", str(length)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return Cost(**json.loads(done.stdout))


def _measure(name: str, length: int, device: str) -> Cost:
    torch.manual_seed(0)
    model = MODELS[name]().to(device)

    def work(steps: int) -> None:
        xs = torch.randn(steps, BATCH, FEATURES, device=device)
        outputs = ms.scan(model, xs)[0] if isinstance(model, Cell) else model(xs)
        outputs.square().mean().backward()

    work(WARM_UP_STEPS)
    synchronise(device)
    before = peak_memory(device, reset=True)
    begin = time.perf_counter()
    work(length)
    synchronise(device)
    return Cost(name, length, time.perf_counter() - begin, (peak_memory(device) - before) / 1e6)


def _table(rows: list[Cost], device: str) -> str:
    lines = [
        f"`{command()}`: forward and backward, {UNITS} units, batch {BATCH}, on "
        + (f"one {torch.cuda.get_device_name()}." if device == "cuda" else f"{os.cpu_count()} CPU cores."),
        "",
        "| model | T | seconds | MB | MB per step | slope of time | slope of memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in LENGTHS:
        model_rows = [row for row in rows if row.model == model]
        first = next(row for row in model_rows if row.length >= 1000)
        for row in model_rows:
            slopes = ["", ""]
            if row is model_rows[-1] and row is not first:
                ratio = log(row.length / first.length)
                slopes = [
                    f"{log(row.seconds / first.seconds) / ratio:.2f}",
                    f"{log(row.megabytes / first.megabytes) / ratio:.2f}",
                ]
            lines.append(
                f"| {model} | {row.length:,} | {row.seconds:.3f} | {row.megabytes:.0f} | "
                f"{row.megabytes / row.length:.3f} | {slopes[0]} | {slopes[1]} |"
            )
    return "\n".join([*lines, "", *_targets(rows)]) + "\n"


def _targets(rows: list[Cost]) -> list[str]:
    """Compare the measurements with their targets."""
    costs = {(row.model, row.length): row for row in rows}
    short, long, full = costs["relrnn", 1000], costs["relrnn", 8000], costs["memrnn", 1000]
    eager = costs["eager MemRNN", 1000]
    whole = {name: 1e3 * costs[name, 1000].seconds / 1000 for name in ("memrnn", "memlstm", "sab")}
    return [
        f"- RelRNN from T = 1,000 to 8,000: {long.seconds / short.seconds / 8:.2f} times linear in time, "
        f"{long.megabytes / short.megabytes / 8:.2f} in memory (target: at most 1.2); "
        f"{long.megabytes / 8000:.3f} MB per step (target: below 0.15).",
        f"- RelRNN at T = 1,000 against an eager MemRNN: {eager.megabytes / short.megabytes:.0f} times less memory "
        f"(target: 20), {eager.seconds / short.seconds:.0f} times less time (target: 15).",
        f"- MemRNN at T = 1,000 against an eager one: {eager.megabytes / full.megabytes:.0f} times less memory "
        f"(target: 5), {eager.seconds / full.seconds:.1f} times less time.",
        f"- Milliseconds per step at T = 1,000: MemRNN {whole['memrnn']:.3f}, MemLSTM {whole['memlstm']:.3f}, "
        f"SAB {whole['sab']:.3f} (target on a GPU: at most 0.1).",
    ]


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--repeats", type=int, default=2, help="measurements, of which the least counts")
    parser.add_argument("--models", nargs="+", choices=tuple(LENGTHS), help="models to measure; all by default")
    parser.add_argument("--one", choices=tuple(LENGTHS), help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, default=1000, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
