"""Training steps of small networks: time of a step, work of a GPU in it, and time to draw its batch.

    python benchmarks/training_steps.py                        on a CPU
    python benchmarks/training_steps.py --device cuda --keep

The networks are those of the reduced recipes of four studies, with the batches of those recipes. On a GPU, torch's
profiler measures the time and the number of its kernels in a step: where a step takes much longer than they do, the GPU
waits, and several trainings can share it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from common import command, device_name, folder, machine, option_parser, write_json
from mnemoscope import registry
from mnemoscope.config import RunConfig
from mnemoscope.training import StepInfo, train
from mnemoscope.training.build import build_task

TRAININGS = {
    "selective-memory": ("mamba, induction-heads", "transformer, rotary, induction-heads"),
    "mqar-widths": ("transformer, mqar, pairs 16, width 64", "deltanet, mqar, pairs 64, width 64"),
    "mad": ("transformer, mad-compression", "mamba, mad-recall", "gla, mad-recall", "deltanet, mad-recall"),
    "string-copying": ("mamba, string-copy",),
}
"""Trials of the preset `reduced` of each study."""
PROFILED = 10
"""Steps under the profiler."""
FEWEST = 4 * PROFILED
"""Steps of the shortest training: a quarter to warm up, a quarter or more to time, and the rest for the profiler."""
BATCHES = 20
"""Batches that are drawn for their time."""


@dataclass(frozen=True)
class Cost:
    """Milliseconds of a training step."""

    training: str
    step: float
    """Time between two steps."""
    batch: float
    """Time of a CPU core to draw a batch, which it does while a GPU is at work."""
    kernels: float | None
    """Sum of the times of all kernels of a GPU."""
    launches: float | None
    """Number of kernels."""


class Watch:
    """Callback that takes the time of the steps in the middle of a training, and profiles some after them."""

    def __init__(self, steps: int, gpu: bool) -> None:
        self.first, self.last = steps // 4, steps - 2 * PROFILED
        self.profiler = profile(activities=[ProfilerActivity.CUDA]) if gpu else None
        self.begin = self.end = 0.0

    def __call__(self, info: StepInfo) -> None:
        if info.step == self.first:
            self.begin = perf_counter()
        elif info.step == self.last:
            self.end = perf_counter()
            if self.profiler is not None:
                self.profiler.__enter__()
        elif info.step == self.last + PROFILED and self.profiler is not None:
            self.profiler.__exit__(None, None, None)

    def kernels(self) -> tuple[float, float] | None:
        """Return milliseconds and number of the kernels of a step; None without a GPU."""
        if self.profiler is None:
            return None
        events = [
            event
            for event in self.profiler.key_averages()
            if event.device_type.name == "CUDA" and not event.is_user_annotation
        ]
        return (
            sum(event.self_device_time_total for event in events) / 1e3 / PROFILED,
            sum(event.count for event in events) / PROFILED,
        )


def measure(study: str, name: str, device: str, steps: int) -> Cost:
    """Train a network for some steps, and return what a step costs."""
    source: Any = registry.studies.load(study)
    trials = source.trials(source.presets["reduced"].settings, (0,))
    settings = next(trial.settings for trial in trials if trial.name == name)
    config = replace(
        RunConfig(**settings), device=device, steps=steps, evaluate_every=10 * steps, checkpoint_every=10 * steps
    )
    task, watch = build_task(config), Watch(steps, device == "cuda")
    with tempfile.TemporaryDirectory() as root:
        train(config, root, progress=False, callbacks=[watch])
    task.batch(config.batch_size, 0, 0)
    begin = perf_counter()
    for number in range(BATCHES):
        task.batch(config.batch_size, 0, number + 1)
    batch = (perf_counter() - begin) / BATCHES * 1e3
    kernels = watch.kernels() or (None, None)
    return Cost(name, (watch.end - watch.begin) / (watch.last - watch.first) * 1e3, batch, *kernels)


def table(costs: Sequence[Cost]) -> str:
    """Return the costs as a Markdown table."""
    rows = ["| training | step, ms | batch, ms | kernels, ms | kernels |", "|---|---|---|---|---|"]
    for cost in costs:
        gpu = ("", "") if cost.kernels is None else (f"{cost.kernels:.2f}", f"{cost.launches:.0f}")
        rows.append(f"| {cost.training} | {cost.step:.2f} | {cost.batch:.2f} | {' | '.join(gpu)} |")
    return "\n".join(rows)


def main(options: argparse.Namespace) -> None:
    """Measure all trainings, and write the table."""
    if options.steps < FEWEST:
        raise SystemExit(f"--steps must be at least {FEWEST}, but is {options.steps}.")
    torch.set_num_threads(1)
    costs = []
    for study, names in TRAININGS.items():
        for name in names:
            costs.append(measure(study, name, options.device, options.steps))
            print(table(costs[-1:]).splitlines()[-1], flush=True)
    path = folder(options.keep) / f"training_steps_{device_name(options.device)}"
    write_json(path.with_suffix(".json"), costs=[asdict(cost) for cost in costs])
    path.with_suffix(".md").write_text(f"{table(costs)}\n\nTimes on one core of {machine()}. Made by `{command()}`.\n")
    print(f"Written to {path}.json and .md")


if __name__ == "__main__":
    parser = option_parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=200, help="training steps of each network")
    main(parser.parse_args())
