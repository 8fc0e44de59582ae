"""The copy task, recall a string of symbols after a delay, and two variants: denoise, and transfer to another delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.tasks.task import Batch, GeneratedTask


@dataclass(frozen=True)
class Copy(GeneratedTask):
    """Symbols, `delay - 1` blanks, a marker, and blanks while the symbols are due; until then the target is blank.

    With 10 symbols of 8 the sequence has delay + 20 steps, 10 input classes (the alphabet, blank, marker) and 9 output
    classes (the alphabet, blank). Hochreiter & Schmidhuber 1997; Arjovsky et al. 2016, section 5.1.

    `curriculum` is a list of shorter delays for the first stages, such as "10 30"; a stage ends when the accuracy on a
    training batch reaches `curriculum_score` of the run.

    >>> task = Copy(delay=3, symbols=2, alphabet=4)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print(batch.inputs.argmax(-1).flatten().tolist(), batch.targets.flatten().tolist())
    [3, 0, 4, 4, 5, 4, 4] [4, 4, 4, 4, 4, 3, 0]
    """

    delay: int = 200
    symbols: int = 10
    alphabet: int = 8
    curriculum: str = ""

    span_label: ClassVar[str] = "delay"
    load_label: ClassVar[str] = "number of symbols"

    def __post_init__(self) -> None:
        if self.delay < 1:
            raise ValueError(f"The delay between symbols and recall must be at least 1, but delay is {self.delay}.")
        if self.symbols < 1:
            raise ValueError(f"There must be at least one symbol to recall, but symbols is {self.symbols}.")
        if self.alphabet < 2:
            raise ValueError(f"An alphabet needs at least two letters, but alphabet is {self.alphabet}.")
        self.stages()  # raises for a wrong curriculum

    def stages(self) -> Sequence[Copy]:
        return self._stages_by("delay")

    @property
    def longest_span(self) -> int:
        return self.delay

    def at(self, delay: int, /) -> Copy:
        return replace(self, delay=delay, curriculum="")

    @property
    def largest_load(self) -> int:
        return self.symbols

    def with_load(self, symbols: int, /) -> Copy:
        return replace(self, symbols=symbols, curriculum="")

    @property
    def length(self) -> int:
        """Steps of a sequence."""
        return self.delay + 2 * self.symbols

    @property
    def input_size(self) -> int:
        return self.alphabet + 2

    @property
    def output_size(self) -> int:
        return self.alphabet + 1

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        blank, marker = self.alphabet, self.alphabet + 1
        string = torch.randint(0, self.alphabet, (self.symbols, batch), generator=generator)
        classes = torch.full((self.length, batch), blank).scatter_(0, self._shown_at(batch, generator), string)
        classes[-self.symbols - 1] = marker
        targets = torch.full((self.length, batch), blank)
        targets[-self.symbols :] = string
        mask = torch.ones(self.length, batch, dtype=torch.bool)
        return Batch(one_hot(classes, self.input_size).to(torch.float32), targets, mask)

    def _shown_at(self, batch: int, generator: torch.Generator) -> Int[Tensor, "symbols batch"]:
        """Return the steps at which the symbols are shown."""
        return torch.arange(self.symbols).unsqueeze(1).expand(-1, batch)

    def recalled(self, batch: Batch) -> Bool[Tensor, "time batch"]:
        """Return the steps at which symbols are due; blanks count in the loss, but need no memory."""
        due = torch.zeros_like(batch.mask)
        due[-self.symbols :] = True
        return due

    def scores(self, outputs: Float[Tensor, "time batch classes"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of recalled symbols that are right; the blanks before do not count."""
        right = outputs[-self.symbols :].argmax(-1) == batch.targets[-self.symbols :]
        return {"accuracy": right.float().mean().item()}

    def baseline(self) -> float:
        """Return `symbols log(alphabet) / length`.

        The time alone predicts every blank. Each symbol to recall is uniform over the alphabet and independent of the
        blank at the input, so each loses log(alphabet) nats.
        """
        return self.symbols * log(self.alphabet) / self.length

    def chance(self) -> float:
        """Return `1 / alphabet`: the symbols that are due are uniform."""
        return 1 / self.alphabet


@dataclass(frozen=True)
class Denoise(Copy):
    """`symbols` symbols scattered over `delay` steps among blanks, a marker, then the symbols are due in order.

    The sequence has delay + 1 + symbols steps; classes are those of `Copy`. The steps with symbols are drawn without
    replacement (the code of Jing et al. draws with replacement, so that symbols may overwrite each other). Jing et al.
    2019, section 4; Kerg, section 4.6.1.

    >>> task = Denoise(delay=6, symbols=2, alphabet=4)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print(batch.inputs.argmax(-1).flatten().tolist(), batch.targets.flatten().tolist())
    [3, 0, 4, 4, 4, 4, 5, 4, 4] [4, 4, 4, 4, 4, 4, 4, 3, 0]
    """

    delay: int = 100

    def __post_init__(self) -> None:
        if self.delay < self.symbols:
            raise ValueError(f"{self.symbols} symbols need as many steps, but the delay has only {self.delay}.")
        super().__post_init__()

    @property
    def length(self) -> int:
        return self.delay + 1 + self.symbols

    def _shown_at(self, batch: int, generator: torch.Generator) -> Int[Tensor, "symbols batch"]:
        order = torch.rand(self.delay, batch, generator=generator).argsort(0)
        return order[: self.symbols].sort(0).values


@dataclass(frozen=True)
class TransferCopy(Copy):
    """`Copy` with `delay` in training and `test_delay` in validation and test.

    Hochreiter & Schmidhuber 1997; as in Kerg et al. 2020, Table 1, which trains at 100 and tests at 100 to 5,000.

    >>> task = TransferCopy(delay=3, test_delay=30, symbols=2)
    >>> [len(task.batch(1, seed=0, number=0, split=split).inputs) for split in ("train", "validation", "test")]
    [7, 34, 34]
    """

    delay: int = 100
    test_delay: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_delay < 1:
            raise ValueError(f"The delay of the test must be at least 1, but test_delay is {self.test_delay}.")

    def held_out(self) -> Copy:
        return self.at(self.test_delay)

    def at(self, delay: int, /) -> Copy:
        return Copy(delay, self.symbols, self.alphabet)

    def with_load(self, symbols: int, /) -> Copy:
        """Return the copy task with the delay of training and so many symbols."""
        return Copy(self.delay, symbols, self.alphabet)

    def baseline(self) -> float:
        """Return the baseline of `Copy` with `test_delay`, at which the network is evaluated."""
        return self.held_out().baseline()
