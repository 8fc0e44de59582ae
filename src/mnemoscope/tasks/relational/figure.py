"""Pictures of relational problems. `draw_samples` needs the `report` extra."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.relational.network import Scenes
from mnemoscope.tasks.relational.basic import Completion, MatchToSample
from mnemoscope.tasks.relational.comparison import Comparison
from mnemoscope.tasks.relational.games import RelationalGame
from mnemoscope.tasks.relational.published import PUBLISHED
from mnemoscope.tasks.relational.task import RelationalTask
from mnemoscope.tasks.splits import Split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BACKGROUND, FRAME = 0.82, (0.85, 0.25, 0.1)
"""Grey level of the background, and colour of the frame around the right answer."""
_GAP = 4
"""Pixels between images of shapes; the cells of a game touch each other."""


def picture(task: RelationalTask, scenes: Scenes, problem: int = 0) -> Float[Tensor, "height width 3"]:
    """Return one problem as an image: its rows on grey, with a frame around the objects of the right answer."""
    gap = 0 if isinstance(task, RelationalGame) else _GAP
    step = task.height + gap
    images = scenes.images[scenes.objects[problem]].permute(0, 2, 3, 1)  # (objects, height, width, 3)
    framed = _answer_objects(task, int(scenes.labels[problem]))
    canvas = torch.full((len(task.rows) * step + gap, max(task.rows) * step + gap, 3), BACKGROUND)
    for row, (begin, length) in enumerate(zip(_begins(task), task.rows, strict=True)):
        for column in range(length):
            y, x = gap + row * step, gap + column * step
            if begin + column in framed:
                canvas[y - gap : y + step, x - gap : x + step] = torch.tensor(FRAME)
            canvas[y : y + task.height, x : x + task.width] = images[begin + column]
    return canvas


def draw_samples(
    tasks: Mapping[str, RelationalTask] = PUBLISHED, split: Split = "test", seed: int = 0, columns: int = 6
) -> Figure:
    """Draw a problem of every task, titled with its key and label, in rows of `columns` panels.

    The right answer is framed if it is among the objects.
    """
    from mnemoscope.base.inline_figure import InlineFigure

    figure = InlineFigure(figsize=(2.3 * columns, 2.5 * ceil(len(tasks) / columns)), layout="constrained")
    panels = figure.subplots(ceil(len(tasks) / columns), columns, squeeze=False).flatten()
    for panel in panels:
        panel.axis("off")
    for number, (panel, (name, task)) in enumerate(zip(panels, tasks.items(), strict=False)):
        scenes = task.batch(1, seed, number, split)  # equal numbers give similar problems in different tasks
        panel.imshow(picture(task, scenes).numpy(), interpolation="nearest")
        label = int(scenes.labels[0])
        panel.set_title(f"{name}\n{label}: {task.answers[label]}", fontsize=8)
    return figure


def _begins(task: RelationalTask) -> list[int]:
    """Return the first object of each row."""
    return [0, *accumulate(task.rows)][:-1]


def _answer_objects(task: RelationalTask, label: int) -> range:
    """Return the objects that form the right answer; none if it is not among the objects."""
    if isinstance(task, Comparison):
        return range(label, label + 1)
    if isinstance(task, MatchToSample):
        begin = _begins(task)[1 + label]
        return range(begin, begin + task.rows[1 + label])
    if isinstance(task, Completion):
        images = task.images_each
        begin = _begins(task)[2] + images * label
        return range(begin, begin + images)
    return range(0)
