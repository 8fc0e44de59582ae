"""The n-bit flip-flop: hold the sign of the last pulse of every channel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.shapes import Float
from mnemoscope.tasks.task import Batch, Endless


@dataclass(frozen=True)
class FlipFlop(Endless):
    """Each of `bits` channels receives +-1 pulses; its target is the sign of its last one (Sussillo & Barak 2013).

    Every channel pulses at the first step, afterwards with probability `rate` per step, each time with a random sign.

    >>> task = FlipFlop(bits=2, length=100, rate=0.1)
    >>> batch = task.batch(8, seed=0, number=0)
    >>> batch.inputs.shape, batch.targets[0].equal(batch.inputs[0])
    (torch.Size([100, 8, 2]), True)
    """

    bits: int = 3
    length: int = 64
    rate: float = 0.1

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise ValueError(f"A flip-flop needs at least one bit, but bits is {self.bits}.")
        if self.length < 1:
            raise ValueError(f"A sequence needs at least one step, but length is {self.length}.")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is the probability of a pulse per step, in (0, 1], but is {self.rate}.")

    @property
    def input_size(self) -> int:
        return self.bits

    @property
    def output_size(self) -> int:
        return self.bits

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        shape = (self.length, batch, self.bits)
        pulses = torch.rand(shape, generator=generator, dtype=torch.float32) < self.rate
        pulses[0] = True
        signs = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1.0
        time = torch.arange(self.length).view(-1, 1, 1)
        last = torch.where(pulses, time, 0).cummax(0).values  # when the last pulse was
        mask = torch.ones(self.length, batch, dtype=torch.bool)
        return Batch(inputs=pulses * signs, targets=signs.gather(0, last), mask=mask)

    def scores(self, outputs: Float[Tensor, "time batch bits"], batch: Batch) -> dict[str, float]:
        """`accuracy`: how often a bit has the right sign."""
        return {"accuracy": (outputs.sign() == batch.targets).float().mean().item()}

    def baseline(self) -> float:
        """`(1 - rate) (length - 1) / length`.

        A pulse tells the target. Without one (never at the first step, with probability 1 - rate later) the target is
        +1 or -1 with equal odds, whatever else is seen: the best guess is 0 and its squared error is 1.
        """
        return (1 - self.rate) * (self.length - 1) / self.length
