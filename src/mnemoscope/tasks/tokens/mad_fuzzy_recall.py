"""Fuzzy in-context recall of MAD: keys and values of several tokens, and keys that return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.bit_task import check_range
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.mad_task import MadTask

EMPTY = -1
"""Number for no token."""
COUNTED = 2048
"""Sequences in which the answers are counted, for baseline and chance."""


@dataclass(frozen=True)
class MadFuzzyRecall(MadTask):
    """Pairs of a key of `shortest_key` to `key_tokens` tokens and a value of 1 to `value_tokens`; keys return.

    A key is a random sequence of different tokens from the first half of the vocabulary, without its last token, which
    is padding; a value is one from the second half. Sizes are uniform. A key has the same value throughout a sequence,
    whose tokens are due in order at a key that was shown before. The key of the last pair is chosen first,
    and is shown at a random earlier place; as published, it is missing in a few sequences, whose random place is near
    the end. Sequences end with that pair and have padding at the beginning.

    In tests all keys have `key_tokens` tokens. In training every next token is a target, as published; with
    `next_tokens` False only those of the tests are.

    >>> task = MadFuzzyRecall(vocabulary=9, length=20, key_tokens=2, value_tokens=2, next_tokens=False)
    >>> print(task.example(seed=5))
    input   _ _ _ _ _ 3 0 4 2 1 6 3 0 4 0 1 7 6 3 0
    target  · · · · · · · · · · · · 4 · · · · · · 4
    """

    vocabulary: int = 16
    length: int = 128
    key_tokens: int = 3
    value_tokens: int = 3
    shortest_key: int = 1
    next_tokens: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(1, value_tokens=self.value_tokens)
        check_range("number of tokens of a key", self.shortest_key, self.key_tokens)
        if self.key_tokens > self.key_count or self.value_tokens > self.value_count:
            raise ValueError(
                f"Tokens of a key differ, and so do those of a value: {self.key_tokens} and {self.value_tokens} need a "
                f"vocabulary of {2 * max(self.key_tokens, self.value_tokens) + 1} or more, but it has "
                f"{self.vocabulary}."
            )
        if self.length <= 2 * self.longest_pair:
            raise ValueError(
                f"Two pairs of up to {self.longest_pair} tokens need a length above {2 * self.longest_pair}, but it "
                f"is {self.length}."
            )

    @property
    def key_count(self) -> int:
        """Number of tokens of keys, which come first."""
        return (self.vocabulary - 1) // 2

    @property
    def value_count(self) -> int:
        """Number of tokens of values."""
        return self.vocabulary - 1 - self.key_count

    @property
    def longest_pair(self) -> int:
        """Most tokens of a pair."""
        return self.key_tokens + self.value_tokens

    @property
    def rest(self) -> int:
        """The padding."""
        return self.vocabulary - 1

    def held_out(self) -> MadFuzzyRecall:
        return replace(self, next_tokens=False, shortest_key=self.key_tokens)

    def label(self, token: int, /) -> str:
        return "_" if token == self.rest else str(token)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        last = self._draw_pair(batch, generator)
        pairs = [*self._earlier_pairs(last, generator), last._replace(due=torch.ones(batch, dtype=torch.bool))]
        tokens = torch.cat([part for pair in pairs for part in (pair.key, pair.value)])
        due = torch.cat(
            [part for pair in pairs for part in (torch.zeros_like(pair.key).bool(), pair.due.expand_as(pair.value))]
        )
        # Places without a token come first: the tokens end at the last step, after padding.
        order = (tokens != EMPTY).byte().argsort(dim=0, stable=True)[-self.length - 1 :]
        tokens = tokens.gather(0, order)
        due = due.gather(0, order) & (tokens != EMPTY)
        front = (0, 0, self.length + 1 - len(tokens), 0)
        tokens = pad(tokens.masked_fill(tokens == EMPTY, self.rest), front, value=self.rest)
        mask = pad(due, front)[1:]
        return Batch(tokens[:-1], tokens[1:].clone(), torch.ones_like(mask) if self.next_tokens else mask)

    def _earlier_pairs(self, last: Pair, generator: torch.Generator) -> list[Pair]:
        """Return the pairs before the last one, with empty ones after the end of shorter sequences."""
        batch, size = len(last.due), last.size()
        place = (torch.rand(batch, generator=generator, dtype=torch.float64) * (self.length - 2 * size)).long()
        used, pairs, known = torch.zeros(batch, dtype=torch.long), [], [last]
        shown = torch.zeros(1, batch, dtype=torch.bool)  # whether each known key was shown; the first is the last one's
        while (running := used < self.length - size - self.longest_pair).any():
            pair = self._draw_pair(batch, generator)
            pair = pair.where(~((used >= place) & ~shown[0]), last)
            same = torch.stack([(pair.key == earlier.key).all(0) for earlier in known])
            first = same.int().argmax(0)
            value = torch.stack([earlier.value for earlier in known])[first, :, torch.arange(batch)].T
            value = torch.where(same.any(0), value, pair.value)
            due = (same & shown).any(0)
            pair = Pair(pair.key.where(running, EMPTY), value.where(running, EMPTY), due)
            shown = torch.cat([shown | (same & running), (~same.any(0) & running).unsqueeze(0)])
            known.append(pair)
            pairs.append(pair)
            used = used + pair.size()
        return pairs

    def _draw_pair(self, batch: int, generator: torch.Generator) -> Pair:
        """Draw a key and a value of random sizes, without repetition of a token."""
        parts = []
        for count, least, most in (
            (self.key_count, self.shortest_key, self.key_tokens),
            (self.value_count, 1, self.value_tokens),
        ):
            tokens = torch.rand(count, batch, generator=generator).argsort(0)[:most]
            size = torch.randint(least, most + 1, (batch,), generator=generator)
            parts.append(tokens.where(torch.arange(most).unsqueeze(1) < size, EMPTY))
        key, value = parts
        value = torch.where(value == EMPTY, EMPTY, self.key_count + value)
        return Pair(key, value, torch.zeros(batch, dtype=torch.bool))

    def baseline(self) -> float:
        """Return the mean of `log(values)` at keys and `log(values - 1)` at values, with the number of value tokens.

        Without memory, the first token of a value is uniform, and every later one among those that differ from the
        token before it. How often an answer is the first one is counted in 2,048 sequences.
        """
        first = _first_answers(self.held_out())
        later = (1 - first) * log(self.value_count - 1) if first < 1 else 0.0
        return first * log(self.value_count) + later

    def chance(self) -> float:
        first = _first_answers(self.held_out())
        return first / self.value_count + ((1 - first) / (self.value_count - 1) if first < 1 else 0.0)


class Pair(NamedTuple):
    """The tokens of a key and of its value in each sequence, with `EMPTY` after shorter ones, and whether it is due."""

    key: Int[Tensor, "key_tokens batch"]
    value: Int[Tensor, "value_tokens batch"]
    due: Bool[Tensor, " batch"]

    def size(self) -> Int[Tensor, " batch"]:
        """Return the number of tokens."""
        return (self.key != EMPTY).sum(0) + (self.value != EMPTY).sum(0)

    def where(self, kept: Bool[Tensor, " batch"], other: Pair) -> Pair:
        """Return this pair in the sequences that keep it, and the other one elsewhere."""
        return Pair(*(torch.where(kept, mine, theirs) for mine, theirs in zip(self, other, strict=True)))


@lru_cache(maxsize=16)
def _first_answers(task: MadFuzzyRecall) -> float:
    """Return the share of answers that are the first token of a value: those at the last token of a key."""
    inputs, _, due = task.sample(COUNTED, torch.Generator().manual_seed(0))
    return (inputs[due] < task.key_count).double().mean().item()
