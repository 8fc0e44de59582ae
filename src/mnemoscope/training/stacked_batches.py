"""Batches of relational networks that are trained together, drawn in blocks and stacked on their device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.relational.network import Scenes
from mnemoscope.tasks.relational.shape_task import HeldOutShapes
from mnemoscope.tasks.relational.task import RelationalTask

EVALUATED = 384
"""Problems of each network that are evaluated at once, at most, unless a batch has more."""


class StackedProblems(NamedTuple):
    """One batch of each network."""

    images: Float[Tensor, "networks distinct channels height width"]
    objects: Int[Tensor, "networks batch objects"]
    labels: Int[Tensor, "networks batch"]


class Block(NamedTuple):
    """Several batches of each network, whose images are rows of a table."""

    rows: Int[Tensor, "networks batches distinct"]
    objects: Int[Tensor, "networks batches size objects"]
    labels: Int[Tensor, "networks batches size"]


class TrainingStream:
    """The training batches of several tasks, with all images that they have shown in one table.

    Args:
        tasks: the task of each network.
        seeds: the seed of each network.
        size: number of problems of a batch.
        at_once: number of batches of a block. With 1 they are those of `RelationalTask.batch`.
        device: device of the table and of the blocks.

    """

    def __init__(
        self, tasks: Sequence[RelationalTask], seeds: Sequence[int], size: int, at_once: int, device: str
    ) -> None:
        self._tasks, self._seeds, self._size, self.at_once = tasks, seeds, size, at_once
        self._kinds = [replace(task, shape_seed=0) if isinstance(task, HeldOutShapes) else task for task in tasks]
        """Tasks whose codes have the same images are equal."""
        self._rows: dict[RelationalTask, Int[Tensor, " codes"]] = {}
        """Row of the table for each code of a task; -1 for an image that was not shown yet."""
        self._most = 1
        self.table = torch.zeros(0, tasks[0].channels, tasks[0].height, tasks[0].width, device=device)

    def block(self, number: int) -> Block:
        """Return the block with this number; the first one has the batches 0 to `at_once` - 1.

        All batches have the same number of distinct images, a power of two, which may grow from block to block.
        """
        drawn = [
            task.draw_batches(self._size, self.at_once, seed, number)
            for task, seed in zip(self._tasks, self._seeds, strict=True)
        ]
        rows = torch.stack([self._known(kind, each.codes) for kind, each in zip(self._kinds, drawn, strict=True)])
        labels = torch.stack([each.labels for each in drawn]).to(self.table.device)
        shape = len(drawn), self.at_once, self._size, -1
        distinct, objects = number_in_rows(rows.to(self.table.device).view(len(drawn) * self.at_once, -1))
        self._most = max(self._most, 2 ** (distinct.shape[1] - 1).bit_length())
        distinct = torch.nn.functional.pad(distinct, (0, self._most - distinct.shape[1]))
        return Block(distinct.view(*shape[:2], -1), objects.view(shape), labels.view(shape[:3]))

    def _known(self, task: RelationalTask, codes: Int[Tensor, "problems objects"]) -> Int[Tensor, "problems objects"]:
        """Return the rows of the images with these codes, after adding those that are new to the table."""
        rows = self._rows.get(task, codes.new_empty(0))
        rows = torch.nn.functional.pad(rows, (0, max(0, int(codes.max()) + 1 - len(rows))), value=-1)
        new = codes.unique()
        new = new[rows[new] < 0]
        if len(new):
            rows[new] = torch.arange(len(self.table), len(self.table) + len(new))
            self.table = torch.cat([self.table, task.images(new, "train").to(self.table.device)])
        self._rows[task] = rows
        return rows[codes]


def number_in_rows(values: Int[Tensor, "rows length"]) -> tuple[Int[Tensor, "rows most"], Int[Tensor, "rows length"]]:
    """Return the distinct values of each row in order, filled up with 0, and the place of each value among them.

    >>> distinct, places = number_in_rows(torch.tensor([[7, 3, 7], [5, 5, 5]]))
    >>> distinct.tolist(), places.tolist()
    ([[3, 7], [5, 0]], [[1, 0, 1], [0, 0, 0]])
    """
    ordered, order = values.sort(1)
    place = torch.nn.functional.pad((ordered.diff(dim=1) != 0).long().cumsum(1), (1, 0))
    distinct = values.new_zeros(len(values), int(place.max()) + 1).scatter(1, place, ordered)
    return distinct, torch.empty_like(place).scatter(1, order, place)


def evaluated_problems(
    tasks: Sequence[RelationalTask], seeds: Sequence[int], size: int, batches: int, device: str
) -> list[StackedProblems]:
    """Return the first `batches` test batches of each network, several of them in each of the stacked problems.

    Each of the stacked problems has equally many batches, so that the mean over them is that over the batches.
    """
    at_once = max(
        each for each in range(1, batches + 1) if batches % each == 0 and (each == 1 or each * size <= EVALUATED)
    )
    stacked = []
    for first in range(0, batches, at_once):
        scenes = [
            _joined([task.batch(size, seed, first + place, "test") for place in range(at_once)])
            for task, seed in zip(tasks, seeds, strict=True)
        ]
        most = max(len(each.images) for each in scenes)
        images = scenes[0].images.new_zeros(len(scenes), most, *scenes[0].images.shape[1:])
        for into, each in zip(images, scenes, strict=True):
            into[: len(each.images)] = each.images
        objects, labels = (torch.stack([getattr(each, name) for each in scenes]) for name in ("objects", "labels"))
        stacked.append(StackedProblems(images.to(device), objects.to(device), labels.to(device)))
    return stacked


def _joined(batches: Sequence[Scenes]) -> Scenes:
    """Return several batches as one."""
    before, objects = 0, []
    for batch in batches:
        objects.append(batch.objects + before)
        before += len(batch.images)
    images, labels = (torch.cat([getattr(batch, name) for batch in batches]) for name in ("images", "labels"))
    return Scenes(images, torch.cat(objects), labels)
