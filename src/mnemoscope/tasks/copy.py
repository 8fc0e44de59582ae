"""The copy task: recall a string of symbols after a delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.curriculum import curriculum_stages
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

    def __post_init__(self) -> None:
        if self.delay < 1:
            raise ValueError(
                f"The delay between the symbols and their recall is at least 1, but delay is {self.delay}."
            )
        if self.symbols < 1:
            raise ValueError(f"There must be at least one symbol to recall, but symbols is {self.symbols}.")
        if self.alphabet < 2:
            raise ValueError(f"An alphabet needs at least two letters, but alphabet is {self.alphabet}.")
        self.stages()  # raises for a wrong curriculum

    def stages(self) -> Sequence[Copy]:
        return curriculum_stages(self, "delay")

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
        classes = torch.full((self.length, batch), blank)
        classes[: self.symbols] = string
        classes[-self.symbols - 1] = marker
        targets = torch.full((self.length, batch), blank)
        targets[-self.symbols :] = string
        mask = torch.ones(self.length, batch, dtype=torch.bool)
        return Batch(one_hot(classes, self.input_size).to(torch.float32), targets, mask)

    def scores(self, outputs: Float[Tensor, "time batch classes"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of recalled symbols that are right; the blanks before do not count."""
        right = outputs[-self.symbols :].argmax(-1) == batch.targets[-self.symbols :]
        return {"accuracy": right.float().mean().item()}

    def baseline(self) -> float:
        """Return `symbols log(alphabet) / (delay + 2 symbols)`.

        The time alone predicts every blank. Each symbol to recall is uniform over the alphabet and independent of the
        blank at the input, so each loses log(alphabet) nats.
        """
        return self.symbols * log(self.alphabet) / self.length
