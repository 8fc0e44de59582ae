"""The result of the closed-loop lens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isnan
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float, Int
from mnemoscope.lenses.bootstrap import Interval, bootstrap_interval, wilson_interval
from mnemoscope.lenses.result import Result

LISTED = 3
"""Largest number of loops that the summary describes."""
SHOWN = 60
"""Largest number of characters of a loop's text in a sentence."""


@dataclass(frozen=True, repr=False)
class Loops(Result):
    """The loops in which a network ends when it reads its own outputs, and the prompts that lead to them.

    Loops are sorted by the number of prompts that reach them. `member` is -1 for a prompt that reached none within
    `steps` tokens.
    """

    noun: ClassVar[str] = "loops of generated tokens"
    drawn_by: ClassVar[str] = "draw_loops"

    temperature: float
    """0 for greedy decoding; above, the mean input under the probabilities is fed back."""
    steps: int
    """Generated tokens after the first one of each prompt, `patience` included."""
    max_period: int
    """Longest period that was searched."""
    periods: Int[Tensor, " loops"]
    """Steps after which tokens and states of each loop repeat."""
    tokens: Int[Tensor, " total"]
    """Tokens of all loops, one loop after the other."""
    texts: tuple[str, ...]
    """The tokens of each loop in the labels of the vocabulary."""
    states: Float[Tensor, "loops size"]
    """A state of each loop, flat: that of the network and its next input, the first token of the loop."""
    member: Int[Tensor, " prompts"]
    """Loop that each prompt reaches; -1 for none."""
    entered: Int[Tensor, " prompts"]
    """Number of generated tokens before the loop; -1 for prompts without one."""
    repeating: Bool[Tensor, " prompts"]
    """Whether the tokens of a prompt repeat at the end although its state has not settled."""
    repeated: tuple[str, ...]
    """The different texts that such prompts repeat, the most frequent first."""
    repeated_counts: Int[Tensor, " texts"]
    """Number of prompts that repeat each of them."""
    multipliers: Complex[Tensor, "loops count"]
    """Leading Floquet multipliers of each loop, largest first; at temperature 0 with the tokens held. NaN where they
    are not known."""
    confirmed: Bool[Tensor, " loops"]
    """Whether Newton's method confirms the loop as a cycle of the closed system. Loops of large states, and those
    beyond the number that was asked for, are not tested."""
    leads: Float[Tensor, " loops"]
    """Least lead of the most probable token over the next, in logits, along each loop."""
    traced: Int[Tensor, " traced"]
    """Prompts whose distances are kept."""
    distances: Float[Tensor, "traced time"]
    """Distance of these prompts from their loop after each step, as a share of `extent`."""
    extent: float
    """Root mean square distance of all states from their mean, the unit of the distances."""

    def __len__(self) -> int:
        return len(self.periods)

    @property
    def prompts(self) -> int:
        """Number of prompts."""
        return len(self.member)

    @property
    def counts(self) -> Int[Tensor, " loops"]:
        """Number of prompts that reach each loop."""
        return torch.bincount(self.member[self.member >= 0], minlength=len(self))

    @property
    def shares(self) -> Float[Tensor, " loops"]:
        """Basin of each loop: the share of the prompts that reach it."""
        return self.counts.double() / self.prompts

    @property
    def interval(self) -> Interval:
        """Lower and upper edge of the 95% confidence interval of `shares`, over prompts drawn alike (Wilson 1927)."""
        return wilson_interval(self.counts, self.prompts)

    @property
    def settled(self) -> float:
        """Share of the prompts that reach a loop."""
        return float((self.member >= 0).double().mean())

    @property
    def rates(self) -> Float[Tensor, " loops"]:
        """Growth of a small perturbation per step, log |multiplier| / period; negative if the loop attracts."""
        return self.multipliers[:, 0].abs().log() / self.periods

    def tokens_of(self, loop: int) -> Int[Tensor, " period"]:
        """Return the tokens of one loop in the order of time."""
        return self.tokens.split(self.periods.tolist())[loop]

    def entry(self, loop: int) -> tuple[float, float, float]:
        """Return median, lower and upper quartile of the number of tokens before a loop, over its prompts."""
        steps = self.entered[self.member == loop].double()
        low, middle, high = torch.quantile(steps, torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)).tolist()
        return middle, low, high

    def entry_interval(self, loop: int) -> tuple[float, float]:
        """Return the 95% interval of the median number of tokens before a loop, by the bootstrap over its prompts."""
        low, high = bootstrap_interval(self.entered[self.member == loop].double(), lambda steps: steps.quantile(0.5))
        return float(low), float(high)

    def summary(self) -> str:
        """Return how many prompts end in a loop, and the loops that most of them reach."""
        return " ".join(_sentences(self))


def _sentences(loops: Loops) -> Iterator[str]:
    settled = int((loops.member >= 0).sum())
    mode = "greedy decoding" if loops.temperature == 0 else f"the mean input fed back at T = {loops.temperature:g}"
    share = _share(settled, loops.prompts)
    kinds = f"one of {len(loops)} loops" if len(loops) > 1 else "a loop"
    yield (
        f"With {mode}, {settled or 'none'} of {loops.prompts} prompts ({share}) end in {kinds} of up to "
        f"{loops.max_period} tokens within {loops.steps} tokens."
    )
    for loop in range(min(len(loops), LISTED)):
        yield _described(loops, loop)
    if len(loops) > LISTED:
        yield f"The other {int(loops.counts[LISTED:].sum())} prompts end in {len(loops) - LISTED} more."
    unconfirmed = int((~loops.confirmed).sum())
    if unconfirmed:
        yield (
            f"{unconfirmed} of {len(loops)} loops were seen in the simulation alone: Newton's method did not confirm "
            f"them as cycles, or was not asked to, or the state is too large for it."
        )
    still = int(loops.repeating.sum())
    if still:
        commonest = shortened(loops.repeated[0])
        texts = f"{len(loops.repeated)} texts, mostly {commonest}" if len(loops.repeated) > 1 else commonest
        yield (
            f"From {still} prompt{'s' * (still > 1)} ({_share(still, loops.prompts)}) the tokens repeat ({texts}) but "
            f"the state still moves, so that it is not known whether the repetition ends."
        )
    open_ended = loops.prompts - settled - still
    if open_ended:
        yield (
            f"{open_ended} prompt{'s' * (open_ended > 1)} ({_share(open_ended, loops.prompts)}) had not settled: it is "
            f"not known whether a longer loop, or one that is entered later, follows."
        )


def _share(number: int, prompts: int) -> str:
    """Return a share of the prompts with its interval."""
    low, high = (float(edge) for edge in wilson_interval(number, prompts))
    return f"{number / prompts:.0%}, 95% interval {low:.0%} to {high:.0%}"


def _described(loops: Loops, loop: int) -> str:
    low, high = (float(edge[loop]) for edge in loops.interval)
    (middle, first, last), (least, most) = loops.entry(loop), loops.entry_interval(loop)
    known = "" if isnan(least) else f"95% interval {least:.0f} to {most:.0f}, "
    period = int(loops.periods[loop])
    return (
        f"{shortened(loops.texts[loop])} ({period} token{'s' * (period > 1)}): {float(loops.shares[loop]):.0%} of the "
        f"prompts ({low:.0%} to {high:.0%}), entered after {middle:.0f} tokens ({known}quartiles {first:.0f} to "
        f"{last:.0f}); "
        f"{_pace(float(loops.rates[loop]))}."
    )


def _pace(rate: float) -> str:
    """Describe how fast a perturbation grows or decays, from its exponential rate per token."""
    if isnan(rate):
        return "its multipliers are not known"
    if rate == -inf:
        return "a perturbation of the state is forgotten within one period"
    if rate < 0:
        return f"a perturbation of the state falls to 1/e in {-1 / rate:.3g} tokens"
    return "a perturbation of the state does not decay"


def shortened(text: str, length: int = SHOWN) -> str:
    """Return a text in quotes, with its control characters visible, cut to a number of characters."""
    shown = repr(text)
    return shown if len(shown) <= length else f"{shown[: length - 4]}...{shown[-1]}"
