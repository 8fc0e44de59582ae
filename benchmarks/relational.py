"""Time that a relational network saves by encoding each distinct image of a batch once.

    python benchmarks/relational.py --keep

An iteration is a forward pass, a backward pass and a step of Adam, at the published batch sizes and with the published
number of training shapes (Kerg, chapter 5). Two networks with the same weights learn from the same batches: one encodes
each distinct image of a batch once, the other encodes every object of every problem, as the released code does. They
take turns in one thread; seconds are medians. Their losses are compared at every iteration, and in a few iterations in
float64 too, where rounding is small. The time to draw a batch is measured as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from common import command, folder, option_parser, take_turns, write_json
from mnemoscope.networks.relational import MODELS
from mnemoscope.relational import RelationalModel, Scenes
from mnemoscope.relational.network import EncodedObjects
from mnemoscope.tasks.relational import RelationalTask
from mnemoscope.tasks.relational.published import PUBLISHED

BATCHES = {"same/diff": 96, "RMTS": 96, "dist3": 96, "identity rules 4": 224}
"""Published batch size of each task."""
MODEL_NAMES = ("corelnet", "esbn")
LEARNING_RATE = 5e-4
TARGETS = {"RMTS": 5.0, "identity rules 4": 15.0}
"""Smallest speed-up over encoding every image."""
DOUBLE_ITERATIONS = 5
"""Iterations in float64."""


@dataclass(frozen=True)
class Measurement:
    """Median seconds of an iteration with either encoding, and of drawing a batch."""

    task: str
    model: str
    batch: int
    images: int
    """Images in the problems of a batch."""
    distinct: float
    """Mean number of distinct images in a batch."""
    every: float
    """Seconds of an iteration that encodes every image."""
    once: float
    """Seconds of an iteration that encodes each distinct image once."""
    rest: float
    """Seconds of an iteration on encoded images: a lower bound for any encoding."""
    drawing: float
    """Seconds to draw a batch."""
    difference: float
    """Largest difference between the losses of both encodings."""
    in_double: float
    """The same in float64, over a few iterations."""
    loss: float
    """Loss of the last iteration."""

    @property
    def factor(self) -> float:
        """Speed-up by encoding each image once."""
        return self.every / self.once

    @property
    def bound(self) -> float:
        """Speed-up if encoding took no time."""
        return self.every / self.rest


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # otherwise encoding every image of same/diff takes many times as long
    rows = [_measure(task, model, options.repeats) for task in BATCHES for model in MODEL_NAMES]
    results = folder(options.keep)
    kept = [asdict(row) | {"factor": row.factor, "bound": row.bound} for row in rows]
    write_json(results / "relational.json", threads=1, repeats=options.repeats, rows=kept)
    (results / "relational.md").write_text(_table(rows))
    print(_table(rows))


def every_image(scenes: Scenes) -> Scenes:
    """Return the same problems with a separate image for every object."""
    numbers = torch.arange(scenes.objects.numel()).view_as(scenes.objects)
    return Scenes(scenes.images[scenes.objects.flatten()], numbers, scenes.labels)


class Iterations:
    """Networks with the same weights that learn from the same batches with different encodings."""

    def __init__(self, task: RelationalTask, model: str, size: int, dtype: torch.dtype = torch.float32) -> None:
        self.task, self.size, self.number, self.dtype = task, size, 0, dtype
        self.students = {way: _student(task, model, dtype) for way in ("once", "every", "rest")}
        self.losses: dict[str, list[float]] = {way: [] for way in self.students}
        self.distinct: list[int] = []

    def draw(self) -> None:
        """Draw the next batch."""
        drawn = self.task.batch(self.size, seed=0, number=self.number)
        self.scenes = drawn._replace(images=drawn.images.to(self.dtype))
        self.number += 1

    def prepare(self) -> None:
        """Prepare the inputs of the other encodings; not part of an iteration."""
        self.distinct.append(len(self.scenes.images))
        self.whole = every_image(self.scenes)
        model = self.students["rest"][0]
        with torch.no_grad():
            encoded = model.encoder(self.scenes.images)
        self.encoded = EncodedObjects(encoded.requires_grad_(), self.scenes.objects, model.norm)

    def once(self) -> None:
        """Train with each distinct image encoded once."""
        self._learn("once", self.scenes)

    def every(self) -> None:
        """Train with every object of every problem encoded."""
        self._learn("every", self.whole)

    def rest(self) -> None:
        """Train on encoded images, without the encoder."""
        self._learn("rest", self.encoded)

    def _learn(self, way: str, given: Scenes | EncodedObjects) -> None:
        model, optimiser = self.students[way]
        optimiser.zero_grad()
        logits = model.answer(given) if isinstance(given, EncodedObjects) else model(given.images, given.objects)
        loss = cross_entropy(logits, self.scenes.labels)
        loss.backward()
        optimiser.step()
        self.losses[way].append(loss.item())

    @property
    def difference(self) -> float:
        """Largest difference between the losses of both encodings."""
        return max(abs(once - every) for once, every in zip(self.losses["once"], self.losses["every"], strict=True))


def _student(
    task: RelationalTask, model_name: str, dtype: torch.dtype
) -> tuple[RelationalModel, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = MODELS[model_name](task).to(dtype)
    return model, torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)


def _measure(name: str, model: str, repeats: int) -> Measurement:
    single = Iterations(PUBLISHED[name], model, BATCHES[name])
    work: dict[str, Callable[[], Any]] = {
        "drawing": single.draw,
        "preparing": single.prepare,
        "rest": single.rest,
        "once": single.once,
        "every": single.every,
    }
    seconds, _ = take_turns(work, repeats)
    exact = Iterations(PUBLISHED[name], model, BATCHES[name], torch.float64)
    for _ in range(DOUBLE_ITERATIONS):
        exact.draw()
        exact.prepare()
        exact.once()
        exact.every()
    return Measurement(
        task=name,
        model=model,
        batch=single.size,
        images=single.size * single.task.objects,
        distinct=mean(single.distinct),
        every=seconds["every"],
        once=seconds["once"],
        rest=seconds["rest"],
        drawing=seconds["drawing"],
        difference=single.difference,
        in_double=exact.difference,
        loss=single.losses["once"][-1],
    )


def _table(rows: Sequence[Measurement]) -> str:
    lines = [
        f"`{command()}`: milliseconds of a training iteration, one thread.",
        "",
        "| task | model | batch | images | distinct | ms, every image | ms, each once | speed-up | at most | "
        "ms, drawing | losses differ by | in float64 |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.task} | {row.model} | {row.batch} | {row.images} | {row.distinct:.1f} | {1000 * row.every:.1f} | "
            f"{1000 * row.once:.1f} | {row.factor:.1f} | {row.bound:.1f} | {1000 * row.drawing:.2f} | "
            f"{row.difference:.1e} | {row.in_double:.1e} |"
        )
    lines += ["", "At most: the speed-up if encoding took no time; the rest of the network and its step remain.", ""]
    for row in rows:
        if row.task in TARGETS:
            lines.append(f"- {row.task}, {row.model}: {_verdict(row, TARGETS[row.task])}")
    slowest = max(rows, key=lambda row: row.drawing / row.once)
    largest = max(rows, key=lambda row: row.difference)
    lines += [
        f"- Drawing a batch takes at most {slowest.drawing / slowest.once:.0%} of the iteration that it feeds "
        f"({slowest.task}, {slowest.model}); target: at most 100%.",
        f"- Losses of both encodings, with the same weights and batches, differ by at most {largest.difference:.1e} "
        f"({largest.task}, {largest.model}); target: identical losses. Sums in another order round differently: in "
        f"float64, after {DOUBLE_ITERATIONS} iterations, they differ by at most "
        f"{max(row.in_double for row in rows):.1e}.",
    ]
    return "\n".join(lines) + "\n"


def _verdict(row: Measurement, target: float) -> str:
    verdict = f"{row.factor:.1f} times as fast; target: at least {target:g}"
    if row.factor >= target:
        return f"{verdict}."
    if row.bound < target:
        return f"{verdict}, which is impossible: without any encoding it would be {row.bound:.1f} times as fast."
    return f"{verdict}; at most {row.bound:.1f} is possible."


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="iterations, of which the median counts")
    return parser.parse_args()


if __name__ == "__main__":
    main()
