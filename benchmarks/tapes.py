"""Time that a neural Turing machine takes to learn from a batch.

    python benchmarks/tapes.py --peer ../pytorch-ntm --keep     also the peer, from its checkout
    python benchmarks/tapes.py --device cuda --keep             mnemoscope alone: the peer runs on the CPU only

Forward and backward pass over the copy task of Graves et al. (2014) with 20 vectors of 8 bits (41 steps), a controller
of 100 LSTM units, 128 slots of 20 numbers, one read head and one write head. Both run in turns of several batches, so
that a batch finds the allocator as in training, with one thread each (more do not help at these sizes). The ratio is
that of the least seconds of each.

On a GPU, a pass is measured as it is, and as the CUDA graph that training replays. Then the presets `ntm` and `matntm`
train on lengths 1 to 20 (without a curriculum), with the evaluations and checkpoints of the preset, and the time of an
iteration is the mean over the second half.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy

import mnemoscope as ms
from common import command, folder, option_parser, synchronise, write_json
from mnemoscope import networks
from mnemoscope.config import PRESETS
from mnemoscope.tasks import Batch, BitCopy, MatrixCopy, Task
from mnemoscope.training.bptt import cut_windows
from mnemoscope.training.graphed_pass import GraphedPass, training_stream

LENGTH, BITS, UNITS, SLOTS, SLOT_SIZE = 20, 8, 100, 128, 20
BATCHES = (16, 64)
ITERATIONS = 1000
"""Iterations of the trainings on a GPU."""
PUBLISHED = 200_000
"""Iterations of the published trainings."""
ROUNDS = 3
"""Turns of each implementation."""


@dataclass(frozen=True)
class Measurement:
    """Least seconds of a forward and backward pass."""

    machine: str
    batch: int
    seconds: float


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(1)
    rows = [row for batch in BATCHES for row in _measure(batch, options)]
    trained = {name: _train(name, options.iterations) for name in ("ntm", "matntm")} if options.device == "cuda" else {}
    results, name = folder(options.keep), f"tapes_{options.device}"
    content = {"rows": [asdict(row) for row in rows], **({"seconds_per_iteration": trained} if trained else {})}
    write_json(results / f"{name}.json", threads=1, steps=2 * LENGTH + 1, **content)
    text = _table(rows) + (_training_table(trained) if trained else "")
    (results / f"{name}.md").write_text(text)
    print(text)


def _measure(batch: int, options: argparse.Namespace) -> list[Measurement]:
    bits = torch.rand(LENGTH, batch, BITS, device=options.device).round()
    works = {name: _ours(name, batch, options.device) for name in ("ntm", "matntm")}
    if options.device == "cuda":
        works |= {f"{name}, CUDA graph": _graphed(name, batch) for name in ("ntm", "matntm")}
    if options.peer is not None:
        works["pytorch-ntm"] = _peer(options.peer, bits)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for name, work in [*works.items()] * ROUNDS:
        for repeat in range(options.repeats + 2):
            begin = time.perf_counter()
            work()
            synchronise(options.device)
            if repeat >= 2:  # the first two are warm-up
                seconds[name].append(time.perf_counter() - begin)
    return [Measurement(name, batch, min(values)) for name, values in seconds.items()]


def _ours(name: str, batch: int, device: str) -> Callable[[], None]:
    model, task, drawn = _problem(name, batch, device)

    def work() -> None:
        task.loss(model(drawn.inputs)[0], drawn).backward()
        model.zero_grad()

    return work


def _graphed(name: str, batch: int) -> Callable[[], None]:
    model, task, drawn = _problem(name, batch, "cuda")
    graphed, windows = GraphedPass(model, []), cut_windows(task, drawn.to("cpu"), None, on_gpu=True)

    def work() -> None:
        with training_stream("cuda"):
            graphed(task, windows, None, scored=False)
        model.zero_grad()

    for _ in range(4):  # watched, recorded, compared, replayed
        work()
    if graphed.graphs != 1:
        raise RuntimeError(f"The pass of {name} is not replayed: {graphed.refusal}.")
    return work


def _problem(name: str, batch: int, device: str) -> tuple[ms.Model, Task, Batch]:
    torch.manual_seed(0)
    task: Task
    if name == "ntm":
        cell = networks.ntm(BITS + 1, UNITS, slots=SLOTS, slot_size=SLOT_SIZE)
        task = BitCopy(bits=BITS, shortest=LENGTH, longest=LENGTH)
    else:
        cell = networks.matntm(25, 15, output_size=25)
        task = MatrixCopy(shortest=LENGTH, longest=LENGTH)
    return ms.Model(cell, task.output_size).to(device), task, task.batch(batch, seed=0, number=0).to(device)


def _train(name: str, iterations: int) -> float:
    """Return the seconds of an iteration of a preset."""
    changes: dict[str, Any] = {"steps": iterations, "device": "cuda", "target_loss": None, "target_score": None}
    config = replace(PRESETS[name], task_options={"mixed": True}, **changes)
    times = []
    with tempfile.TemporaryDirectory() as root:
        ms.train(config, root, progress=False, callbacks=[lambda info: times.append(time.perf_counter())])
    half = len(times) // 2
    return (times[-1] - times[half]) / (len(times) - 1 - half)


def _peer(checkout: Path, bits: Tensor) -> Callable[[], None]:
    sys.path.insert(0, str(checkout))
    from ntm.aio import EncapsulatedNTM  # type: ignore

    torch.manual_seed(0)
    length, batch, _ = bits.shape
    net = EncapsulatedNTM(BITS + 1, BITS, UNITS, 1, 1, SLOTS, SLOT_SIZE)
    ending = torch.zeros(1, batch, BITS + 1)
    ending[..., BITS] = 1
    inputs = torch.cat([torch.cat([bits, torch.zeros(length, batch, 1)], dim=-1), ending])

    def work() -> None:
        net.init_sequence(batch)
        for x in inputs:
            net(x)
        outputs = torch.stack([net()[0] for _ in range(length)])
        binary_cross_entropy(outputs, bits).backward()
        net.zero_grad()

    return work


def _table(rows: list[Measurement]) -> str:
    seconds = {(row.machine, row.batch): row.seconds for row in rows}
    lines = [
        f"`{command()}`: forward and backward, {2 * LENGTH + 1} steps, one thread.",
        "",
        "| machine | batch | ms | times as fast as pytorch-ntm |",
        "|---|---|---|---|",
    ]
    for row in rows:
        peer = seconds.get(("pytorch-ntm", row.batch))
        ratio = "" if peer is None or row.machine == "pytorch-ntm" else f"{peer / row.seconds:.1f}"
        lines.append(f"| {row.machine} | {row.batch} | {1000 * row.seconds:.1f} | {ratio} |")
    return "\n".join(lines) + "\n"


def _training_table(seconds: dict[str, float]) -> str:
    lines = [
        "",
        f"Training on lengths 1 to {LENGTH}, batch 16, with evaluations and checkpoints:",
        "",
        f"| preset | ms per iteration | minutes for {PUBLISHED:,} iterations |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {1000 * each:.2f} | {PUBLISHED * each / 60:.1f} |" for name, each in seconds.items()]
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--peer", type=Path, help="checkout of pytorch-ntm to compare with")
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help="iterations of the trainings on a GPU")
    parser.add_argument("--repeats", type=int, default=10, help="passes, of which the fastest counts")
    return parser.parse_args()


if __name__ == "__main__":
    main()
