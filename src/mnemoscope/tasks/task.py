"""What a task is: an endless seeded stream of batches, a loss, scores, and the loss that no memory can explain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mnemoscope.shapes import Bool, Float, Int

Split = Literal["train", "test"]


class Batch(NamedTuple):
    """Sequences, time first. `mask` says which steps count in the loss."""

    inputs: Float[Tensor, "time batch input"]
    targets: Float[Tensor, "time batch output"] | Int[Tensor, "time batch"]
    """Values, or the number of the right class."""
    mask: Bool[Tensor, "time batch"]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(*(part.to(device) for part in self))

    def windows(self, length: int | None) -> Iterator[Batch]:
        """The batch cut along time into pieces of `length` steps, the last one possibly shorter; whole if None."""
        length = self.inputs.shape[0] if length is None else length
        return (Batch(*pieces) for pieces in zip(*(part.split(length) for part in self), strict=True))


@dataclass(frozen=True)
class Task(ABC):
    """A task is a frozen dataclass of its options; a new one defines `sample`, `scores`, `baseline` and the two sizes.

    >>> from mnemoscope.tasks import Copy
    >>> task = Copy(delay=5)
    >>> first, again = (task.batch(32, seed=0, number=7) for _ in range(2))
    >>> first.inputs.shape, bool((first.inputs == again.inputs).all())
    (torch.Size([25, 32, 10]), True)
    """

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Input features."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Features of the target, or number of classes."""

    @abstractmethod
    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        """Draw a batch of `batch` sequences from a generator on the CPU."""

    @abstractmethod
    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """How good the outputs are, in the literature's terms; every task has an "accuracy" between 0 and 1."""

    @abstractmethod
    def baseline(self) -> float:
        """Expected loss of the best predictor that sees the current input and the time, but remembers nothing."""

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        """Batch `number` of the stream with that seed: a function of its arguments alone, on every device."""
        if size < 1 or number < 0:
            raise ValueError(f"A batch has at least one sequence and a number from 0 on, but {size=} and {number=}.")
        return self.sample(size, torch.Generator().manual_seed(_generator_seed(seed, number, split)))

    def stream(self, size: int, seed: int, start: int = 0, split: Split = "train") -> Iterator[Batch]:
        """Batches `start`, `start + 1`, ... without end."""
        return (self.batch(size, seed, number, split) for number in count(start))

    def errors(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> Float[Tensor, "time batch"]:
        """Loss of every step: cross-entropy in nats for classes, squared error averaged over features for values."""
        expected = (*batch.mask.shape, self.output_size)
        if outputs.shape != expected:
            raise ValueError(
                f"{type(self).__name__} takes outputs of shape {expected} (time, batch, output), "
                f"but got {tuple(outputs.shape)}."
            )
        if batch.targets.is_floating_point():
            return (outputs - batch.targets).square().mean(-1)
        return cross_entropy(outputs.flatten(0, 1), batch.targets.flatten(), reduction="none").view(batch.mask.shape)

    def loss(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> Float[Tensor, ""]:
        """Mean error over the steps that count; 0 where none does."""
        counted = torch.where(batch.mask, self.errors(outputs, batch), 0.0)
        return counted.sum() / batch.mask.sum().clamp(min=1)


def _generator_seed(seed: int, number: int, split: Split) -> int:
    """31 hashed bits and one for the split.

    The generator on the CPU uses 32 bits of its seed, so that a hash alone could let a training batch be a test batch;
    the last bit excludes it.
    """
    if split not in get_args(Split):
        raise ValueError(f'split must be "train" or "test", but is {split!r}.')
    hashed = int.from_bytes(sha256(f"{split} {seed} {number}".encode()).digest()[:4])
    return hashed >> 1 << 1 | get_args(Split).index(split)
