"""Copy tasks of Neural Turing Machines: recall random bits in order, once or several times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.bit_task import BitTask, MatrixItems, VectorItems, check_range, index_within
from mnemoscope.tasks.task import Batch

_Copying = TypeVar("_Copying", bound="Copying")


@dataclass(frozen=True)
class Copying(BitTask):
    """l items, a mark on all channels, then zeros while the items are due: 2 l + 1 steps.

    l is drawn from `shortest` to `longest`. `curriculum` is a list of smaller values of `longest` for the first stages,
    such as "5 10".
    """

    shortest: int = 1
    longest: int = 20
    curriculum: str = ""

    span_label: ClassVar[str] = "length"

    def __post_init__(self) -> None:
        check_range("length", self.shortest, self.longest)
        super().__post_init__()

    @property
    def longest_span(self) -> int:
        return self.longest

    def stages(self) -> Sequence[Copying]:
        return self._stages_by("longest", least=self.shortest)

    def at(self: _Copying, length: int) -> _Copying:
        """Return the task with sequences of one length, such as a length that training never shows."""
        return replace(self, shortest=length, longest=length, curriculum="")

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        length = self._draw(self.shortest, self.longest, batch, generator)
        longest = int(length.max())
        items = self._random_items(longest, batch, generator)
        time = torch.arange(2 * longest + 1).unsqueeze(1).expand(-1, batch)
        marks = (time == length).unsqueeze(-1).expand(-1, -1, self.channels).to(torch.float32)
        return self._assemble(items, index_within(time, length), marks, index_within(time - length - 1, length))


@dataclass(frozen=True)
class BitCopy(VectorItems, Copying):
    """Copy a sequence of vectors of bits: Graves et al. 2014, section 4.1.

    Inputs are the bits, and a channel for the mark at the end of the sequence.

    >>> task = BitCopy(bits=2, shortest=2, longest=2)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print(batch.inputs[:, 0].int().tolist(), batch.targets[3:, 0].int().tolist())
    [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]] [[0, 1], [1, 0]]
    """

    @property
    def channels(self) -> int:
        return 1


@dataclass(frozen=True)
class MatrixCopy(MatrixItems, Copying):
    """Copy a sequence of matrices of bits: Renanse et al. 2021, section 6.1, as in their code.

    The last row is the channel for the mark, a row of ones. In the targets it is 0, and it counts.

    >>> task = MatrixCopy(rows=2, columns=2, shortest=1, longest=1)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print(batch.inputs[:, 0].unflatten(-1, task.shape).int().tolist())
    [[[0, 1], [0, 0]], [[0, 0], [1, 1]], [[0, 0], [0, 0]]]
    """


@dataclass(frozen=True)
class BitRepeatCopy(VectorItems, Copying):
    """Copy a sequence of vectors r times, then set an end marker: Graves et al. 2014, section 4.2.

    After the mark, one step shows r on a separate channel. Then the sequence is due r times, followed by a vector of
    zeros whose last output, the end marker, is 1: l + 3 + r l steps. r is drawn from `fewest` to `most`. It is shown as
    (r - mean) / deviation of the numbers 1 to `normalised_by`, which must stay as in training when a test has larger r.

    >>> task = BitRepeatCopy(bits=1, longest=1).at(1, repeats=2)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print([[round(value, 2) for value in step] for step in batch.inputs[:3, 0].tolist()])
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.22]]
    >>> print(batch.targets[3:, 0].int().tolist())
    [[1, 0], [1, 0], [0, 1]]
    """

    longest: int = 10
    fewest: int = 1
    most: int = 10
    normalised_by: int = 10

    def __post_init__(self) -> None:
        check_range("number of repeats", self.fewest, self.most)
        if self.normalised_by < 2:
            raise ValueError(f"Numbers from 1 to normalised_by must differ, but normalised_by is {self.normalised_by}.")
        super().__post_init__()

    @property
    def channels(self) -> int:
        return 2

    @property
    def silent_bits(self) -> int:
        return 1

    def at(self, length: int, repeats: int | None = None) -> BitRepeatCopy:
        """Return the task with sequences of one length, and with one number of repeats if it is given."""
        fewest, most = (self.fewest, self.most) if repeats is None else (repeats, repeats)
        return replace(self, shortest=length, longest=length, fewest=fewest, most=most, curriculum="")

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        length = self._draw(self.shortest, self.longest, batch, generator)
        repeats = self._draw(self.fewest, self.most, batch, generator)
        items = self._random_items(int(length.max()), batch, generator)
        end = length * (1 + repeats) + 2
        time = torch.arange(int(end.max()) + 1).unsqueeze(1).expand(-1, batch)
        number = torch.where(time == length + 1, self._normalised(repeats), 0.0)
        marks = torch.stack([(time == length).to(number.dtype), number], -1)
        recalled = index_within(time - length - 2, length * repeats)
        due = torch.where(recalled >= 0, recalled % length, -1)
        assembled = self._assemble(items, index_within(time, length), marks, due)
        assembled.targets[..., -1] = time == end
        return assembled._replace(mask=assembled.mask | (time == end))

    def _normalised(self, repeats: Tensor) -> Float[Tensor, " batch"]:
        """Normalise by the mean (n + 1) / 2 and the variance (n^2 - 1) / 12 of a uniform number from 1 to n."""
        n = self.normalised_by
        return (repeats - (n + 1) / 2) / ((n**2 - 1) / 12) ** 0.5

    def baseline(self) -> float:
        """Return the expected loss over many batches, from the chance e(t) that a counted step is the last one.

        An end marker is 1 with chance e, each other bit with chance (1 - e) / 2; the best guess loses the entropy of
        these chances. The time alone reveals neither the length of the sequence nor the number of repeats.
        """
        counted, e = self._end_chances()
        lost = (self.bits * _entropy((1 - e) / 2) + _entropy(e)) / self.output_size
        return float((counted * lost).sum() / counted.sum())

    def chance(self) -> float:
        """Return the accuracy of 0 for each bit, and of an end marker where e(t) is above 1/2."""
        counted, e = self._end_chances()
        right = (self.bits * (1 + e) / 2 + torch.maximum(e, 1 - e)) / self.output_size
        return float((counted * right).sum() / counted.sum())

    def uninformed_scores(self) -> dict[str, float]:
        """Return the expected `wrong bits` over many batches.

        Half of the bits of each vector are wrong. At the last step, zeros miss the end marker and ones miss the rest.
        """
        counted, ended = self._odds()
        e = float(ended.sum() / counted.sum())
        zeros = (1 - e) * self.bits / 2 + e
        return {"all zeros": zeros, "all ones": self.output_size - zeros}

    def _end_chances(self) -> tuple[Float[Tensor, " time"], Float[Tensor, " time"]]:
        """Return for each step how often it counts, and the chance e(t) that it is the last one if it does."""
        counted, ended = self._odds()
        return counted, (ended / counted.clamp_min(1e-300)).clamp_max(1.0)

    def _odds(self) -> tuple[Float[Tensor, " time"], Float[Tensor, " time"]]:
        """Return for each step how often it counts and how often it is the last one, over all lengths and repeats."""
        length = torch.arange(self.shortest, self.longest + 1).view(-1, 1, 1)
        repeats = torch.arange(self.fewest, self.most + 1).view(-1, 1)
        begin, end = length + 2, length * (1 + repeats) + 2
        time = torch.arange(int(end.max()) + 1)
        counted, ended = ((time >= begin) & (time <= end)), time == end
        return counted.double().sum((0, 1)), ended.double().sum((0, 1))


def _entropy(p: Float[Tensor, " time"]) -> Float[Tensor, " time"]:
    """Return the entropy of a bit that is 1 with chance p, in nats."""
    return -torch.xlogy(p, p) - torch.xlogy(1 - p, 1 - p)
