"""The base class of relational tasks, and helpers that draw their problems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.relational.network import Scenes
from mnemoscope.tasks.splits import Split, check_batch_request, generator_seed


@dataclass(frozen=True)
class RelationalTask(ABC):
    """A frozen dataclass of a task's options: a problem shows some objects, and one of a few answers is right.

    A subclass defines the number of `objects`, the `answers` and `sample`.

    >>> from mnemoscope.tasks.relational import SameDifferent
    >>> scenes = SameDifferent(m=98).batch(4, seed=0, number=0)
    >>> scenes.images.shape, scenes.labels.tolist()
    (torch.Size([2, 3, 32, 32]), [1, 0, 0, 1])
    >>> scenes.objects[scenes.labels == 0].diff().flatten().tolist()  # the same
    [0, 0]
    """

    channels: ClassVar[int] = 3
    height: ClassVar[int]
    width: ClassVar[int]

    @property
    @abstractmethod
    def objects(self) -> int:
        """Number of objects of a problem."""

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """Meaning of each label."""

    @property
    def held_out(self) -> tuple[str, ...]:
        """Kinds of things that the test shows and training does not, such as "shapes" or "relations"."""
        return ("objects",)

    def kinds(self, images: Float[Tensor, "images 3 height width"]) -> Int[Tensor, " images"]:
        """Return the number of the object in each image; -1 for an image of one colour, which shows none.

        Images with the same number are the same object for the task.
        """
        empty = (images == images[..., :1, :1]).flatten(1).all(1)
        return torch.where(empty, -1, torch.arange(len(images), device=images.device))

    @property
    def choices(self) -> int:
        """Number of answers, one of which is right."""
        return len(self.answers)

    @property
    def segments(self) -> tuple[int, ...] | None:
        """Lengths of the segments that context normalisation treats separately; None for a single segment."""
        return None

    @property
    def rows(self) -> tuple[int, ...]:
        """Number of objects in each row of a picture of the problem."""
        return self.segments or (self.objects,)

    @abstractmethod
    def sample(self, size: int, generator: Generator, split: Split) -> Scenes:
        """Draw a batch of `size` problems with balanced labels from a generator on the CPU."""

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Scenes:
        """Return batch `number` of the stream with that seed; it depends on the arguments alone.

        "validation" has new problems with what is trained on; "test" has problems with what is held out of training.
        """
        check_batch_request(size, number, split)
        return self.sample(size, Generator().manual_seed(generator_seed(seed, number, split)), split)


def balanced(size: int, number: int, generator: Generator) -> Int[Tensor, " size"]:
    """Return 0 to `number` - 1 in random order, equally often, up to one if `size` is no multiple of `number`.

    >>> balanced(7, 3, Generator().manual_seed(0)).bincount().sort().values.tolist()
    [2, 2, 3]
    """
    start = int(torch.randint(number, (1,), generator=generator))
    return ((torch.arange(size) + start) % number)[torch.randperm(size, generator=generator)]


def permutations(size: int, number: int, generator: Generator) -> Int[Tensor, "size number"]:
    """Return a random order of 0 to `number` - 1 in each row."""
    return sample_distinct(size, number, number, generator)


def sample_distinct(size: int, number: int, among: int, generator: Generator) -> Int[Tensor, "size number"]:
    """Return in each row `number` different values of 0 to `among` - 1, in random order."""
    return torch.rand(size, among, generator=generator).topk(number).indices


def candidates_with_answer(
    answers: Int[Tensor, " size"], places: Int[Tensor, " size"], number: int, generator: Generator
) -> Int[Tensor, "size number"]:
    """Return random orders of 0 to `number` - 1 in which each answer is at its given place."""
    order = permutations(len(answers), number, generator)
    found = (order == answers[:, None]).long().argmax(1)
    displaced = order.gather(1, places[:, None])
    return order.scatter(1, found[:, None], displaced).scatter(1, places[:, None], answers[:, None])


def patterns_by_label(
    labels: Int[Tensor, " size"], tables: Sequence[Int[Tensor, "_ length"]], generator: Generator
) -> Int[Tensor, "size length"]:
    """Return for each label a row of its table, with the rows of a table balanced."""
    chosen = labels.new_empty(len(labels), tables[0].shape[1])
    for label, table in enumerate(tables):
        rows = labels == label
        chosen[rows] = table[balanced(int(rows.sum()), len(table), generator)]
    return chosen


def parse_patterns(*rows: str) -> Int[Tensor, "rows length"]:
    """Return patterns of letters as numbers, 0 for a; spaces are ignored.

    >>> parse_patterns("aa bb", "ab cc").tolist()
    [[0, 0, 1, 1], [0, 1, 2, 2]]
    """
    return torch.tensor([[ord(letter) - ord("a") for letter in row if letter != " "] for row in rows])
