"""The base class of relational tasks, and helpers that draw their problems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.relational.network import Scenes
from mnemoscope.tasks.splits import Split, check_batch_request, generator_seed


class Problems(NamedTuple):
    """Problems whose images are given by their codes, see `RelationalTask.images`."""

    codes: Int[Tensor, "size objects"]
    labels: Int[Tensor, " size"]


class BatchedGenerator(Generator):
    """Generator of the numbers of several batches, which are drawn at once: problems are balanced in each of them."""

    batches: int = 1


@dataclass(frozen=True)
class RelationalTask(ABC):
    """A frozen dataclass of a task's options: a problem shows some objects, and one of a few answers is right.

    A subclass defines the number of `objects`, the `answers`, `draw` and `images`.

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
    def draw(self, size: int, generator: Generator, split: Split) -> Problems:
        """Draw a batch of `size` problems with balanced labels from a generator on the CPU."""

    @abstractmethod
    def images(self, codes: Int[Tensor, " number"], split: Split) -> Float[Tensor, "number 3 height width"]:
        """Return the images with these codes. Images of a split with different codes differ."""

    def sample(self, size: int, generator: Generator, split: Split) -> Scenes:
        """Draw a batch of `size` problems with balanced labels from a generator on the CPU, with its images."""
        codes, labels = self.draw(size, generator, split)
        distinct, objects = codes.unique(return_inverse=True)
        return Scenes(self.images(distinct, split), objects, labels)

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Scenes:
        """Return batch `number` of the stream with that seed; it depends on the arguments alone.

        "validation" has new problems with what is trained on; "test" has problems with what is held out of training.
        """
        check_batch_request(size, number, split)
        return self.sample(size, Generator().manual_seed(generator_seed(seed, number, split)), split)

    def draw_batches(self, size: int, batches: int, seed: int, number: int, split: Split = "train") -> Problems:
        """Return block `number` of a stream with that seed: `batches` batches of `size` problems, in order.

        It takes a fraction of the time of as many calls of `batch`, and the problems are others. A single one has the
        problems of `batch`.
        """
        check_batch_request(size, number, split)
        generator = BatchedGenerator()
        generator.manual_seed(generator_seed(seed, number, split))
        generator.batches = batches
        return self.draw(size * batches, generator, split)


def balanced(size: int, number: int, generator: Generator) -> Int[Tensor, " size"]:
    """Return 0 to `number` - 1 in random order, equally often, up to one if `size` is no multiple of `number`.

    >>> balanced(7, 3, Generator().manual_seed(0)).bincount().sort().values.tolist()
    [2, 2, 3]
    """
    if (batches := batches_of(generator)) > 1:
        start = torch.randint(number, (batches, 1), generator=generator)
        order = torch.rand(batches, size // batches, generator=generator).argsort(1)
        return ((order + start) % number).flatten()
    start = int(torch.randint(number, (1,), generator=generator))
    return ((torch.arange(size) + start) % number)[torch.randperm(size, generator=generator)]


def batches_of(generator: Generator) -> int:
    """Return the number of batches that are drawn from a generator at once."""
    return generator.batches if isinstance(generator, BatchedGenerator) else 1


def permutations(size: int, number: int, generator: Generator) -> Int[Tensor, "size number"]:
    """Return a random order of 0 to `number` - 1 in each row."""
    return sample_distinct(size, number, number, generator)


def sample_distinct(size: int, number: int, among: int, generator: Generator) -> Int[Tensor, "size number"]:
    """Return in each row `number` different values of 0 to `among` - 1, in random order."""
    if batches_of(generator) > 1 and among > 4 * number**2:  # few rows of independent numbers have equal ones
        drawn = torch.randint(among, (size, number), generator=generator)
        while (again := (drawn.sort(1).values.diff(dim=1) == 0).any(1)).any():
            drawn[again] = torch.randint(among, (int(again.sum()), number), generator=generator)
        return drawn
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
        if (batches := batches_of(generator)) > 1:
            start = torch.randint(len(table), (batches, 1), generator=generator)
            counts = (rows.view(batches, -1).cumsum(1) + start).flatten()[rows]  # in each batch 1, 2, ... from a start
            chosen[rows] = table[counts % len(table)]
        else:
            chosen[rows] = table[balanced(int(rows.sum()), len(table), generator)]
    return chosen


def parse_patterns(*rows: str) -> Int[Tensor, "rows length"]:
    """Return patterns of letters as numbers, 0 for a; spaces are ignored.

    >>> parse_patterns("aa bb", "ab cc").tolist()
    [[0, 0, 1, 1], [0, 1, 2, 2]]
    """
    return torch.tensor([[ord(letter) - ord("a") for letter in row if letter != " "] for row in rows])
