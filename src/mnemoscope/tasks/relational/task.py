"""What a relational task is, and how its problems are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.relational.scenes import Scenes
from mnemoscope.tasks.splits import Split, check_request, generator_seed


@dataclass(frozen=True)
class RelationalTask(ABC):
    """A task is a frozen dataclass of its options: objects are shown, and one of a few answers is right.

    A new one says how many `objects` and which `answers` it has, and defines `sample`.

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
        """Objects of a problem."""

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """What each label means, in words."""

    @property
    def held_out(self) -> tuple[str, ...]:
        """What is tested and was not trained, in words such as shapes or relations."""
        return ("objects",)

    def kinds(self, images: Float[Tensor, "images 3 height width"]) -> Int[Tensor, " images"]:
        """Which object each image shows: images with one number are the same to the task; -1 where there is none, in
        an image of one colour.
        """
        empty = (images == images[..., :1, :1]).flatten(1).all(1)
        return torch.where(empty, -1, torch.arange(len(images), device=images.device))

    @property
    def choices(self) -> int:
        """Answers among which one is right."""
        return len(self.answers)

    @property
    @abstractmethod
    def segments(self) -> tuple[int, ...] | None:
        """Lengths of the parts of the objects that segmented context normalisation treats apart; None if one."""

    @property
    def rows(self) -> tuple[int, ...]:
        """How many objects stand side by side in each row of a picture of the problem."""
        return self.segments or (self.objects,)

    @abstractmethod
    def sample(self, size: int, generator: Generator, split: Split) -> Scenes:
        """Draw a batch of `size` problems, as many of each label as can be, from a generator on the CPU."""

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Scenes:
        """Batch `number` of the stream with that seed: a function of its arguments alone.

        "validation" holds unseen draws of what is trained on; "test" what is held out from training.
        """
        check_request(size, number, split)
        return self.sample(size, Generator().manual_seed(generator_seed(seed, number, split)), split)


def balanced(size: int, number: int, generator: Generator) -> Int[Tensor, " size"]:
    """0 to `number` - 1 in random order, each as often as any other, or once more where `size` is no multiple.

    >>> balanced(7, 3, Generator().manual_seed(0)).bincount().sort().values.tolist()
    [2, 2, 3]
    """
    start = int(torch.randint(number, (1,), generator=generator))
    return ((torch.arange(size) + start) % number)[torch.randperm(size, generator=generator)]


def permutations(size: int, number: int, generator: Generator) -> Int[Tensor, "size number"]:
    """Random orders of 0 to `number` - 1, one in each row."""
    return different(size, number, number, generator)


def different(size: int, number: int, among: int, generator: Generator) -> Int[Tensor, "size number"]:
    """In each row `number` different ones of 0 to `among` - 1, in random order."""
    return torch.rand(size, among, generator=generator).topk(number).indices


def shuffled_with(
    answers: Int[Tensor, " size"], places: Int[Tensor, " size"], number: int, generator: Generator
) -> Int[Tensor, "size number"]:
    """Random orders of 0 to `number` - 1 in which each answer stands at its place."""
    order = permutations(len(answers), number, generator)
    found = (order == answers[:, None]).long().argmax(1)
    displaced = order.gather(1, places[:, None])
    return order.scatter(1, found[:, None], displaced).scatter(1, places[:, None], answers[:, None])


def of_labels(
    labels: Int[Tensor, " size"], tables: Sequence[Int[Tensor, "_ length"]], generator: Generator
) -> Int[Tensor, "size length"]:
    """For each label a row of its table, all rows of a table as often as can be."""
    chosen = labels.new_empty(len(labels), tables[0].shape[1])
    for label, table in enumerate(tables):
        here = labels == label
        chosen[here] = table[balanced(int(here.sum()), len(table), generator)]
    return chosen


def letters(*rows: str) -> Int[Tensor, "rows length"]:
    """Patterns as numbers, a for 0; spaces only separate.

    >>> letters("aa bb", "ab cc").tolist()
    [[0, 0, 1, 1], [0, 1, 2, 2]]
    """
    return torch.tensor([[ord(letter) - ord("a") for letter in row if letter != " "] for row in rows])
