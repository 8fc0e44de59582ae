"""The denoise task: recall symbols that were scattered among blanks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch.nn.functional import one_hot

from mnemoscope.tasks.copy import Copy
from mnemoscope.tasks.curriculum import curriculum_stages
from mnemoscope.tasks.task import Batch


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
            raise ValueError(
                f"{self.symbols} symbols need as many steps to be shown in, but the delay has only {self.delay}."
            )
        super().__post_init__()

    def stages(self) -> Sequence[Denoise]:
        return curriculum_stages(self, "delay", least=self.symbols)

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
        """Return `symbols log(alphabet) / (delay + 1 + symbols)`, for the reason given in `Copy`."""
        return self.symbols * log(self.alphabet) / self.length
