"""Associative recall: after a list, one of its items is shown again, and the item that followed it is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.tasks.bit_task import BitTask, MatrixItems, VectorItems, check_range, index_within
from mnemoscope.tasks.task import Batch

_Recall = TypeVar("_Recall", bound="Recall")


@dataclass(frozen=True)
class Recall(BitTask):
    """A list of k items, a query that repeats one of them, and zeros while the item that followed it is due.

    An item is `item_length` vectors or matrices after a mark. The query is another mark and an item other than the
    last. k is drawn from `fewest` to `most`. All items of a list differ, since otherwise the answer could be ambiguous
    (in the sources, items may coincide by chance, rarely). `curriculum` is a list of smaller values of `most` for the
    first stages, such as "2 4".
    """

    item_length: int = 3
    fewest: int = 2
    most: int = 6
    curriculum: str = ""

    span_label: ClassVar[str] = "number of items"
    load_label: ClassVar[str] = "number of items"
    closed: ClassVar[bool] = False
    """Whether a mark also ends the query."""

    def __post_init__(self) -> None:
        check_range("number of items", self.fewest, self.most, lowest=2)
        if self.item_length < 1:
            raise ValueError(f"An item has at least one part, but item_length is {self.item_length}.")
        if 2 ** min(self.item_length * self.random_bits, 62) < self.most**2:
            raise ValueError(
                f"Items are drawn until all are different, which is likely only if there are many more than the "
                f"{self.most} in a list, at least {self.most**2}; but {self.item_length} x {self.random_bits} bits "
                f"make {2 ** (self.item_length * self.random_bits)}."
            )
        super().__post_init__()

    def stages(self) -> Sequence[Recall]:
        return self._stages_by("most", least=self.fewest)

    @property
    def longest_span(self) -> int:
        return self.most

    def at(self: _Recall, items: int, item_length: int | None = None) -> _Recall:
        """Return the task with lists of `items` items, and items of another length if `item_length` is given."""
        size = self.item_length if item_length is None else item_length
        return replace(self, fewest=items, most=items, item_length=size, curriculum="")

    def _marks(self) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
        """Return the mark before each item, and the mark before the query."""
        raise NotImplementedError(f"{type(self).__name__} must define _marks().")

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        size = self.item_length
        number = self._draw(self.fewest, self.most, batch, generator)
        items = self._different_items(int(number.max()), batch, generator)
        asked = (torch.rand(batch, generator=generator, dtype=torch.float64) * (number - 1)).long()  # 0 .. number - 2
        begin = number * (size + 1)  # first step of the query
        time = torch.arange(int(begin.max()) + 2 * size + 1 + int(self.closed)).unsqueeze(1).expand(-1, batch)

        item, part = time // (size + 1), time % (size + 1) - 1
        listed = torch.where((time < begin) & (part >= 0), item * size + part, -1)
        query = index_within(time - begin - 1, size)
        shown = torch.where(query >= 0, query + asked * size, listed)
        answer = index_within(time - (begin + 1 + size + int(self.closed)), size)
        due = torch.where(answer >= 0, answer + (asked + 1) * size, -1)

        before_item, around_query = self._marks()
        asking = (time == begin) | (self.closed & (time == begin + size + 1))
        marks = ((time < begin) & (part < 0)).unsqueeze(-1) * before_item + asking.unsqueeze(-1) * around_query
        return self._assemble(items, shown, marks, due)

    def _different_items(self, number: int, batch: int, generator: torch.Generator) -> Bool[Tensor, "parts batch bits"]:
        """Draw lists of items; lists with a repeated item are drawn again."""
        items = self._random_items(number * self.item_length, batch, generator)
        while (again := self._repeated(items)).any():
            items[:, again] = self._random_items(len(items), int(again.sum()), generator)
        return items

    def _repeated(self, items: Bool[Tensor, "parts batch bits"]) -> Bool[Tensor, " batch"]:
        """Return which lists have two equal items, comparing items as integers with their bits as digits.

        Items of more than 64 bits may differ and still give equal integers; such a list is drawn again needlessly, with
        a chance of 2^-64.
        """
        digits = items.unflatten(0, (-1, self.item_length)).transpose(1, 2).flatten(2).long()  # (number, batch, bits)
        numbers = (digits << torch.arange(digits.shape[-1]).clamp_max(63)).sum(-1).sort(0).values
        return (numbers.diff(dim=0) == 0).any(0)


@dataclass(frozen=True)
class AssociativeRecall(VectorItems, Recall):
    """Associative recall with items of three vectors of six bits: Graves et al. 2014, section 4.3.

    The channel after the bits marks the beginning of each item; the next channel marks both ends of the query. A
    sequence with k items of n vectors has (k + 1)(n + 1) + 1 + n steps.

    >>> task = AssociativeRecall(bits=3, item_length=1, most=2)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print(*["".join(str(int(bit)) for bit in step) for step in batch.inputs[:, 0]])
    00010 10100 00010 11100 00001 10100 00001 00000
    >>> batch.targets[-1, 0].int().tolist(), batch.mask[:, 0].sum().item()
    ([1, 1, 1], 1)
    """

    bits: int = 6

    closed: ClassVar[bool] = True

    @property
    def channels(self) -> int:
        return 2

    def _marks(self) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
        return torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


@dataclass(frozen=True)
class MatrixRecall(MatrixItems, Recall):
    """Associative recall with items of two matrices of bits: Renanse et al. 2021, section 6.2, as in their code.

    The last row of a matrix is (1, 0, ..., 0, 1) before each item and (0, 1, ..., 1, 0) before the query. k is 2 to 9.
    A sequence with k items of n matrices has k (n + 1) + 1 + 2 n steps.

    >>> task = MatrixRecall(rows=2, columns=3, item_length=1, most=2)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print(batch.inputs[::2, 0].unflatten(-1, task.shape)[:, -1].int().tolist())
    [[1, 0, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]]
    """

    item_length: int = 2
    most: int = 9

    least_columns: ClassVar[int] = 3

    def _marks(self) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
        ends = torch.zeros(self.columns)
        ends[0] = ends[-1] = 1
        return ends, 1 - ends
