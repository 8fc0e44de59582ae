"""The denoise task: recall the symbols that were scattered among blanks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch.nn.functional import one_hot

from mnemoscope.tasks.copy import Copy
from mnemoscope.tasks.curriculum import rising
from mnemoscope.tasks.task import Batch


@dataclass(frozen=True)
class Denoise(Copy):
    """Symbols at `symbols` different ones of `delay` steps, blanks at the others; a marker; then they are due in order.

    The sequence has delay + 1 + symbols steps; classes are those of `Copy`. Which steps bear symbols is drawn without
    replacement (the code that Jing et al. released draws with it, and then symbols overwrite each other). Jing et al.
    2019, section 4; Kerg, section 4.6.1.

    >>> task = Denoise(delay=6, symbols=2, alphabet=4)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print(batch.inputs.argmax(-1).flatten().tolist(), batch.targets.flatten().tolist())
    [3, 0, 4, 4, 4, 4, 5, 4, 4] [4, 4, 4, 4, 4, 4, 4, 3, 0]
    """

    delay: int = 100

    def __post_init__(self) -> None:
        if self.delay < self.symbols:
            raise ValueError(
                f"{self.symbols} symbols need as many steps to be shown in, but the delay has only {self.delay}."
            )
        super().__post_init__()

    def stages(self) -> Sequence[Denoise]:
        return rising(self, "delay", least=self.symbols)

    @property
    def length(self) -> int:
        return self.delay + 1 + self.symbols

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        blank, marker = self.alphabet, self.alphabet + 1
        string = torch.randint(0, self.alphabet, (self.symbols, batch), generator=generator)
        order = torch.rand(self.delay, batch, generator=generator).argsort(0)
        classes = torch.full((self.length, batch), blank)
        classes.scatter_(0, order[: self.symbols].sort(0).values, string)
        classes[self.delay] = marker
        targets = torch.full((self.length, batch), blank)
        targets[-self.symbols :] = string
        mask = torch.ones(self.length, batch, dtype=torch.bool)
        return Batch(one_hot(classes, self.input_size).to(torch.float32), targets, mask)

    def baseline(self) -> float:
        """`symbols log(alphabet) / (delay + 1 + symbols)`, as of `Copy`."""
        return self.symbols * log(self.alphabet) / self.length
