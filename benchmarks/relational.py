"""How long does an iteration of a relational network take, with each distinct image encoded once, or with every one?

    python benchmarks/relational.py --keep

An iteration is a forward and a backward pass and a step of Adam, at the published batch sizes and with as few shapes to
train with as published (Kerg, chapter 5). Two networks with the same weights learn from the same batches: one encodes
each distinct image of a batch once, the other every object of every problem, as the released code does. They take
turns, iteration by iteration, in one thread; seconds are medians. The losses of both are compared at every iteration,
and at a few in float64 too, where what rounding does is small. Beside the step stands how long its batch takes to be
drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean

import torch
from torch.nn.functional import cross_entropy

from common import command, folder, take_turns, write_json
from mnemoscope.networks.relational import MODELS
from mnemoscope.relational import RelationalModel, Scenes
from mnemoscope.relational.network import Seen
from mnemoscope.tasks.relational import RelationalTask
from mnemoscope.tasks.relational.published import PUBLISHED

BATCHES = {"same/diff": 96, "RMTS": 96, "dist3": 96, "identity rules 4": 224}
"""Published problems of a batch."""
MEASURED = ("corelnet", "esbn")
LEARNING_RATE = 5e-4
ASKED = {"RMTS": 5.0, "identity rules 4": 15.0}
"""Times as fast as encoding every image, at least."""
IN_DOUBLE = 5
"""Iterations in float64."""


@dataclass(frozen=True)
class Measured:
    """Median seconds of an iteration in both ways, and of drawing a batch."""

    task: str
    model: str
    batch: int
    images: int
    """That stand in the problems of a batch."""
    distinct: float
    """Of these, in the mean."""
    every: float
    once: float
    rest: float
    """Of an iteration whose images are encoded already: what no way to encode them can save."""
    drawing: float
    difference: float
    """Between the losses of both ways, the largest of all iterations."""
    in_double: float
    """The same in float64, over a few iterations."""
    loss: float
    """The last one."""

    @property
    def factor(self) -> float:
        """How many times as fast it is to encode each image once."""
        return self.every / self.once

    @property
    def bound(self) -> float:
        """How many times as fast it would be if encoding took no time at all."""
        return self.every / self.rest


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # or encoding every image of same/diff takes many times as long
    rows = [_measured(task, model, options.repeats) for task in BATCHES for model in MEASURED]
    results = folder(options.keep)
    kept = [asdict(row) | {"factor": row.factor, "bound": row.bound} for row in rows]
    write_json(results / "relational.json", threads=1, repeats=options.repeats, rows=kept)
    (results / "relational.md").write_text(_table(rows))
    print(_table(rows))


def every_image(scenes: Scenes) -> Scenes:
    """The same problems with an image of its own for every object."""
    numbers = torch.arange(scenes.objects.numel()).view_as(scenes.objects)
    return Scenes(scenes.images[scenes.objects.flatten()], numbers, scenes.labels)


class Iterations:
    """Networks with the same weights that learn from the same batches, each in its way."""

    def __init__(self, task: RelationalTask, model: str, size: int, dtype: torch.dtype = torch.float32) -> None:
        self.task, self.size, self.number, self.dtype = task, size, 0, dtype
        self.students = {way: _student(task, model, dtype) for way in ("once", "every", "rest")}
        self.losses: dict[str, list[float]] = {way: [] for way in self.students}
        self.distinct: list[int] = []

    def draw(self) -> None:
        """The next batch."""
        drawn = self.task.batch(self.size, seed=0, number=self.number)
        self.scenes = drawn._replace(images=drawn.images.to(self.dtype))
        self.number += 1

    def prepare(self) -> None:
        """What the other ways need: no part of an iteration."""
        self.distinct.append(len(self.scenes.images))
        self.whole = every_image(self.scenes)
        model = self.students["rest"][0]
        with torch.no_grad():
            encoded = model.encoder(self.scenes.images)
        self.encoded = Seen(encoded.requires_grad_(), self.scenes.objects, model.norm)

    def once(self) -> None:
        """Each distinct image is encoded once."""
        self._learn("once", self.scenes)

    def every(self) -> None:
        """Every object of every problem is encoded."""
        self._learn("every", self.whole)

    def rest(self) -> None:
        """All but the encoder."""
        self._learn("rest", self.encoded)

    def _learn(self, way: str, given: Scenes | Seen) -> None:
        model, optimiser = self.students[way]
        optimiser.zero_grad()
        logits = model.answer(given) if isinstance(given, Seen) else model(given.images, given.objects)
        loss = cross_entropy(logits, self.scenes.labels)
        loss.backward()
        optimiser.step()
        self.losses[way].append(loss.item())

    @property
    def difference(self) -> float:
        """Between the losses of both ways, the largest so far."""
        return max(abs(one - other) for one, other in zip(self.losses["once"], self.losses["every"], strict=True))


def _student(
    task: RelationalTask, model: str, dtype: torch.dtype
) -> tuple[RelationalModel, torch.optim.Optimizer]:  # fmt: skip
    torch.manual_seed(0)
    made = MODELS[model](task).to(dtype)
    return made, torch.optim.Adam(made.parameters(), lr=LEARNING_RATE)


def _measured(name: str, model: str, repeats: int) -> Measured:
    own = Iterations(PUBLISHED[name], model, BATCHES[name])
    work = {"drawing": own.draw, "preparing": own.prepare, "rest": own.rest, "once": own.once, "every": own.every}
    seconds, _ = take_turns(work, repeats)
    exact = Iterations(PUBLISHED[name], model, BATCHES[name], torch.float64)
    for _ in range(IN_DOUBLE):
        exact.draw()
        exact.prepare()
        exact.once()
        exact.every()
    return Measured(name, model, own.size, own.size * own.task.objects, mean(own.distinct), seconds["every"],
                    seconds["once"], seconds["rest"], seconds["drawing"], own.difference, exact.difference,
                    own.losses["once"][-1])  # fmt: skip


def _table(rows: Sequence[Measured]) -> str:
    heads = ("task", "model", "batch", "images", "distinct", "ms, every image", "ms, each once", "times as fast",
             "at most", "ms, drawing", "losses differ by", "in float64")  # fmt: skip
    lines = [f"`{command()}`: milliseconds of a training iteration, one thread.", "",
             f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]  # fmt: skip
    for row in rows:
        cells = (row.task, row.model, str(row.batch), str(row.images), f"{row.distinct:.1f}", f"{1000 * row.every:.1f}",
                 f"{1000 * row.once:.1f}", f"{row.factor:.1f}", f"{row.bound:.1f}", f"{1000 * row.drawing:.2f}",
                 f"{row.difference:.1e}", f"{row.in_double:.1e}")  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "At most: if encoding took no time at all; the rest of the network and its step remain.", ""]
    for row in rows:
        if row.task in ASKED:
            lines.append(f"- {row.task}, {row.model}: {_verdict(row, ASKED[row.task])}")
    slowest = max(rows, key=lambda row: row.drawing / row.once)
    largest = max(rows, key=lambda row: row.difference)
    lines += [
        f"- Drawing a batch takes at most {slowest.drawing / slowest.once:.0%} of the iteration that it feeds "
        f"({slowest.task}, {slowest.model}); asked: no more than it.",
        f"- Losses of both ways, with the same weights and batches, differ by at most {largest.difference:.1e} "
        f"({largest.task}, {largest.model}); asked: identical losses. Sums in another order round differently: in "
        f"float64, after {IN_DOUBLE} iterations, they differ by at most {max(row.in_double for row in rows):.1e}.",
    ]
    return "\n".join(lines) + "\n"


def _verdict(row: Measured, asked: float) -> str:
    if row.factor >= asked:
        return f"{row.factor:.1f} times as fast; asked: at least {asked:g}."
    why = (
        f"not to be had: without any encoding it would be {row.bound:.1f} times as fast"
        if row.bound < asked
        else f"{row.bound:.1f} would be to be had"
    )
    return f"{row.factor:.1f} times as fast; asked: at least {asked:g}, {why}."


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20, help="iterations, of which the median counts")
    parser.add_argument("--keep", action="store_true", help="write to benchmarks/results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
