"""What a task is: a seeded stream of batches, a loss, scores, and the loss that no memory can explain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.tasks.splits import Split, check_request, generator_seed

Inputs = Any
"""A tensor (time, batch, input), or the `Scenes` of relational problems. No union: a task has always the one kind, and
whoever reads a batch knows which."""


class Batch(NamedTuple):
    """Sequences, time first. `mask` says which steps count in the loss.

    Relational problems are sequences of one step, at which all objects are seen.
    """

    inputs: Inputs
    targets: Float[Tensor, "time batch output"] | Bool[Tensor, "time batch output"] | Int[Tensor, "time batch"]
    """Values, or bits, or the number of the right class: their type says which."""
    mask: Bool[Tensor, "time batch"]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(*(part.to(device) for part in self))

    def part(self, which: slice) -> Batch:
        """Some of its sequences."""
        inputs = self.inputs[:, which] if isinstance(self.inputs, Tensor) else self.inputs.part(which)
        return Batch(inputs, self.targets[:, which], self.mask[:, which])

    def windows(self, length: int | None) -> Iterator[Batch]:
        """The batch cut along time into pieces of `length` steps, the last one possibly shorter; whole if None, or if
        it has one step.
        """
        if length is None or len(self.mask) == 1:
            return iter((self,))
        return (Batch(*pieces) for pieces in zip(*(part.split(length) for part in self), strict=True))


@dataclass(frozen=True)
class Task(ABC):
    """A task is a frozen dataclass of its options, with two sizes, `scores`, `baseline` and batches.

    A new one is an `Endless`, which draws its batches, or a `DataTask`, which takes them from files.

    >>> from mnemoscope.tasks import Copy
    >>> task = Copy(delay=5)
    >>> first, again = (task.batch(32, seed=0, number=7) for _ in range(2))
    >>> first.inputs.shape, bool((first.inputs == again.inputs).all())
    (torch.Size([25, 32, 10]), True)
    """

    finite: ClassVar[bool] = False
    """Whether the splits are sets of data, of which `batches` make the whole."""
    beside_the_result: ClassVar[tuple[str, ...]] = ()
    """Options that do not change a batch, such as where its data lie; they do not enter the hash of a run."""
    baseline_is: ClassVar[str] = "without memory"
    """How the loss of `baseline` is come to, in words."""

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Input features."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Features or bits of the target, or number of classes."""

    @abstractmethod
    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """How good the outputs are, in the literature's terms; every task has an "accuracy" between 0 and 1."""

    @abstractmethod
    def baseline(self) -> float:
        """Expected loss of the best predictor that sees the current input and the time, but remembers nothing."""

    def trivial(self) -> dict[str, float]:
        """Expected `wrong bits` of networks that know nothing, by name; empty for a task without that score."""
        return {}

    def knowing_nothing(self) -> str:
        """`trivial` in words, to stand beside every result; "" where it is empty.

        >>> from mnemoscope.tasks import MatrixCopy
        >>> MatrixCopy().knowing_nothing()
        'knowing nothing: all zeros 10, all ones 15'
        """
        told = ", ".join(f"{name} {wrong:.4g}" for name, wrong in self.trivial().items())
        return f"knowing nothing: {told}" if told else ""

    @abstractmethod
    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        """Batch `number` of the stream with that seed: a function of its arguments alone, on every device."""

    def batches(self, size: int, split: Split) -> int | None:
        """How many batches of that size make the whole split; None if it is endless."""
        return None

    def continues(self, size: int, number: int, split: Split = "train") -> bool:
        """Whether the sequences of batch `number` go on where those of the one before ended: the state is carried."""
        return False

    def stages(self) -> Sequence[Task]:
        """The curriculum: tasks to train on one after the other, from easy to hard; the last one is the task itself."""
        return (self,)

    def prepare(self, progress: bool = True) -> None:  # noqa: B027 (most tasks have nothing to prepare)
        """Find, fetch and check what the batches are made from, so that nothing fails once work has begun."""

    def stream(self, size: int, seed: int, start: int = 0, split: Split = "train") -> Iterator[Batch]:
        """Batches `start`, `start + 1`, ... without end."""
        return (self.batch(size, seed, number, split) for number in count(start))

    def errors(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> Float[Tensor, "time batch"]:
        """Loss of every step: cross-entropy in nats for classes, its mean over bits, mean squared error for values.

        Outputs are the logits of classes, the logits of bits (that they are 1), or the values.
        """
        expected = (*batch.mask.shape, self.output_size)
        if outputs.shape != expected:
            raise ValueError(
                f"{type(self).__name__} takes outputs of shape {expected} (time, batch, output), "
                f"but got {tuple(outputs.shape)}."
            )
        if batch.targets.is_floating_point():
            return (outputs - batch.targets).square().mean(-1)
        if batch.targets.dtype == torch.bool:
            bits = batch.targets.to(outputs.dtype)
            return binary_cross_entropy_with_logits(outputs, bits, reduction="none").mean(-1)
        return class_errors(outputs.flatten(0, 1), batch.targets.flatten()).view(batch.mask.shape)

    def loss(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> Float[Tensor, ""]:
        """Mean error over the steps that count; 0 where none does."""
        counted = torch.where(batch.mask, self.errors(outputs, batch), 0.0)
        return counted.sum() / batch.mask.sum().clamp(min=1)


@dataclass(frozen=True)
class Endless(Task):
    """A task whose batches are drawn: a new one defines `sample`. Each split is an endless stream of fresh draws."""

    @abstractmethod
    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        """Draw a batch of `batch` sequences from a generator on the CPU."""

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        check_request(size, number, split)
        return self.sample(size, torch.Generator().manual_seed(generator_seed(seed, number, split)))


FEW_CLASSES = 16


def class_errors(logits: Float[Tensor, "cases classes"], targets: Int[Tensor, " cases"]) -> Float[Tensor, " cases"]:
    """The cross-entropy of each case, in nats.

    Few classes come first: along the last dimension a CPU takes case by case, for three times as long.
    """
    if logits.shape[1] > FEW_CLASSES:
        return cross_entropy(logits, targets, reduction="none")
    return -logits.mT.contiguous().log_softmax(0).gather(0, targets[None])[0]
