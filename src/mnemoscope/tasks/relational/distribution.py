"""Distribution-of-three, and of any number: what is missing from a row that was seen in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.relational.basic import Completion
from mnemoscope.tasks.relational.shape_task import Problems
from mnemoscope.tasks.relational.task import permutations
from mnemoscope.tasks.splits import Split

Restricted = Literal["no", "thesis", "code"]


@dataclass(frozen=True)
class DistributionOfN(Completion):
    """n objects, the same in another order without the last, and n + 1 candidates, one of them that last.

    Kerg, 5.4.1 for n = 3 and C.4. The candidates are the n objects and a new one, in random order.

    If `restricted`, orders are tested that were not trained. Some keep the set of the first n - 3 objects, and by
    "thesis" these are trained and all others tested; the released "code" has it the other way round.

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

    def needed(self, split: Split) -> int:
        return self.candidates

    def problems(self, size: int, generator: Generator, split: Split) -> Problems:
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
        """Whether the first n - 3 are, in some order, the first n - 3 again."""
        return (order[:, : self.n - 3] < self.n - 3).all(1)
