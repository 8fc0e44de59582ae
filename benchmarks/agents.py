"""Frames per second of proximal policy optimisation in MiniGrid.

    python benchmarks/agents.py --device cuda --processes 1 8 --keep     needs mnemoscope[rl]

The agents, environments and settings are those of the study `minigrid`: 64 copies of MemoryS7, rollouts of 32 steps,
four epochs of four minibatches. Whole cycles of collecting a rollout and learning from it are timed, after two that do
not count. `--processes` are the processes of the environments, 1 for this one.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import torch

from common import command, folder, option_parser, write_json
from mnemoscope.studies.kerg2022.minigrid import BASE, OPTIONS, STEPS
from mnemoscope.training.reinforcement import (
    Environments,
    ParallelEnvironments,
    build_grid_agent,
    collect_rollout,
    minigrid,
)

ROOM, UNITS, WARM_UP = "MemoryS7", 64, 2


@dataclass(frozen=True)
class Measurement:
    """Mean seconds of a rollout and of learning from it, and the frames per second of both together."""

    cell: str
    processes: int
    collect: float
    learn: float
    frames_per_second: float


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(1)
    rows = [_measure(cell, number, options) for cell in options.cells for number in options.processes]
    results, name = folder(options.keep), f"agents_{options.device}"
    write_json(results / f"{name}.json", threads=1, rollouts=options.rollouts, rows=[asdict(row) for row in rows])
    (results / f"{name}.md").write_text(_table(rows))
    print(_table(rows))


def _measure(cell: str, processes: int, options: argparse.Namespace) -> Measurement:
    torch.manual_seed(0)
    agent = build_grid_agent(cell, hidden_size=UNITS, **OPTIONS[cell]).to(options.device)
    optimiser, make, state, times = BASE.optimiser(agent), minigrid(ROOM), None, []
    with ExitStack() as resources:
        if processes == 1:
            environments = Environments(make, BASE.environments)
        else:
            parallel = ParallelEnvironments(make, BASE.environments, processes=processes)
            environments = resources.enter_context(parallel)
        for _ in range(WARM_UP + options.rollouts):
            begin = time.perf_counter()
            rollout, state = collect_rollout(agent, environments, state, BASE.rollout)
            middle = time.perf_counter()
            BASE.improve(agent, optimiser, rollout)  # its last step waits for the GPU
            times.append((middle - begin, time.perf_counter() - middle))
    collect, learn = (sum(part) / options.rollouts for part in zip(*times[WARM_UP:], strict=True))
    row = Measurement(cell, processes, collect, learn, BASE.environments * BASE.rollout / (collect + learn))
    print(row, flush=True)
    return row


def _table(rows: list[Measurement]) -> str:
    lines = [
        f"`{command()}`: {BASE.environments} copies of {ROOM}, {BASE.rollout} steps, one thread.",
        "",
        f"| cell | processes | collect, ms | learn, ms | frames per second | minutes for {STEPS:,} frames |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        minutes = STEPS / row.frames_per_second / 60
        times = f"{1000 * row.collect:.0f} | {1000 * row.learn:.0f} | {row.frames_per_second:,.0f} | {minutes:.0f}"
        lines.append(f"| {row.cell} | {row.processes} | {times} |")
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--cells", nargs="+", default=[*OPTIONS], choices=[*OPTIONS])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rollouts", type=int, default=10, help="rollouts that are timed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
