"""What all relational models have in common: an encoder, context normalisation, and an answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypedDict, runtime_checkable

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.relational.context_norm import ContextNorm
from mnemoscope.relational.encoder import Encoder, Sparse, gather

FEATURES = 128
"""Of an encoded object, for all models."""


@runtime_checkable
class Sized(Protocol):
    """As much of a task as a model must know; every relational task has it."""

    @property
    def objects(self) -> int:
        """Of a problem: T."""
        ...

    @property
    def choices(self) -> int:
        """Answers: y."""
        ...

    @property
    def channels(self) -> int:
        """Of an image."""
        ...

    @property
    def height(self) -> int:
        """Of an image, in pixels."""
        ...

    @property
    def width(self) -> int:
        """Of an image, in pixels."""
        ...

    @property
    def segments(self) -> tuple[int, ...] | None:
        """Lengths of the parts of a problem that segmented context normalisation treats apart."""
        ...


@dataclass(frozen=True)
class Sizes:
    """Of a problem, without the task. The images of Kerg, C.1 Table 1, have 3 channels."""

    objects: int
    choices: int
    channels: int = 3
    height: int = 32
    width: int = 32
    segments: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Seen:
    """The objects of a batch, encoded."""

    encoded: Float[Tensor, "distinct features"]
    objects: Int[Tensor, "batch objects"]
    norm: ContextNorm

    @cached_property
    def z(self) -> Float[Tensor, "batch objects features"]:
        """The normalised objects, `N(s)`."""
        return self.norm(gather(self.encoded, self.objects))

    def mapped(self, before: nn.Linear) -> Float[Tensor, "batch objects relations features"]:
        """`N(W s)`, where W s are as many features as those of one or several relations side by side."""
        together = gather(before(self.encoded), self.objects)  # of distinct images, as they are fewer than objects
        return self.norm(together.unflatten(-1, (-1, self.encoded.shape[-1])))


class Options(TypedDict, total=False):
    """What every relational model may be told beside its own: see `RelationalModel`."""

    segmented: bool
    trained_encoder: bool
    l1: float | None


class RelationalModel(nn.Module):
    """From images and objects to logits; a model has `answer`.

    Args:
        problem: the task, or its sizes.
        segmented: normalise the task's segments apart, not all objects together.
        trained_encoder: False for a random encoder that stays as it was drawn; all else learns.
        l1: strength of the L1 penalty on a linear map behind the encoder; None for no such map.

    """

    instead: ClassVar[str] = "it answers from the objects themselves"
    """What a model does that has no relations to look at, in words; one that has is a `Comparing`."""

    def __init__(
        self, problem: Sized, *, segmented: bool = False, trained_encoder: bool = True, l1: float | None = None
    ) -> None:
        super().__init__()
        check_whole(2, objects=problem.objects, choices=problem.choices)
        if segmented and problem.segments is None:
            raise ValueError("Segmented normalisation is asked for, but this problem has no segments.")
        if segmented and problem.segments is not None and sum(problem.segments) != problem.objects:
            raise ValueError(f"Segments {problem.segments} must make up the {problem.objects} objects of a problem.")
        self.objects, self.choices = problem.objects, problem.choices
        self.encoder = Encoder(problem.channels, problem.height, problem.width, FEATURES, trained_encoder)
        self.features = FEATURES
        self.sparse = None if l1 is None else Sparse(self.features, l1)
        self.norm = ContextNorm(self.features, problem.segments if segmented else None)

    def forward(
        self, images: Float[Tensor, "distinct channels height width"], objects: Int[Tensor, "batch objects"]
    ) -> Float[Tensor, "batch choices"]:
        """Logits of the choices. `images` are encoded once each; `objects` says which of them each object is."""
        return self.answer(self.see(images, objects))

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        """Logits of the choices."""
        raise NotImplementedError(f"{type(self).__name__} must define answer(seen).")

    def see(
        self, images: Float[Tensor, "distinct channels height width"], objects: Int[Tensor, "batch objects"]
    ) -> Seen:
        """The encoded objects."""
        if objects.dim() != 2 or objects.shape[1] != self.objects:
            raise ValueError(
                f"This model is for problems of {self.objects} objects, but objects has shape {tuple(objects.shape)}; "
                f"expected (batch, {self.objects})."
            )
        if objects.dtype not in (torch.int64, torch.int32) or not images.is_floating_point():
            raise ValueError(
                "Images are floats and objects whole numbers (torch.int64 or int32), but they are of "
                f"{images.dtype} and {objects.dtype}."
            )
        if objects.numel() and not 0 <= int(objects.min()) <= int(objects.max()) < len(images):
            raise ValueError(
                f"Objects are numbers of images, 0 to {len(images) - 1}, but there are some from "
                f"{int(objects.min())} to {int(objects.max())}."
            )
        encoded = self.encoder(images)
        return Seen(encoded if self.sparse is None else self.sparse(encoded), objects, self.norm)


def with_places(z: Float[Tensor, "batch objects features"]) -> Float[Tensor, "batch objects features_and_place"]:
    """The number of an object, 0, 1, ..., as one more feature of it (Webb et al. 2021)."""
    places = torch.arange(z.shape[1], dtype=z.dtype, device=z.device).view(1, -1, 1)
    return torch.cat([z, places.expand(len(z), -1, 1)], dim=2)
