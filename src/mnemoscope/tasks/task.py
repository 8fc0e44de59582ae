"""The base classes of tasks: a seeded stream of batches, a loss, scores, and a memoryless baseline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.tasks.data_files import DataFolder, DataSet
from mnemoscope.tasks.splits import Split, check_batch_request, generator_seed

SPAN_FACTORS = (0.25, 0.5, 1, 1.5, 2, 4)
"""Spans of a test of length generalisation, as multiples of the longest in training."""
Inputs = Any
"""A tensor (time, batch, input), or the `Scenes` of relational problems. It is no union, since every task has one kind
of inputs and the reader of its batches knows which."""


class Batch(NamedTuple):
    """Sequences, time first. `mask` marks the steps that count in the loss.

    A relational problem is a sequence of one step that shows all objects.
    """

    inputs: Inputs
    targets: Float[Tensor, "time batch output"] | Bool[Tensor, "time batch output"] | Int[Tensor, "time batch"]
    """Values (float), bits (bool) or class numbers (int)."""
    mask: Bool[Tensor, "time batch"]

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on another device."""
        return Batch(*(part.to(device) for part in self))

    def part(self, which: slice) -> Batch:
        """Return some of the sequences."""
        inputs = self.inputs[:, which] if isinstance(self.inputs, Tensor) else self.inputs.part(which)
        return Batch(inputs, self.targets[:, which], self.mask[:, which])

    def counted(self) -> Batch:
        """Return the counted steps alone, as one step of as many sequences, in the order of time.

        >>> from mnemoscope.tasks import Parity
        >>> Parity().batch(5, seed=0, number=0).counted().targets.shape
        torch.Size([1, 5])
        """
        return self.at(self.places())

    def places(self) -> Int[Tensor, " places"]:
        """Return the places of the counted steps in the batch, flattened over time and sequences."""
        return self.mask.flatten().nonzero()[:, 0]

    def at(self, places: Int[Tensor, " places"]) -> Batch:
        """Return the steps at these places alone, as one step of as many sequences."""
        return Batch(*(part.flatten(0, 1).index_select(0, places).unsqueeze(0) for part in self))

    def windows(self, length: int | None) -> Iterator[Batch]:
        """Return the batch cut along time into windows of `length` steps; the last window may be shorter.

        The batch stays whole if `length` is None or if it has one step.
        """
        if length is None or len(self.mask) == 1:
            return iter((self,))
        return (Batch(*pieces) for pieces in zip(*(part.split(length) for part in self), strict=True))


@dataclass(frozen=True)
class Task(ABC):
    """Base class of tasks: frozen dataclasses of their options, with two sizes, scores, a baseline and batches.

    A new task subclasses `GeneratedTask`, which draws its batches, or `DataTask`, which reads them from files.

    >>> from mnemoscope.tasks import Copy
    >>> task = Copy(delay=5)
    >>> first, again = (task.batch(32, seed=0, number=7) for _ in range(2))
    >>> first.inputs.shape, bool((first.inputs == again.inputs).all())
    (torch.Size([25, 32, 10]), True)
    """

    finite: ClassVar[bool] = False
    """Whether the splits are finite data sets of `batches` batches."""
    unhashed_options: ClassVar[tuple[str, ...]] = ()
    """Options that do not change a batch, such as the folder of its data. The hash of a run ignores them."""
    baseline_label: ClassVar[str] = "without memory"
    """Phrase that describes how the baseline loss is reached."""
    characters: ClassVar[str] = ""
    """Characters that the features of one-hot inputs stand for; "" if inputs are no text."""
    pointwise: ClassVar[bool] = False
    """Whether loss and scores depend on the counted steps alone, not on which sequence has which of them, so that a
    network may be read out at these steps alone."""
    decoded: ClassVar[bool] = False
    """Whether a `SequenceDecoder` makes all outputs of a sequence from the features at its last step."""
    span_label: ClassVar[str] = ""
    """Name of the setting that lengthens the memory that the task needs: "delay", "length"; "" if it has none."""
    load_label: ClassVar[str] = ""
    """Name of the setting that increases how much must be held at once: "number of pairs"; "" if it has none. It may be
    the span."""

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Number of input features."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Number of features or bits of the target, or of classes."""

    @abstractmethod
    def scores(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> dict[str, float]:
        """Return scores of the outputs in the literature's terms; every task has an "accuracy" between 0 and 1."""

    @abstractmethod
    def baseline(self) -> float:
        """Return the expected loss of the best memoryless predictor, which sees the current input and the time."""

    def chance(self) -> float | None:
        """Return the expected accuracy, on held-out sequences, of the best memoryless predictor.

        It sees the current input and the time, as that of the baseline. None if answers are values, which have a
        baseline loss and no chance, or if it is not known.

        >>> from mnemoscope.tasks import Adding, Copy
        >>> Copy(alphabet=8).chance(), Adding().chance()
        (0.125, None)
        """
        return None

    def uninformed_scores(self) -> dict[str, float]:
        """Return the expected `wrong bits` of constant outputs, by name; empty for a task without that score."""
        return {}

    def uninformed_summary(self) -> str:
        """Return `uninformed_scores` as text, to print next to every result; "" if there are none.

        >>> from mnemoscope.tasks import MatrixCopy
        >>> MatrixCopy().uninformed_summary()
        'knowing nothing: all zeros 10, all ones 15'
        """
        scores = ", ".join(f"{name} {wrong:.4g}" for name, wrong in self.uninformed_scores().items())
        return f"knowing nothing: {scores}" if scores else ""

    @abstractmethod
    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        """Return batch `number` of the stream with that seed; it depends on the arguments alone, on every device."""

    def batches(self, size: int, split: Split) -> int | None:
        """Return how many batches of that size make the whole split; None if it is endless."""
        return None

    def continues(self, size: int, number: int, split: Split = "train") -> bool:
        """Return whether the sequences of batch `number` continue those of the batch before: the state is carried."""
        return False

    def stages(self) -> Sequence[Task]:
        """Return the curriculum: tasks to train on in order, from easy to hard; the last one is the task itself."""
        return (self,)

    def prepare(self, progress: bool = True) -> None:  # noqa: B027 (most tasks have nothing to prepare)
        """Download and check the data, so that training does not fail later."""

    def recalled(self, batch: Batch) -> Bool[Tensor, "time batch"]:
        """Return the steps at which memory is tested: those that count in the scores."""
        return batch.mask

    def lengths_of(self, batch: Batch) -> Int[Tensor, " batch"] | None:
        """Return the number of steps of each sequence before the padding at its end; None if none is padded.

        >>> from mnemoscope.tasks import Parity
        >>> task = Parity(longest=8)
        >>> batch = task.batch(4, seed=0, number=0)
        >>> len(batch.mask), task.lengths_of(batch).tolist()
        (7, [3, 6, 5, 5])
        """
        return None

    @property
    def longest_span(self) -> int:
        """The longest span in training; 0 for a task without one."""
        return 0

    def at(self, span: int, /) -> Task:
        """Return the task with this span in every split, such as a delay that training never shows.

        >>> from mnemoscope.tasks import Copy
        >>> task = Copy(delay=20)
        >>> task.span_label, task.longest_span, task.at(40).delay
        ('delay', 20, 40)
        """
        raise ValueError(f"{type(self).__name__} has no option for how long a network must remember.")

    def held_out(self) -> Task:
        """Return the task of the validation and test splits: another one if these differ, as by their length."""
        return self

    def span_tests(self) -> dict[int, Task]:
        """Return the test of length generalisation: the task at several spans, by span, in increasing order.

        The spans are multiples of the longest in training, from a quarter to four times. Spans that the task cannot
        have are left out. Empty for a task without spans.

        >>> from mnemoscope.tasks import Copy
        >>> {delay: task.delay for delay, task in Copy(delay=20).span_tests().items()}
        {5: 5, 10: 10, 20: 20, 30: 30, 40: 40, 80: 80}
        """
        return _at_multiples(self.at, self.longest_span)

    @property
    def largest_load(self) -> int:
        """The largest load in training; 0 for a task without one."""
        return self.longest_span if self.load_label and self.load_label == self.span_label else 0

    def with_load(self, load: int, /) -> Task:
        """Return the task with this load in every split, such as more symbols than training shows.

        >>> from mnemoscope.tasks import Copy
        >>> task = Copy(delay=20, symbols=10)
        >>> task.load_label, task.largest_load, task.with_load(15).symbols
        ('number of symbols', 10, 15)
        """
        if self.load_label and self.load_label == self.span_label:
            return self.at(load)
        raise ValueError(f"{type(self).__name__} has no option for how much a network must hold at once.")

    def load_tests(self) -> dict[int, Task]:
        """Return the task at several loads, multiples of the largest in training, as `span_tests` has spans."""
        return _at_multiples(self.with_load, self.largest_load)

    def stream(self, size: int, seed: int, start: int = 0, split: Split = "train") -> Iterator[Batch]:
        """Return an endless iterator over the batches `start`, `start + 1`, ..."""
        return (self.batch(size, seed, number, split) for number in count(start))

    def errors(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> Float[Tensor, "time batch"]:
        """Return the loss of every step: cross-entropy in nats (for bits, its mean), or mean squared error for values.

        Outputs are the logits of classes, the logits of bits, or the values.
        """
        self._check_outputs(outputs, batch)
        if batch.targets.is_floating_point():
            return (outputs - batch.targets).square().mean(-1)
        if batch.targets.dtype == torch.bool:
            bits = batch.targets.to(outputs.dtype)
            return binary_cross_entropy_with_logits(outputs, bits, reduction="none").mean(-1)
        return class_errors(outputs.flatten(0, 1), batch.targets.flatten()).view(batch.mask.shape)

    def _check_outputs(self, outputs: Tensor, batch: Batch) -> None:
        """Raise unless the outputs have the shape of the batch and of the task."""
        expected = (*batch.mask.shape, self.output_size)
        if outputs.shape != expected:
            raise ValueError(
                f"{type(self).__name__} takes outputs of shape {expected} (time, batch, output), "
                f"but got {tuple(outputs.shape)}."
            )

    def loss(self, outputs: Float[Tensor, "time batch output"], batch: Batch) -> Float[Tensor, ""]:
        """Return the mean error over the counted steps; 0 if there are none."""
        counted = torch.where(batch.mask, self.errors(outputs, batch), 0.0)
        return counted.sum() / batch.mask.sum().clamp(min=1)


@dataclass(frozen=True)
class GeneratedTask(Task):
    """Base class of tasks that generate their batches in `sample`. Each split is an endless stream of fresh draws."""

    @abstractmethod
    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        """Draw a batch of `batch` sequences from a generator on the CPU."""

    def held_out(self) -> GeneratedTask:
        return self

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        check_batch_request(size, number, split)
        task = self if split == "train" else self.held_out()
        return task.sample(size, torch.Generator().manual_seed(generator_seed(seed, number, split)))

    def _stages_by(self, field: str, least: int = 1) -> list[Any]:
        """Return the task with each value of `field` in its `curriculum`, such as "10 20 40", and then the task itself.

        >>> from mnemoscope.tasks import Copy
        >>> print([stage.delay for stage in Copy(delay=100, curriculum="10, 30").stages()])
        [10, 30, 100]
        """
        text: str = getattr(self, "curriculum")  # noqa: B009 (not every task has this field)
        final: int = getattr(self, field)
        try:
            values = [int(word) for word in text.replace(",", " ").split()]
        except ValueError:
            raise ValueError(f'A curriculum is a list of {field}s such as "10 20 40", but is {text!r}.') from None
        if any(not least <= value < final for value in values) or values != sorted(set(values)):
            expected = f"must rise, from {least} on and below {field} = {final}"
            raise ValueError(f"The {field}s of a curriculum {expected}, but are {values}.")
        return [*(replace(self, **{field: value, "curriculum": ""}) for value in values), self]


class DataTask(Task):
    """A task on files. A subclass sets `data_set`, reads it in `load`, and defines `batch` and `batches`.

    The validation split decides when training stops. The test split is evaluated once, with the weights that did best
    in validation. The files are read at the first batch, or by `prepare`.
    """

    finite: ClassVar[bool] = True
    unhashed_options: ClassVar[tuple[str, ...]] = ("data",)
    data_set: ClassVar[DataSet]
    data: str | None
    """Folder of the files. None: the folder in MNEMOSCOPE_DATA, or else ~/.cache/mnemoscope, with download."""

    @abstractmethod
    def load(self) -> Any:
        """Return the content of the files, which are read once per process."""

    @abstractmethod
    def batches(self, size: int, split: Split) -> int: ...

    def prepare(self, progress: bool = True) -> None:
        self.data_set.fetch(self.folder, progress)
        self.load()

    @property
    def folder(self) -> DataFolder:
        """Folder that is searched for the files."""
        return DataFolder.find(self.data)


def _at_multiples(variant: Callable[[int], Task], trained: int) -> dict[int, Task]:
    """Return the possible variants of a task at multiples of the trained value, in increasing order."""
    tests: dict[int, Task] = {}
    for value in sorted({round(factor * trained) for factor in SPAN_FACTORS} - {0}):
        try:
            tests[value] = variant(value)
        except ValueError:  # fewer steps than symbols, or more items than there are different ones
            continue
    return tests


FEW_CLASSES = 16
"""Largest number of classes for which the transposed cross-entropy is faster on a CPU."""


def class_errors(logits: Float[Tensor, "cases classes"], targets: Int[Tensor, " cases"]) -> Float[Tensor, " cases"]:
    """Return the cross-entropy of each case, in nats.

    For few classes, the logits are transposed: a reduction over the last dimension takes three times as long on a CPU.
    """
    if logits.shape[1] > FEW_CLASSES:
        return cross_entropy(logits, targets, reduction="none")
    return -logits.mT.contiguous().log_softmax(0).gather(0, targets[None])[0]
