"""Distribution-of-n: find the object that a reordered row lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.relational.basic import Completion
from mnemoscope.tasks.relational.shape_task import LetterPatterns
from mnemoscope.tasks.relational.task import permutations
from mnemoscope.tasks.splits import Split

Restricted = Literal["no", "thesis", "code"]


@dataclass(frozen=True)
class DistributionOfN(Completion):
    """n objects, the same objects in another order without the last, and n + 1 candidates for the last.

    Kerg, 5.4.1 for n = 3, and C.4. The candidates are the n objects and a new one, in random order.

    `restricted` holds out orders. With "thesis", training uses the orders that keep the set of the first n - 3 objects,
    and the test uses all others. The released "code" exchanges the two.

    >>> DistributionOfN(n=10, m=89, restricted="thesis").objects
    30
    """

    n: int = 3
    restricted: Restricted = "no"

    def __post_init__(self) -> None:
        if self.restricted not in get_args(Restricted):
            raise ValueError(f'restricted must be "no", "thesis" or "code", but is {self.restricted!r}.')
        check_whole(2, n=self.n)
        if self.restricted != "no" and self.n < 4:
            raise ValueError(
                f"Restricted orders keep the first n - 3 objects first, but there are none for n = {self.n}: give 4 or "
                'more, or restricted="no".'
            )
        super().__post_init__()

    @property
    def held_out(self) -> tuple[str, ...]:
        return (*super().held_out, *(["orders"] if self.restricted != "no" else []))

    @property
    def row(self) -> int:
        return self.n

    @property
    def candidates(self) -> int:
        return self.n + 1

    def problems(self, size: int, generator: Generator, split: Split) -> LetterPatterns:
        order = self._orders(size, generator, split)
        return self.completed(torch.arange(self.n).expand(size, self.n), order, generator)

    def _orders(self, size: int, generator: Generator, split: Split) -> Int[Tensor, "size n"]:
        if self.restricted == "no":
            return permutations(size, self.n, generator)
        if (self.restricted == "thesis") == (split != "test"):
            first = permutations(size, self.n - 3, generator)
            return torch.cat([first, self.n - 3 + permutations(size, 3, generator)], 1)
        order = permutations(size, self.n, generator)
        while (again := self._keeps(order)).any():  # at most one order in four does
            order[again] = permutations(int(again.sum()), self.n, generator)
        return order

    def _keeps(self, order: Int[Tensor, "size n"]) -> Bool[Tensor, " size"]:
        """Return which orders permute the first n - 3 objects among themselves."""
        return (order[:, : self.n - 3] < self.n - 3).all(1)
