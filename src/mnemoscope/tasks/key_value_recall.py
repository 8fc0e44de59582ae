"""Recall of many pairs: a list of keys with their values, then some of the keys again, whose values are due."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.bit_task import check_range
from mnemoscope.tasks.padding import padded_lengths
from mnemoscope.tasks.task import Batch, GeneratedTask


@dataclass(frozen=True)
class KeyValueRecall(GeneratedTask):
    """Pairs of a key and a value, then `queries` keys of the list, at each of which the value of its pair is due.

    The keys of a list differ and the values are independent, all uniform. The number of pairs is drawn from `fewest` to
    `most`; the queries are drawn with replacement. Key and value of a pair are one input, or two in turn if `apart`, as
    in the multi-query recall of Arora et al. 2024; a network must then combine neighbouring inputs, as a short
    convolution or a second layer does. Inputs are one-hot, keys before values; after the last query they are zeros.

    >>> task = KeyValueRecall(keys=4, values=2, fewest=2, most=2, queries=1, apart=True)
    >>> batch = task.batch(1, seed=2, number=0)
    >>> print(batch.inputs.argmax(-1).flatten().tolist(), batch.targets[-1].tolist(), task.sources(batch)[-1].tolist())
    [0, 4, 1, 5, 0] [0] [1]
    """

    keys: int = 128
    values: int = 64
    fewest: int = 4
    most: int = 32
    queries: int = 8
    apart: bool = False

    span_label: ClassVar[str] = "number of pairs"
    load_label: ClassVar[str] = "number of pairs"

    def __post_init__(self) -> None:
        check_whole(2, keys=self.keys, values=self.values)
        check_whole(1, queries=self.queries)
        check_range("number of pairs", self.fewest, self.most, lowest=1)
        if self.most > self.keys:
            raise ValueError(f"Keys of a list differ, so that {self.most} pairs need as many keys, not {self.keys}.")

    @property
    def longest_span(self) -> int:
        return self.most

    def at(self, pairs: int, /) -> KeyValueRecall:
        return replace(self, fewest=pairs, most=pairs)

    def lengths_of(self, batch: Batch) -> Int[Tensor, " batch"] | None:
        """Return the number of steps of each sequence, which ends with a query; None if all are equally long."""
        return padded_lengths(batch.mask)

    @property
    def input_size(self) -> int:
        return self.keys + self.values

    @property
    def output_size(self) -> int:
        return self.values

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        pairs = torch.randint(self.fewest, self.most + 1, (batch,), generator=generator)
        longest = int(pairs.max())
        keys = torch.rand(self.keys, batch, generator=generator).argsort(0)[:longest]
        values = torch.randint(self.values, (longest, batch), generator=generator)
        asked = (torch.rand(self.queries, batch, generator=generator, dtype=torch.float64) * pairs).long()

        steps = 1 + int(self.apart)  # inputs of a pair
        inputs = torch.zeros(steps * longest + self.queries, batch, self.input_size)
        listed = (torch.arange(longest).unsqueeze(1) < pairs).to(inputs).unsqueeze(-1)
        inputs[0 : steps * longest : steps].scatter_(-1, keys.unsqueeze(-1), listed)
        inputs[steps - 1 : steps * longest : steps].scatter_(-1, self.keys + values.unsqueeze(-1), listed)
        due = steps * pairs + torch.arange(self.queries).unsqueeze(1)  # (queries, batch)
        sequence = torch.arange(batch).expand_as(due)
        inputs[due, sequence, keys.gather(0, asked)] = 1.0
        targets = torch.zeros(inputs.shape[:2], dtype=torch.long)
        targets[due, sequence] = values.gather(0, asked)
        mask = torch.zeros(inputs.shape[:2], dtype=torch.bool)
        mask[due, sequence] = True
        return Batch(inputs, targets, mask)

    def sources(self, batch: Batch) -> Int[Tensor, "time batch"]:
        """Return the step at which the value due at each step was shown; -1 where nothing is due."""
        key = torch.where(batch.inputs[..., : self.keys].any(-1), batch.inputs[..., : self.keys].argmax(-1), -1)
        same = (key.unsqueeze(0) == key.unsqueeze(1)) & ~batch.mask  # (due, shown, batch)
        return torch.where(batch.mask, same.int().argmax(1) + int(self.apart), -1)

    def scores(self, outputs: Float[Tensor, "time batch classes"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of queries whose value is right."""
        return {"accuracy": (outputs.argmax(-1) == batch.targets)[batch.mask].double().mean().item()}

    def baseline(self) -> float:
        """Return `log(values)`: the value of a key is uniform for a network that does not remember the list."""
        return log(self.values)

    def chance(self) -> float:
        return 1 / self.values
