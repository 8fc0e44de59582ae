"""Base classes of the bit tasks of Neural Turing Machines: items of random bits, marks between them, bits due."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.tasks.task import Batch, GeneratedTask

Items = Bool[Tensor, "number batch bits"]
Index = Int[Tensor, "time batch"]


@dataclass(frozen=True)
class BitTask(GeneratedTask):
    """Items of random bits are shown, with marks on separate channels, and some of the items are due later.

    Inputs are the bits of an item, then `channels` for the marks. Outputs are the bits of an item, then `silent_bits`
    that are always 0. Outputs are logits: a positive one predicts 1. Only steps with something due count; the inputs
    are zero there.

    All sequences of a batch have one length, drawn for each batch (as in the sources). With `mixed`, each sequence has
    a different length, and the shorter ones end in zeros that do not count.
    """

    mixed: bool = False

    def __post_init__(self) -> None:
        self.stages()  # raises for a wrong curriculum

    @property
    @abstractmethod
    def random_bits(self) -> int:
        """Number of random bits of an item."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Number of inputs for the marks."""

    @property
    def silent_bits(self) -> int:
        """Number of outputs that are always 0."""
        return 0

    @property
    def input_size(self) -> int:
        return self.random_bits + self.channels

    @property
    def output_size(self) -> int:
        return self.random_bits + self.silent_bits

    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of right bits, and `wrong bits`, the wrong bits per vector or matrix."""
        wrong = ((outputs > 0) != batch.targets)[batch.mask].double().mean().item() if batch.mask.any() else 0.0
        return {"accuracy": 1 - wrong, "wrong bits": wrong * self.output_size}

    def baseline(self) -> float:
        """Return the mean of `log 2` nats for each random bit and 0 for each bit that is always 0."""
        return log(2) * self.random_bits / self.output_size

    def chance(self) -> float:
        """Return the mean of 1/2 for each random bit and 1 for each bit that is always 0."""
        return (self.random_bits / 2 + self.silent_bits) / self.output_size

    def uninformed_scores(self) -> dict[str, float]:
        """Return the expected `wrong bits` of two constant outputs, "all zeros" and "all ones".

        These are half of the random bits, and for ones also the bits that are always 0. For 5 x 5 matrices with four
        random rows: 10 and 15 bits.
        """
        half = self.random_bits / 2
        return {"all zeros": half, "all ones": half + self.silent_bits}

    def _draw(self, least: int, most: int, batch: int, generator: torch.Generator) -> Int[Tensor, " batch"]:
        """Draw whole numbers from `least` to `most`: one for the batch, or with `mixed` one per sequence."""
        return torch.randint(least, most + 1, (batch if self.mixed else 1,), generator=generator).expand(batch)

    def _random_items(self, number: int, batch: int, generator: torch.Generator) -> Items:
        return torch.randint(0, 2, (number, batch, self.random_bits), generator=generator).bool()

    def _assemble(self, items: Items, shown: Index, marks: Float[Tensor, "time batch channels"], due: Index) -> Batch:
        """Return the batch in which each step shows, and has due, the item of the given number; none below 0."""
        inputs = torch.cat([_select(items, shown).to(marks.dtype), marks], -1)
        silent = torch.zeros(*due.shape, self.silent_bits, dtype=torch.bool)
        return Batch(inputs, torch.cat([_select(items, due), silent], -1), due >= 0)


def _select(items: Items, index: Index) -> Bool[Tensor, "time batch bits"]:
    selected = items.gather(0, index.clamp_min(0).unsqueeze(-1).expand(-1, -1, items.shape[-1]))
    return selected & (index >= 0).unsqueeze(-1)


def index_within(index: Index, end: Int[Tensor, " batch"] | int) -> Index:
    """Return `index` where it is at least 0 and below `end`, else -1.

    >>> index_within(torch.tensor([[-2], [0], [1], [2]]), 2).flatten().tolist()
    [-1, 0, 1, -1]
    """
    return torch.where((index >= 0) & (index < end), index, -1)


@dataclass(frozen=True)
class VectorItems(BitTask):
    """Bit task whose items are vectors of `bits` bits."""

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
    """Bit task whose items are matrices of `rows` x `columns`, flattened by rows; the last row is for the marks."""

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
        """Shape of inputs and outputs as matrices."""
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
    """Raise unless `least` to `most` is a range of numbers from `lowest` on."""
    if not lowest <= least <= most:
        raise ValueError(
            f"The {name} is drawn from a range that begins at {lowest} or above, but it is {least} to {most}."
        )
