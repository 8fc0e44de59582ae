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

    Every channel pulses at the first step, afterwards with probability `rate` per step, each time with a random sign. A
    pulse lasts `width` steps, or until the next one of its channel. `settle` steps from a flip of any bit on do not
    count, since no network of finite time constants follows at once (Jang's reservoirs: pulses of 11 steps).

    >>> task = FlipFlop(bits=2, length=100, rate=0.1)
    >>> batch = task.batch(8, seed=0, number=0)
    >>> batch.inputs.shape, batch.targets[0].equal(batch.inputs[0])
    (torch.Size([100, 8, 2]), True)
    """

    bits: int = 3
    length: int = 64
    rate: float = 0.1
    width: int = 1
    settle: int = 0

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise ValueError(f"A flip-flop needs at least one bit, but bits is {self.bits}.")
        if self.length < 1:
            raise ValueError(f"A sequence needs at least one step, but length is {self.length}.")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is the probability of a pulse per step, in (0, 1], but is {self.rate}.")
        if self.width < 1 or not 0 <= self.settle < self.length:
            raise ValueError(
                f"A pulse lasts at least one step, and flips settle before a sequence of {self.length} steps ends, but "
                f"width is {self.width} and settle is {self.settle}."
            )

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
        targets = signs.gather(0, last)
        inputs = torch.where(time - last < self.width, targets, 0)
        return Batch(inputs, targets, mask=self._settled(targets, time))

    def _settled(self, targets: Float[Tensor, "time batch bits"], time: Tensor) -> Tensor:
        flips = torch.ones_like(targets, dtype=torch.bool)  # the first pulses are flips too
        flips[1:] = targets[1:] != targets[:-1]
        last = torch.where(flips, time, 0).cummax(0).values.amax(2)
        return time[:, 0] - last >= self.settle

    def scores(self, outputs: Float[Tensor, "time batch bits"], batch: Batch) -> dict[str, float]:
        """`accuracy`: how often a bit has the right sign, of the steps that count."""
        return {"accuracy": (outputs.sign() == batch.targets)[batch.mask].float().mean().item()}

    def baseline(self) -> float:
        """`(1 - rate) (length - 1) / length` for pulses of one step.

        A pulse tells the target. Without one (never while the first lasts, later with probability (1 - rate)^width) the
        target is +1 or -1 with equal odds, whatever else is seen: the best guess is 0 and its squared error is 1. A
        step counts if none of the last `settle` began a flip, which half of the pulses do, those in sight among them.
        """
        earlier = max(self.settle - self.width, 0)
        unseen = (1 - self.rate) ** self.width * (1 - self.rate / 2) ** earlier
        counted = (1 - self.rate / 2) ** self.settle
        return unseen / counted * (self.length - max(self.width, self.settle)) / (self.length - self.settle)
