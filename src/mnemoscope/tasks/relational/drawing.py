"""Relational tasks as pictures; it needs the `report` extra."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.relational.scenes import Scenes
from mnemoscope.tasks.relational.basic import Completion, MatchToSample
from mnemoscope.tasks.relational.comparison import Comparison
from mnemoscope.tasks.relational.games import RelationalGame
from mnemoscope.tasks.relational.published import PUBLISHED
from mnemoscope.tasks.relational.task import RelationalTask
from mnemoscope.tasks.splits import Split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEHIND, RIGHT = 0.82, (0.85, 0.25, 0.1)
_GAP = 4  # pixels between images of shapes; the cells of a game touch each other


def picture(task: RelationalTask, scenes: Scenes, problem: int = 0) -> Float[Tensor, "height width 3"]:
    """One problem as an image: its rows on grey, and a frame around the objects that are the right answer."""
    gap = 0 if isinstance(task, RelationalGame) else _GAP
    step = task.height + gap
    seen = scenes.images[scenes.objects[problem]].permute(0, 2, 3, 1)  # (objects, height, width, 3)
    right = _right(task, int(scenes.labels[problem]))
    canvas = torch.full((len(task.rows) * step + gap, max(task.rows) * step + gap, 3), BEHIND)
    for row, (begin, length) in enumerate(zip(_begins(task), task.rows, strict=True)):
        for column in range(length):
            y, x = gap + row * step, gap + column * step
            if begin + column in right:
                canvas[y - gap : y + step, x - gap : x + step] = torch.tensor(RIGHT)
            canvas[y : y + task.height, x : x + task.width] = seen[begin + column]
    return canvas


def draw_samples(
    tasks: Mapping[str, RelationalTask] = PUBLISHED, split: Split = "test", seed: int = 0, columns: int = 6
) -> Figure:
    """A problem of every task with its label; where the answer is one of the objects shown, it is framed.

    Args:
        tasks: by the names that are written above.
        split: from which they are drawn; games are trained with pentominoes, and tested with other objects.
        seed: of the batches.
        columns: pictures side by side.

    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.3 * columns, 2.5 * ceil(len(tasks) / columns)), layout="constrained")
    panels = figure.subplots(ceil(len(tasks) / columns), columns, squeeze=False).flatten()
    for panel in panels:
        panel.axis("off")
    for number, (panel, (name, task)) in enumerate(zip(panels, tasks.items(), strict=False)):
        scenes = task.batch(1, seed, number, split)  # batches of one number are much alike from task to task
        panel.imshow(picture(task, scenes).numpy(), interpolation="nearest")
        label = int(scenes.labels[0])
        panel.set_title(f"{name}\n{label}: {task.answers[label]}", fontsize=8)
    return figure


def _begins(task: RelationalTask) -> list[int]:
    """The first object of each row."""
    return [0, *accumulate(task.rows)][:-1]


def _right(task: RelationalTask, label: int) -> range:
    """The objects that are the right answer, if it is one of those shown."""
    if isinstance(task, Comparison):
        return range(label, label + 1)
    if isinstance(task, MatchToSample):
        begin = _begins(task)[1 + label]
        return range(begin, begin + task.rows[1 + label])
    if isinstance(task, Completion):
        each = task.images_each
        begin = _begins(task)[2] + each * label
        return range(begin, begin + each)
    return range(0)
