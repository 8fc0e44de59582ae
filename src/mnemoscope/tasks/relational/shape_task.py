"""Tasks on a hundred shapes, m of which are held out of training."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.relational.shape_images import SHAPES, SIDE, shapes
from mnemoscope.tasks.relational.task import Problems, RelationalTask, sample_distinct
from mnemoscope.tasks.splits import Split

COLOURS = 100
"""Number of colours of the paper."""
Spurious = Literal["nothing", "colour", "mirror", "separated"]


class LetterPatterns(NamedTuple):
    """Problems as patterns of letters, which stand for shapes, and their labels."""

    letters: Int[Tensor, "batch objects"]
    labels: Int[Tensor, " batch"]


@dataclass(frozen=True)
class HeldOutShapes(RelationalTask):
    """A task on shapes, `m` of which are held out: training uses the others, and the test uses the held-out ones.

    With m = 0, training and test use all shapes (Kerg, C.8). Another `shape_seed` holds out other shapes.
    """

    m: int = 95
    shape_seed: int = 0

    height: ClassVar[int] = SIDE
    width: ClassVar[int] = SIDE
    also_held_out: ClassVar[tuple[str, ...]] = ()
    """Kinds of things other than shapes that the test shows and training does not."""

    def __post_init__(self) -> None:
        check_whole(0, m=self.m, shape_seed=self.shape_seed)
        to_train, to_test, kind = self.needed("train"), self.needed("test"), type(self).__name__
        if (largest := max(to_train, to_test)) > SHAPES:
            raise ValueError(f"A problem of {kind} has up to {largest} different shapes; there are {SHAPES}.")
        most = SHAPES - to_train
        some = f"{to_test} to {most}" if most > to_test else f"{most}"
        possible = f"Hold out {some}, or none" if most >= to_test else "No shape can be held out: m = 0"
        if self.m > most:
            raise ValueError(
                f"A problem of {kind} has up to {to_train} different shapes, but m = {self.m} leaves "
                f"{max(SHAPES - self.m, 0)} of {SHAPES} to train with. {possible}."
            )
        if 0 < self.m < to_test:
            raise ValueError(
                f"A test problem of {kind} has up to {to_test} different shapes, but only m = {self.m} are held out. "
                f"{possible} (then all are used to train and to test)."
            )

    @property
    def held_out(self) -> tuple[str, ...]:
        return (*(["shapes"] if self.m else []), *self.also_held_out)

    @abstractmethod
    def needed(self, split: Split) -> int:
        """Return the largest number of different shapes of a problem."""

    def pool(self, split: Split) -> Int[Tensor, " shapes"]:
        """Return the shapes of a split: the held-out ones for the test split, otherwise the others."""
        order = torch.from_numpy(np.random.RandomState(self.shape_seed).permutation(SHAPES))
        trained, held_out = order[self.m :], order[: self.m]
        return held_out if split == "test" and self.m else trained

    def draw_shapes(self, size: int, number: int, generator: Generator, split: Split) -> Int[Tensor, "size number"]:
        """Return `number` different shapes of the split in each row."""
        pool = self.pool(split)
        return pool[sample_distinct(size, number, len(pool), generator)]


@dataclass(frozen=True)
class ShapeTask(HeldOutShapes):
    """A task whose problems are patterns of letters; each letter becomes a different shape (Kerg, 5.4.1 and 5.4.3).

    `spurious` adds a feature that is independent of the answer, drawn for each object: "colour", one of 100 colours of
    the paper (Kerg, 5.4.3 and C.5); "separated", the colours are separate images, each after its shape, which doubles
    the number of objects (C.6); "mirror", half of the objects are mirrored, which is not in the thesis.
    """

    spurious: Spurious = "nothing"

    def __post_init__(self) -> None:
        if self.spurious not in get_args(Spurious):
            known = ", ".join(map(repr, get_args(Spurious)))
            raise ValueError(f"spurious must be one of {known}, but is {self.spurious!r}.")
        super().__post_init__()

    @abstractmethod
    def problems(self, size: int, generator: Generator, split: Split) -> LetterPatterns:
        """Return patterns whose letters are 0 to `needed(split)` - 1, with balanced labels."""

    @property
    @abstractmethod
    def parts(self) -> tuple[int, ...]:
        """Number of shapes in each group, such as a row or a pair."""

    @property
    def images_each(self) -> int:
        """Number of images that show one shape and its colour."""
        return 2 if self.spurious == "separated" else 1

    @property
    def objects(self) -> int:
        return sum(self.parts) * self.images_each

    @property
    def segments(self) -> tuple[int, ...] | None:
        if len(self.parts) == 1:
            return None
        return tuple(self.images_each * part for part in self.parts)

    def kinds(self, images: Float[Tensor, "images 3 height width"]) -> Int[Tensor, " images"]:
        """Return the shape of each image, regardless of its colour and reflection."""
        if self.spurious not in ("colour", "mirror"):
            return super().kinds(images)
        grey = (images.amax(1) / images.amax((1, 2, 3)).view(-1, 1, 1)).flatten(1)
        known = [shapes(), shapes().flip(-1)] if self.spurious == "mirror" else [shapes()]
        distances = torch.stack([torch.cdist(grey, templates.flatten(1).to(grey)) for templates in known])
        return distances.amin(0).argmin(1)

    def draw(self, size: int, generator: Generator, split: Split) -> Problems:
        pattern, labels = self.problems(size, generator, split)
        chosen = self.draw_shapes(size, self.needed(split), generator, split).gather(1, pattern)
        if self.spurious == "nothing":
            return Problems(chosen, labels)
        if self.spurious == "mirror":
            mirrored = torch.randint(2, chosen.shape, generator=generator)
            return Problems(2 * chosen + (mirrored & ~_symmetric()[chosen]), labels)
        colour = torch.randint(COLOURS, chosen.shape, generator=generator)
        if self.spurious == "colour":
            return Problems(COLOURS * chosen + colour, labels)
        return Problems(torch.stack([chosen, SHAPES + colour], 2).flatten(1), labels)  # shape, colour, shape, ...

    def images(self, codes: Int[Tensor, " number"], split: Split) -> Float[Tensor, "number 3 32 32"]:
        if self.spurious == "nothing":
            return _in_colour(shapes()[codes])
        if self.spurious == "mirror":
            plain = shapes()[codes // 2]
            return _in_colour(torch.where((codes % 2 == 1)[:, None, None], plain.flip(-1), plain))
        if self.spurious == "colour":
            return _in_colour(shapes()[codes // COLOURS]) * colours()[codes % COLOURS, :, None, None]
        images = colours()[codes.sub(SHAPES).clamp(min=0), :, None, None].repeat(1, 1, SIDE, SIDE)
        shaped = codes < SHAPES
        images[shaped] = _in_colour(shapes()[codes[shaped]])
        return images


@cache
def _symmetric() -> Bool[Tensor, "100"]:
    """Return which shapes equal their mirror images."""
    return (shapes() == shapes().flip(-1)).flatten(1).all(1)


@cache
def colours() -> Float[Tensor, "100 3"]:
    """Return a hundred fixed random colours, red, green and blue from 0 to 1, for training and test."""
    return torch.from_numpy(np.random.RandomState(0).uniform(size=(COLOURS, 3))).to(torch.float32)


def _in_colour(images: Float[Tensor, "number 32 32"]) -> Float[Tensor, "number 3 32 32"]:
    return images[:, None].repeat(1, 3, 1, 1)
