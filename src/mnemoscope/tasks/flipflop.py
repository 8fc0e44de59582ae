"""The n-bit flip-flop: hold the sign of the last pulse of every channel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.tasks.task import Batch, GeneratedTask


@dataclass(frozen=True)
class FlipFlop(GeneratedTask):
    """Each of `bits` channels receives +-1 pulses; its target is the sign of its last pulse (Sussillo & Barak 2013).

    Every channel pulses at the first step, and later with probability `rate` per step, each time with a random sign. A
    pulse lasts `width` steps, or until the next pulse of its channel.

    With `apart`, single pulses arrive in random channels (as for Jang's reservoirs, with pulses of 11 steps). The first
    pulses visit all channels, `apart` steps from each other. Later pulses come with probability `rate` per step once
    `apart` steps have passed.

    Steps before every channel has had a pulse do not count. Neither do `settle` steps from the flip of any bit, since a
    network with a time constant cannot follow immediately.

    >>> task = FlipFlop(bits=2, length=100, rate=0.1)
    >>> batch = task.batch(8, seed=0, number=0)
    >>> batch.inputs.shape, batch.targets[0].equal(batch.inputs[0])
    (torch.Size([100, 8, 2]), True)
    """

    bits: int = 3
    length: int = 64
    rate: float = 0.1
    width: int = 1
    apart: int = 0
    settle: int = 0

    span_label: ClassVar[str] = "holding time"
    rare: ClassVar[float] = 1e-12
    """Rate at which no pulse follows the first ones."""

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise ValueError(f"A flip-flop needs at least one bit, but bits is {self.bits}.")
        if self.length < 1:
            raise ValueError(f"A sequence needs at least one step, but length is {self.length}.")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is the probability of a pulse per step, in (0, 1], but is {self.rate}.")
        if self.width < 1 or self.settle < 0 or self.apart < 0:
            raise ValueError(
                f"A pulse lasts a step or more, and apart and settle are 0 or more steps, but width is {self.width}, "
                f"apart {self.apart} and settle {self.settle}."
            )
        if self.apart and self.apart < max(self.width, self.settle):
            raise ValueError(
                f"Pulses that come one at a time begin when the one before has ended and its flip has settled: apart "
                f"must be at least {max(self.width, self.settle)}, but is {self.apart}."
            )
        if max(self.width, self.apart) > self.length:
            raise ValueError(
                f"Pulses and the steps between them fit into a sequence, but width is {self.width}, apart {self.apart} "
                f"and length {self.length}."
            )
        if self._first >= self.length:
            raise ValueError(f"No step would count: the first that may is {self._first}, but length is {self.length}.")

    @property
    def _first(self) -> int:
        """First step that counts."""
        return self.settle + (self.bits - 1) * self.apart

    @property
    def longest_span(self) -> int:
        """The longest time for which a bit may have to be held; 0 if pulses arrive in one channel at a time."""
        return 0 if self.apart else self.length - 1

    def at(self, steps: int, /) -> FlipFlop:
        """Return the task with pulses at the first step alone, in which the bits held so many steps later count."""
        if self.apart:
            raise ValueError("Pulses that come one at a time leave no common time since the pulses: omit apart.")
        shortest = max(self.width, self.settle, 1)
        if steps < shortest:
            raise ValueError(f"Bits are held after pulse and settling, from step {shortest} on, but steps is {steps}.")
        return replace(self, length=steps + 1, rate=self.rare, settle=steps)

    @property
    def input_size(self) -> int:
        return self.bits

    @property
    def output_size(self) -> int:
        return self.bits

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        shape = (self.length, batch, self.bits)
        if self.apart:
            pulses = self._single_pulses(batch, generator)
        else:
            pulses = torch.rand(shape, generator=generator, dtype=torch.float32) < self.rate
            pulses[0] = True
        signs = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1.0
        time = torch.arange(self.length).view(-1, 1, 1)
        last = torch.where(pulses, time, -1).cummax(0).values  # step of the last pulse; -1 before the first
        targets = torch.where(last >= 0, signs.gather(0, last.clamp_min(0)), 0)
        inputs = torch.where(time - last < self.width, targets, 0)
        return Batch(inputs, targets, mask=self._counted(targets, time))

    def _single_pulses(self, batch: int, generator: torch.Generator) -> Bool[Tensor, "time batch bits"]:
        most = self.length // self.apart + 1
        chance = torch.rand(most, batch, generator=generator, dtype=torch.float64)
        # steps before an event of probability `rate`, by inverting the geometric distribution
        waits = torch.zeros_like(chance) if self.rate == 1 else ((1 - chance).log() / torch.tensor(1 - self.rate).log())
        gaps = self.apart + waits.clamp_max(self.length).floor().long()
        gaps[: self.bits] = self.apart
        channels = torch.randint(0, self.bits, (most, batch), generator=generator)
        begin = torch.rand(self.bits, batch, generator=generator).argsort(0)
        channels[: self.bits] = begin[:most]
        onset = gaps.cumsum(0) - self.apart
        pulses = torch.zeros(self.length + 1, batch, self.bits, dtype=torch.bool)
        pulses[onset.clamp_max(self.length), torch.arange(batch), channels] = True
        return pulses[:-1]

    def _counted(self, targets: Float[Tensor, "time batch bits"], time: Tensor) -> Bool[Tensor, "time batch"]:
        flips = torch.ones_like(targets, dtype=torch.bool)  # the first pulses count as flips
        flips[1:] = targets[1:] != targets[:-1]
        last = torch.where(flips, time, 0).cummax(0).values.amax(2)
        return (time[:, 0] - last >= self.settle) & (targets != 0).all(2)

    def scores(self, outputs: Float[Tensor, "time batch bits"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of bits with the right sign over the counted steps."""
        return {"accuracy": (outputs.sign() == batch.targets)[batch.mask].float().mean().item()}

    def baseline(self) -> float:
        """Return the expected loss: `(1 - rate) (length - 1) / length` for independent pulses of one step.

        A pulse at the input reveals the target. Otherwise the target is +1 or -1 with equal chance, independent of the
        other inputs: the best guess is 0, with squared error 1. Half of the later pulses flip their bit, after which
        `settle` steps do not count. The value holds for a large batch, as the number of counted steps varies.
        """
        counted, unseen = self._single_pulse_odds() if self.apart else self._independent_odds()
        return unseen / counted

    def chance(self) -> float:
        """Return `1 - baseline / 2`: a sign is guessed right in half of the cases in which no pulse shows it."""
        return 1 - self.baseline() / 2

    def _independent_odds(self) -> tuple[float, float]:
        """Return the expected counted steps, as far as one bit decides, and those without a pulse at its input."""
        earlier = max(self.settle - self.width, 0)
        unseen = (1 - self.rate) ** self.width * (1 - self.rate / 2) ** earlier
        counted = (1 - self.rate / 2) ** self.settle
        return counted * (self.length - self.settle), unseen * (self.length - max(self.width, self.settle))

    def _single_pulse_odds(self) -> tuple[float, float]:
        """Return the same for single pulses, from the chance of a pulse per step; `apart` steps have at most one."""
        begin = (self.bits - 1) * self.apart
        pulse = [0.0] * self.length
        for step in range(0, begin + 1, self.apart):
            pulse[step] = 1.0
        for step in range(begin + self.apart, self.length):
            pulse[step] = self.rate * (1 - sum(pulse[step - self.apart + 1 : step]))
        total = torch.tensor(pulse, dtype=torch.float64).cumsum(0)
        total = torch.cat([total.new_zeros(1), total])

        def within(window: int) -> Tensor:
            """Return the chance of a pulse in the last `window` steps, for each step that may count."""
            end = torch.arange(self._first, self.length) + 1
            return total[end] - total[(end - window).clamp_min(0)]

        seen, flipped = within(self.width) / self.bits, within(self.settle) / 2  # half of the pulses flip their bit
        others = flipped * (self.bits - 1) / self.bits
        same_bit = (within(max(self.settle, self.width)) - within(self.width)) / 2 / self.bits  # the pulse is over
        return float((1 - flipped).sum()), float((1 - seen - others - same_bit).sum())
