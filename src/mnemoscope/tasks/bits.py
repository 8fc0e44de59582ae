"""What the tasks of Neural Turing Machines share: vectors or matrices of random bits, marks between them, bits due."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.tasks.task import Batch, Endless


@dataclass(frozen=True)
class BitTask(Endless):
    """Items of random bits are shown, with marks on channels of their own, and some of them are due again.

    Features are the bits of an item, then `channels` on which the marks are; outputs are the bits of an item, then
    `silent_bits` that are 0 whatever comes. Outputs are logits: a positive one says that the bit is 1. Only the steps
    at which something is due count, and the inputs are zero then.

    The sequences of a batch have one length, drawn anew for each batch (as in the sources), or with `mixed` each has
    its own: the shorter ones then end in zeros that do not count.
    """

    mixed: bool = False

    def __post_init__(self) -> None:
        self.stages()  # a wrong curriculum is told here

    @property
    @abstractmethod
    def random_bits(self) -> int:
        """Bits of an item that are drawn."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Inputs beside the bits, on which the marks are."""

    @property
    def silent_bits(self) -> int:
        """Outputs beside the bits, which are 0 whenever an item is due."""
        return 0

    @property
    def input_size(self) -> int:
        return self.random_bits + self.channels

    @property
    def output_size(self) -> int:
        return self.random_bits + self.silent_bits

    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """`accuracy`: how many of the bits due are right; `wrong bits`: how many of a vector or matrix are not."""
        wrong = ((outputs > 0) != batch.targets)[batch.mask].double().mean().item() if batch.mask.any() else 0.0
        return {"accuracy": 1 - wrong, "wrong bits": wrong * self.output_size}

    def baseline(self) -> float:
        """`log 2` nats for each random bit, whatever the input and the time; nothing for a bit that is always 0."""
        return log(2) * self.random_bits / self.output_size

    def trivial(self) -> dict[str, float]:
        """Expected `wrong bits` of two networks that know nothing, "all zeros" and "all ones".

        Half of the random bits, and for ones all of the bits that are 0. Of 5x5 matrices with four random rows, 10 and
        15 bits.
        """
        half = self.random_bits / 2
        return {"all zeros": half, "all ones": half + self.silent_bits}

    def _draw(self, least: int, most: int, batch: int, generator: torch.Generator) -> Int[Tensor, " batch"]:
        """Whole numbers from `least` to `most`, one for all sequences or one for each."""
        return torch.randint(least, most + 1, (batch if self.mixed else 1,), generator=generator).expand(batch)

    def _random_items(self, number: int, batch: int, generator: torch.Generator) -> Bool[Tensor, "number batch bits"]:
        return torch.randint(0, 2, (number, batch, self.random_bits), generator=generator).bool()

    def _assemble(
        self,
        items: Bool[Tensor, "number batch bits"],
        shown: Int[Tensor, "time batch"],
        marks: Float[Tensor, "time batch channels"],
        due: Int[Tensor, "time batch"],
    ) -> Batch:
        """The batch in which each step shows, and has due, the item of that number, or none if it is below 0."""
        inputs = torch.cat([_taken(items, shown).to(marks.dtype), marks], -1)
        silent = torch.zeros(*due.shape, self.silent_bits, dtype=torch.bool)
        return Batch(inputs, torch.cat([_taken(items, due), silent], -1), due >= 0)


def _taken(
    items: Bool[Tensor, "number batch bits"], index: Int[Tensor, "time batch"]
) -> Bool[Tensor, "time batch bits"]:
    taken = items.gather(0, index.clamp_min(0).unsqueeze(-1).expand(-1, -1, items.shape[-1]))
    return taken & (index >= 0).unsqueeze(-1)


def where_within(index: Int[Tensor, "time batch"], end: Int[Tensor, " batch"] | int) -> Int[Tensor, "time batch"]:
    """`index` where it is from 0 to below `end`, else -1.

    >>> where_within(torch.tensor([[-2], [0], [1], [2]]), 2).flatten().tolist()
    [-1, 0, 1, -1]
    """
    return torch.where((index >= 0) & (index < end), index, -1)


@dataclass(frozen=True)
class VectorItems(BitTask):
    """Items are vectors of `bits`; outputs have nothing else."""

    bits: int = 8

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise ValueError(f"A vector needs at least one bit, but bits is {self.bits}.")
        super().__post_init__()

    @property
    def random_bits(self) -> int:
        return self.bits


@dataclass(frozen=True)
class MatrixItems(BitTask):
    """Items are matrices of `rows` x `columns`, row after row, whose last row bears the marks and is 0 in outputs."""

    rows: int = 5
    columns: int = 5

    least_columns: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.rows < 2 or self.columns < self.least_columns:
            raise ValueError(
                f"A matrix needs a row of bits and one for marks, and at least {self.least_columns} columns to tell "
                f"them apart, but rows is {self.rows} and columns {self.columns}."
            )
        super().__post_init__()

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix that inputs and outputs are once they are unflattened."""
        return self.rows, self.columns

    @property
    def random_bits(self) -> int:
        return (self.rows - 1) * self.columns

    @property
    def channels(self) -> int:
        return self.columns

    @property
    def silent_bits(self) -> int:
        return self.columns


def check_range(name: str, least: int, most: int, lowest: int = 1) -> None:
    """Whether numbers from `least` to `most` can be drawn."""
    if not lowest <= least <= most:
        raise ValueError(
            f"The {name} is drawn from a range that begins at {lowest} or above, but it is {least} to {most}."
        )
