"""Word problems of finite groups: the product of all letters up to now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isclose
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mnemoscope.base.array_types import Float
from mnemoscope.base.groups import Group, named_group
from mnemoscope.tasks.task import Batch, GeneratedTask


@dataclass(frozen=True)
class WordProblem(GeneratedTask):
    """A start token, then random letters of a group; the target of every letter is the product of the word up to it.

    Each new letter multiplies from the left. The letters are all elements of the group, or with `letters` =
    "generators" a few that generate it, such as two transpositions of S3. They are uniform, or have the
    `probabilities` "0.7 0.3", one for each letter. Inputs are one-hot, the last of them is the start token, whose
    target is the identity and does not count. With the group Z2 the task is parity. Merrill et al. 2024, section 5;
    Siems et al. 2025.

    >>> task = WordProblem("Z6", length=5)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> print(batch.inputs.argmax(-1).flatten().tolist(), batch.targets.flatten().tolist())
    [6, 5, 5, 3, 2, 3] [0, 5, 4, 1, 3, 0]
    """

    group: Literal["Z2", "Z3", "Z6", "S3", "A4", "S4", "A5", "S5"] = "Z2"
    letters: Literal["elements", "generators"] = "elements"
    length: int = 32
    probabilities: str = ""

    span_label: ClassVar[str] = "length"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"A word needs at least one letter, but length is {self.length}.")
        self.letter_probabilities()  # raises for a wrong group, and for wrong probabilities

    def build_group(self) -> Group:
        """Return the group with its letters."""
        return named_group(self.group, self.letters)

    def letter_probabilities(self) -> tuple[float, ...]:
        """Return the probability of each letter."""
        number = len(self.build_group().letters)
        if not self.probabilities.strip():
            return (1 / number,) * number
        try:
            values = tuple(float(word) for word in self.probabilities.replace(",", " ").split())
        except ValueError:
            raise ValueError(f'Probabilities are numbers such as "0.7 0.3", but are {self.probabilities!r}.') from None
        if len(values) != number or min(values) < 0 or not isclose(sum(values), 1, rel_tol=0, abs_tol=1e-6):
            raise ValueError(
                f"The {number} letters of {self.group} need as many probabilities, at least 0, that sum to 1, but "
                f"they are {self.probabilities!r}."
            )
        return values

    @property
    def longest_span(self) -> int:
        return self.length

    def at(self, length: int, /) -> WordProblem:
        return replace(self, length=length)

    @property
    def input_size(self) -> int:
        return len(self.build_group().letters) + 1

    @property
    def output_size(self) -> int:
        return self.build_group().order

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        group = self.build_group()
        table = torch.tensor(group.table)
        chances = torch.tensor(self.letter_probabilities(), dtype=torch.float64)
        drawn = torch.rand(self.length, batch, generator=generator, dtype=torch.float64)
        words = torch.searchsorted(chances.cumsum(0)[:-1], drawn, right=True)  # letters by number
        product, products = torch.zeros(batch, dtype=torch.long), []
        for element in torch.tensor(group.letters)[words]:
            product = table[element, product]
            products.append(product)
        start = torch.full((1, batch), len(group.letters))
        inputs = one_hot(torch.cat([start, words]), self.input_size).to(torch.float32)
        mask = torch.ones(self.length + 1, batch, dtype=torch.bool)
        mask[0] = False
        return Batch(inputs, torch.cat([torch.zeros_like(start), torch.stack(products)]), mask)

    def scores(self, outputs: Float[Tensor, "time batch classes"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of right products, and `accuracy of the last product`, of whole words."""
        right = outputs.argmax(-1) == batch.targets
        accuracy = right[batch.mask].float().mean().item()
        return {"accuracy": accuracy, "accuracy of the last product": right[-1].float().mean().item()}

    def baseline(self) -> float:
        """Return the mean entropy of the product before each letter.

        A letter and the product before it are independent, so the entropy of the new product, given the letter, is that
        of the old one. It is computed from the distribution of the products of every length.
        """
        return float(torch.special.entr(self._distributions()).sum(1).mean())

    def chance(self) -> float:
        """Return the mean probability of the most probable product before each letter, which the letter then moves."""
        return float(self._distributions().amax(1).mean())

    def _distributions(self) -> Float[Tensor, "length order"]:
        """Return the distribution of the product before each letter."""
        group, chances = self.build_group(), self.letter_probabilities()
        distribution = torch.zeros(group.order, dtype=torch.float64)
        distribution[0] = 1
        moved = torch.tensor([group.table[letter] for letter in group.letters])
        rows = []
        for _ in range(self.length):
            rows.append(distribution)
            new = torch.zeros_like(distribution)
            for chance, targets in zip(chances, moved, strict=True):
                new[targets] += chance * distribution
            distribution = new
        return torch.stack(rows)
