"""Frames per second of proximal policy optimisation in MiniGrid.

    python benchmarks/agents.py --device cuda --keep                     needs mnemoscope[rl]
    python benchmarks/agents.py --device cuda --processes 1 8            with MiniGrid's own environments too

The agents, environments and settings are those of the study `minigrid`. Whole cycles of collecting a rollout and
learning from it are timed, after some that do not count. The copies of the room are tensors on the device, or, with
`--processes`, MiniGrid's own environments in so many processes, 1 for this one.
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
    BatchedRoom,
    Environments,
    ParallelEnvironments,
    build_grid_agent,
    collect_rollout,
    minigrid,
)
from mnemoscope.training.reinforcement.rollout import AnyEnvironments

ROOM, UNITS, WARM_UP = "MemoryS7", 64, 3


@dataclass(frozen=True)
class Measurement:
    """Mean seconds of a rollout and of learning from it, and the frames per second of both together."""

    cell: str
    processes: int | None
    """Processes of MiniGrid's own environments; None: the copies are tensors."""
    collect: float
    learn: float
    frames_per_second: float


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(1)
    rows = [_measure(cell, number, options) for cell in options.cells for number in (None, *options.processes)]
    results, name = folder(options.keep), f"agents_{options.device}"
    write_json(results / f"{name}.json", threads=1, rollouts=options.rollouts, rows=[asdict(row) for row in rows])
    (results / f"{name}.md").write_text(_table(rows))
    print(_table(rows))


def _measure(cell: str, processes: int | None, options: argparse.Namespace) -> Measurement:
    torch.manual_seed(0)
    agent = build_grid_agent(cell, hidden_size=UNITS, **OPTIONS[cell]).to(options.device)
    optimiser, make, state, times = BASE.optimiser(agent), minigrid(ROOM), None, []
    with ExitStack() as resources:
        environments: AnyEnvironments
        if processes is None:
            environments = BatchedRoom(ROOM).environments(BASE.environments, device=options.device)
        elif processes == 1:
            environments = Environments(make, BASE.environments)
        else:
            parallel = ParallelEnvironments(make, BASE.environments, processes=processes)
            environments = resources.enter_context(parallel)
        for _ in range(WARM_UP + options.rollouts):
            begin = time.perf_counter()
            rollout, state = collect_rollout(agent, environments, state, BASE.rollout)  # waits for the GPU at its end
            middle = time.perf_counter()
            BASE.improve(agent, optimiser, rollout)  # so does this
            times.append((middle - begin, time.perf_counter() - middle))
    collect, learn = (sum(part) / options.rollouts for part in zip(*times[WARM_UP:], strict=True))
    row = Measurement(cell, processes, collect, learn, BASE.environments * BASE.rollout / (collect + learn))
    print(row, flush=True)
    return row


def _table(rows: list[Measurement]) -> str:
    lines = [
        f"`{command()}`: {BASE.environments} copies of {ROOM}, {BASE.rollout} steps, one thread.",
        "",
        f"| cell | copies | collect, ms | learn, ms | frames per second | minutes for {STEPS:,} frames |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        minutes = STEPS / row.frames_per_second / 60
        times = f"{1000 * row.collect:.0f} | {1000 * row.learn:.0f} | {row.frames_per_second:,.0f} | {minutes:.0f}"
        copies = "tensors" if row.processes is None else f"MiniGrid, {row.processes} processes"
        lines.append(f"| {row.cell} | {copies} | {times} |")
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--cells", nargs="+", default=[*OPTIONS], choices=[*OPTIONS])
    parser.add_argument("--processes", type=int, nargs="*", default=[])
    parser.add_argument("--rollouts", type=int, default=10, help="rollouts that are timed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
