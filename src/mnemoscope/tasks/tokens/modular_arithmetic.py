"""Modular arithmetic: the value of a random expression, without and with brackets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.tokens.formal_language import FormalLanguage

PLUS, MINUS, TIMES = range(3)
"""Operators by number."""
SIGNS = "+-*"


@dataclass(frozen=True)
class Arithmetic(FormalLanguage):
    """Base class of expressions with "=" at their end, where their value modulo `modulus` is due."""

    modulus: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(2, modulus=self.modulus)

    def distributions(self) -> Float[Tensor, "lengths values"]:
        """Return the probability of each value of an expression, for each length."""
        raise NotImplementedError

    def baseline(self) -> float:
        """Return the mean entropy of the value, given the length, which the time of "=" reveals."""
        return float(torch.special.entr(self.held_out().distributions()).sum(1).mean())

    def chance(self) -> float:
        """Return the mean probability of the most probable value, given the length."""
        return float(self.held_out().distributions().amax(1).mean())


@dataclass(frozen=True)
class ModularArithmetic(Arithmetic):
    """Random digits with +, - or * between them, then "="; there the value modulo `modulus` is due. * binds first.

    A sequence of length n, which is odd, has (n - 1) / 2 digits. The tokens 1 to 4 are + - * =, digit d is d + 5, and 0
    is padding.

    >>> print(ModularArithmetic(longest=12).example(seed=1))
    input   2 - 0 + 4 - 2 =
    target  · · · · · · · 4
    """

    @property
    def input_size(self) -> int:
        return self.modulus + 5

    @property
    def padding(self) -> int:
        return 0

    def label(self, token: int, /) -> str:
        return "_+-*="[token] if token < 5 else str(token - 5)

    def lengths(self) -> Sequence[int]:
        return range(2 * ((self.shortest + 1) // 2) - 1, 2 * ((self.longest + 1) // 2), 2)

    def draw(
        self, lengths: Int[Tensor, " batch"], generator: torch.Generator
    ) -> tuple[Int[Tensor, "time batch"], Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        batch, steps, due = len(lengths), self.lengths()[-1] - 1, lengths - 2
        digits = torch.randint(self.modulus, (steps // 2, batch), generator=generator)
        operators = torch.randint(3, (steps // 2, batch), generator=generator)
        inputs = torch.stack([5 + digits, 1 + operators], 1).flatten(0, 1)
        time = torch.arange(steps).unsqueeze(1)
        inputs = inputs.masked_fill(time > due, 0).masked_fill(time == due, 4)
        values = _values(digits, operators, self.modulus)
        return inputs, 5 + values[due // 2, torch.arange(batch)], due

    def distributions(self) -> Float[Tensor, "lengths values"]:
        """Return the distributions by the chain of (sum of the finished terms, present term)."""
        m, lengths = self.modulus, self.lengths()
        number = torch.arange(m)
        total = (number[:, None] + number) % m  # of (sum, term)
        product = (number[:, None] * number) % m  # of (term, digit)
        chances = torch.zeros(m, m, dtype=torch.float64)
        chances[0] = 1 / m
        found = {}
        for digits in range(1, (lengths[-1] - 1) // 2 + 1):
            values = torch.zeros(m, dtype=torch.float64).index_add(0, total.flatten(), chances.flatten())
            found[2 * digits + 1] = values
            multiplied = torch.zeros_like(chances)
            for digit in range(m):
                multiplied.index_add_(1, product[:, digit], chances / m)
            chances = 2 / 3 * values[:, None] / m + multiplied / 3
        return torch.stack([found[length] for length in lengths])


def _values(
    digits: Int[Tensor, "digits batch"], operators: Int[Tensor, "digits batch"], modulus: int
) -> Int[Tensor, "digits batch"]:
    """Return the value of the expression up to each digit."""
    total, term, values = torch.zeros_like(digits[0]), digits[0], []
    for place, digit in enumerate(digits):
        if place:
            operator = operators[place - 1]
            times = operator == TIMES
            total = torch.where(times, total, total + term)
            term = torch.where(times, term * digit, torch.where(operator == MINUS, -digit, digit)) % modulus
        values.append((total + term) % modulus)
    return torch.stack(values)


@dataclass(frozen=True)
class BracketArithmetic(Arithmetic):
    """A random expression in brackets, such as (2-(1-3)), then "="; there its value modulo `modulus` is due.

    An expression of at least five tokens is `(left operator right)`, and the length of its left part is uniform among
    those that leave a token for the right one. Shorter ones are d, -d, (d) and (-d). The operators are + and -, and *
    if `multiply`; the published tests have no *. A sequence of length n, at least 5, has an expression of n - 3 tokens,
    since the reference counts "=", the answer and one token of padding. Digits are the tokens 0 to modulus - 1, and
    + - * ( ) = and padding follow them.

    >>> print(BracketArithmetic(shortest=12, longest=14).example(seed=1))
    input   ( 2 - ( 1 - 3 ) ) =
    target  · · · · · · · · · 4
    """

    multiply: bool = False

    least_expression: ClassVar[int] = 2

    @property
    def input_size(self) -> int:
        return self.modulus + 7

    @property
    def padding(self) -> int:
        return self.rest

    @property
    def rest(self) -> int:
        """The padding."""
        return self.modulus + 6

    def label(self, token: int, /) -> str:
        return str(token) if token < self.modulus else f"{SIGNS}()=_"[token - self.modulus]

    def lengths(self) -> Sequence[int]:
        return [max(length, self.least_expression + 3) for length in range(self.shortest, self.longest + 1)]

    def draw(
        self, lengths: Int[Tensor, " batch"], generator: torch.Generator
    ) -> tuple[Int[Tensor, "time batch"], Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        random = Random(int(torch.randint(2**62, (), generator=generator)))
        inputs = torch.full((len(lengths), self.lengths()[-1] - 2), self.rest)
        answers = []
        for row, length in zip(inputs, lengths.tolist(), strict=True):
            tokens: list[int] = []
            answers.append(self._append(tokens, length - 3, random))
            row[: length - 2] = torch.tensor([*tokens, self.modulus + 5])
        return inputs.T.contiguous(), torch.tensor(answers), lengths - 3

    def _append(self, tokens: list[int], length: int, random: Random) -> int:
        """Append an expression of `length` tokens, and return its value."""
        m = self.modulus
        opened, closed = m + 3, m + 4
        if length < 5:
            digit, negative = random.randrange(m), length % 2 == 0
            expression = [m + MINUS, digit] if negative else [digit]
            tokens += expression if length < 3 else [opened, *expression, closed]
            return -digit % m if negative else digit
        left = random.randrange(1, length - 3)
        operator = random.randrange(3 if self.multiply else 2)
        tokens.append(opened)
        first = self._append(tokens, left, random)
        tokens.append(m + operator)
        second = self._append(tokens, length - left - 3, random)
        tokens.append(closed)
        return (first * second if operator == TIMES else first + (second if operator == PLUS else -second)) % m

    def distributions(self) -> Float[Tensor, "lengths values"]:
        """Return the distributions by the lengths of the two parts; without * they are uniform."""
        m, lengths = self.modulus, self.lengths()
        uniform = torch.full((m,), 1 / m, dtype=torch.float64)
        if not self.multiply:
            return uniform.expand(len(lengths), -1)
        number = torch.arange(m)
        tables = (number[:, None] + number, number[:, None] - number, number[:, None] * number)
        results = torch.stack([torch.nn.functional.one_hot(table % m, m) for table in tables]).double().mean(0)
        found = torch.zeros(lengths[-1] - 2, m, dtype=torch.float64)  # by the length of the expression
        found[1:5] = uniform
        for length in range(5, len(found)):
            pairs = found[1 : length - 3].T @ found[1 : length - 3].flip(0) / (length - 4)
            found[length] = torch.einsum("ij,ijk->k", pairs, results)
        return found[torch.tensor(lengths) - 3]
