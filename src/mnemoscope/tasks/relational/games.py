"""The relational games: relations among coloured objects in a grid (Shanahan et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.tasks.relational.game_rules import CELLS, OCCURRING, RULES
from mnemoscope.tasks.relational.scene_objects import CELL, GRID, Objects, game_objects
from mnemoscope.tasks.relational.task import Problems, RelationalTask
from mnemoscope.tasks.splits import Split

TestSet = Literal["hexominoes", "stripes"]
COLOUR_RULES = ("colour/shape", "left-of")
"""Rules that need objects of one colour and of several shapes; they cannot be played with stripes."""


@dataclass(frozen=True)
class RelationalGame(RelationalTask):
    """Pictures of 36 x 36 pixels as nine objects, one per cell, by rows; empty cells are black (Kerg, 5.4.2).

    `rule` is one of "same", "between", "occurs", "xoccurs", "row matching", "colour/shape" and "left-of". The label is
    1 if the rule holds; for colour/shape it is 0 to 3: both the same, same colour, same shape, both different. Training
    uses pentominoes, and the test uses the objects of `test_set`. `failing` restricts the rows for which "occurs" (bcd,
    bbc) or "xoccurs" (abb, bcd, bbc) does not hold, where a is the object above: "abb bbc".

    >>> game = RelationalGame("left-of")
    >>> game.objects, game.choices, game.height
    (9, 2, 12)
    >>> RelationalGame("betwen")
    Traceback (most recent call last):
    ...
    ValueError: There is no rule 'betwen'. Did you mean 'between'? Known: same, between, occurs, xoccurs, \
row matching, colour/shape, left-of.
    """

    rule: str = "same"
    test_set: TestSet = "hexominoes"
    failing: str = ""

    height: ClassVar[int] = CELL
    width: ClassVar[int] = CELL

    def __post_init__(self) -> None:
        if self.rule not in tuple(RULES):
            hint = did_you_mean(str(self.rule), RULES)
            raise ValueError(f"There is no rule {self.rule!r}.{hint} Known: {', '.join(RULES)}.")
        if self.test_set not in get_args(TestSet):
            raise ValueError(f'test_set must be "hexominoes" or "stripes", but is {self.test_set!r}.')
        if self.test_set == "stripes" and self.rule in COLOUR_RULES:
            raise ValueError(
                f"Stripes have two colours and one shape, so {self.rule!r} does not apply to them. "
                "Test it with hexominoes."
            )
        if self.failing:
            if self.rule not in OCCURRING:
                raise ValueError(f"failing is for the rules {', '.join(OCCURRING)}, but the rule is {self.rule!r}.")
            OCCURRING[self.rule].only(self.failing)

    @property
    def objects(self) -> int:
        return CELLS

    @property
    def answers(self) -> tuple[str, ...]:
        if self.rule == "colour/shape":
            return ("same colour and shape", "same colour", "same shape", "neither")
        return ("does not hold", "holds")

    @property
    def rows(self) -> tuple[int, ...]:
        return (GRID,) * GRID

    def draw(self, size: int, generator: Generator, split: Split) -> Problems:
        kind = self.kind(split)
        options = {"failing": self.failing} if self.failing else {}
        cells, things, labels = RULES[self.rule](size, generator, kind, **options)
        empty = len(kind.images)
        return Problems(torch.full((size, CELLS), empty).scatter(1, cells, things), labels)

    def images(self, codes: Int[Tensor, " number"], split: Split) -> Float[Tensor, "number 3 12 12"]:
        kind = self.kind(split)
        images = torch.zeros(len(codes), self.channels, CELL, CELL)
        shown = codes < len(kind.images)
        images[shown] = kind.images[codes[shown]]
        return images

    def kind(self, split: Split) -> Objects:
        """Return the objects of a split."""
        return game_objects(self.test_set if split == "test" else "pentominoes")
