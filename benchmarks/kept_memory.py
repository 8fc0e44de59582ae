"""Training steps on a CPU with freed memory kept (mnemoscope.base.allocator) and returned, in CPU time on one thread.

    python benchmarks/kept_memory.py

Each row trains one network for some steps in both ways by turns, in this process. CPU time includes the work of the
system, in which the two ways differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median
from typing import Any

import torch
from torch import Tensor

import mnemoscope as ms
from common import device_name, folder, option_parser, write_json
from mnemoscope.base.allocator import kept_memory

STEPS, BATCH, WIDTH = 256, 16, 64
NETWORKS: dict[str, Callable[[], Any]] = {
    "gru": lambda: ms.networks.gru(WIDTH, 128),
    "nnrnn": lambda: ms.networks.nnrnn(WIDTH, 128),
    "mamba": lambda: ms.networks.mamba(WIDTH, 128),
    "gla": lambda: ms.networks.gla(WIDTH, 128, heads=4),
    "gated-deltanet": lambda: ms.networks.gated_deltanet(WIDTH, 128, heads=4),
}


def main() -> None:
    """Time every network, and write the results."""
    parser = option_parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--repeats", type=int, default=5, help="training steps that are timed in each way")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [compare(name, args.repeats) for name in args.networks]
    for row in rows:
        print(f"{row['network']:16} {row['returned']:7.3f} s returned {row['kept']:7.3f} s kept")
    path = folder(args.keep) / f"kept_memory_{device_name('cpu')}.json"
    write_json(path, steps=STEPS, batch=BATCH, rows=rows)


def compare(name: str, repeats: int) -> dict[str, Any]:
    """Return the median CPU seconds of a training step in both ways."""
    torch.manual_seed(0)
    cell = NETWORKS[name]()
    xs = torch.randn(STEPS, BATCH, WIDTH)
    seconds: dict[str, list[float]] = {"returned": [], "kept": []}
    for _ in range(2):
        for way, context in (("returned", nullcontext), ("kept", kept_memory)):
            with context():
                step(cell, xs)
                step(cell, xs)
                seconds[way] += [step(cell, xs) for _ in range(repeats)]
    return {"network": name, **{way: round(median(values), 4) for way, values in seconds.items()}}


def step(cell: Any, xs: Tensor) -> float:
    """Run a network forwards and backwards, and return the CPU seconds."""
    start = time.process_time()
    outputs, _ = ms.scan(cell, xs)
    outputs.square().mean().backward()
    cell.zero_grad()
    return time.process_time() - start


if __name__ == "__main__":
    main()
