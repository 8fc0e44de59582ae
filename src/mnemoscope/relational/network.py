"""Relational models: a batch of problems, encoder, context normalisation and answer, and their use as a `Model`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, TypedDict, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.model import Model
from mnemoscope.relational.context_norm import ContextNorm
from mnemoscope.relational.encoder import Encoder, SparseProjection, gather

FEATURES = 128
"""Features of an encoded object, in all models."""
Objects = Float[Tensor, "batch objects features"]
"""Features of the objects of a batch of problems."""
Relations = Float[Tensor, "batch relations objects objects"]
"""Relation matrices of a batch of problems; row i compares object i with all others."""
Logits = Float[Tensor, "batch choices"]
"""Logits of the possible answers."""


class Scenes(NamedTuple):
    """A batch of relational problems; each distinct image is stored once."""

    images: Float[Tensor, "distinct channels height width"]
    objects: Int[Tensor, "batch objects"]
    """Index of the image of each object."""
    labels: Int[Tensor, " batch"]

    def to(self, device: torch.device | str) -> Scenes:
        return Scenes(*(part.to(device) for part in self))

    def padded(self) -> Scenes:
        """Return the scenes with black images appended, up to a power of two; no object refers to them.

        Batches then have few different shapes, so that a GPU can replay what it has recorded for one of them.

        >>> scenes = Scenes(torch.ones(5, 3, 8, 8), torch.tensor([[0, 4]]), torch.tensor([1]))
        >>> scenes.padded().images.flatten(1).amax(1).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
        """
        number = len(self.images)
        more = 2 ** (number - 1).bit_length() - number
        return self._replace(images=pad(self.images, (0, 0, 0, 0, 0, 0, 0, more)))

    def part(self, which: slice) -> Scenes:
        """Return the problems `which`, with the images that occur in them."""
        shown, objects = self.objects[which].unique(return_inverse=True)
        return Scenes(self.images[shown], objects, self.labels[which])


@runtime_checkable
class ProblemLike(Protocol):
    """The sizes of a problem that a model needs, as described in `Sizes`; every relational task has them."""

    @property
    def objects(self) -> int: ...
    @property
    def choices(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def segments(self) -> tuple[int, ...] | None: ...


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem, without a task. The images of Kerg, C.1 Table 1, have 3 channels."""

    objects: int
    """Number of objects of a problem, T."""
    choices: int
    """Number of possible answers, y."""
    channels: int = 3
    height: int = 32
    """Height of an image, in pixels."""
    width: int = 32
    """Width of an image, in pixels."""
    segments: tuple[int, ...] | None = None
    """Lengths of the segments that segmented context normalisation treats separately."""


@dataclass(frozen=True)
class EncodedObjects:
    """The encoded objects of a batch."""

    features: Float[Tensor, "distinct features"]
    objects: Int[Tensor, "batch objects"]
    norm: ContextNorm

    @cached_property
    def z(self) -> Objects:
        """Normalised objects, `N(s)`."""
        return self.norm(gather(self.features, self.objects))

    def project(self, linear: nn.Linear) -> Float[Tensor, "batch objects relations features"]:
        """Return `N(W s)`, where W s holds the features of one or several relations side by side."""
        projected = gather(linear(self.features), self.objects)  # there are fewer distinct images than objects
        return self.norm(projected.unflatten(-1, (-1, self.features.shape[-1])))


class ModelOptions(TypedDict, total=False):
    """Options of every relational model, see `RelationalModel`."""

    segmented: bool
    trained_encoder: bool
    l1: float | None


class RelationalModel(nn.Module):
    """A network from images and objects to logits; a subclass defines `answer`.

    Args:
        problem: the task, or the sizes of its problems.
        segmented: normalise each segment of the task separately, instead of all objects together.
        trained_encoder: False for a random encoder that is not trained; the rest of the model is.
        l1: strength of the L1 penalty on a linear map after the encoder; None for no such map.

    """

    mechanism: ClassVar[str] = "it answers from the objects themselves"
    """How a model without relation matrices answers, for messages; models with them are `SimilarityModel`s."""

    def __init__(
        self, problem: ProblemLike, *, segmented: bool = False, trained_encoder: bool = True, l1: float | None = None
    ) -> None:
        super().__init__()
        check_whole(2, objects=problem.objects, choices=problem.choices)
        if segmented and problem.segments is None:
            raise ValueError("segmented is set, but this problem has no segments.")
        if segmented and problem.segments is not None and sum(problem.segments) != problem.objects:
            raise ValueError(f"Segments {problem.segments} must make up the {problem.objects} objects of a problem.")
        self.objects, self.choices = problem.objects, problem.choices
        self.encoder = Encoder(problem.channels, problem.height, problem.width, FEATURES, trained_encoder)
        self.features = FEATURES
        self.sparse = None if l1 is None else SparseProjection(self.features, l1)
        self.norm = ContextNorm(self.features, problem.segments if segmented else None)

    def forward(
        self, images: Float[Tensor, "distinct channels height width"], objects: Int[Tensor, "batch objects"]
    ) -> Logits:
        """Return the logits of the choices; `objects` holds the index of each object's image."""
        return self.answer(self.encode(images, objects))

    def answer(self, encoded: EncodedObjects) -> Logits:
        """Return the logits of the choices."""
        raise NotImplementedError(f"{type(self).__name__} must define answer(encoded).")

    def encode(
        self, images: Float[Tensor, "distinct channels height width"], objects: Int[Tensor, "batch objects"]
    ) -> EncodedObjects:
        """Encode each image once."""
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
        # on a GPU the comparison would wait for its result, and torch itself stops there at such a number
        if not objects.is_cuda and objects.numel() and not 0 <= int(objects.min()) <= int(objects.max()) < len(images):
            raise ValueError(
                f"Objects are numbers of images, 0 to {len(images) - 1}, but there are some from "
                f"{int(objects.min())} to {int(objects.max())}."
            )
        return self.encode_valid(images, objects)

    def encode_valid(
        self, images: Float[Tensor, "distinct channels height width"], objects: Int[Tensor, "batch objects"]
    ) -> EncodedObjects:
        """Encode each image once, without a check of the objects, which `torch.vmap` does not allow."""
        features = self.encoder(images)
        return EncodedObjects(features if self.sparse is None else self.sparse(features), objects, self.norm)


class SingleStepModel(Model):
    """Model of a single step, `network(scenes)`, without cell, readout and state.

    >>> from mnemoscope.networks.relational import relational_model
    >>> from mnemoscope.tasks.relational import RMTS
    >>> model = SingleStepModel(relational_model("corelnet", RMTS()))
    >>> logits, state = model(RMTS().batch(5, seed=0, number=0))
    >>> logits.shape, state
    (torch.Size([1, 5, 2]), ())
    """

    def __init__(self, network: RelationalModel) -> None:
        nn.Module.__init__(self)  # that of Model would build a readout
        self.network = network

    def time_first(self) -> SingleStepModel:
        """Return this model: a single step has no order of time and batch."""
        return self

    def forward(  # type: ignore # the inputs are scenes, not a tensor
        self, inputs: Scenes, state: tuple[()] | None = None
    ) -> tuple[Float[Tensor, "1 batch choices"], tuple[()]]:
        return self.network(inputs.images, inputs.objects)[None], ()

    def __getattr__(self, name: str) -> Any:
        if name in ("cell", "encode", "readout"):
            raise TypeError(
                f"This model is a relational network, a {type(self.network).__name__}: it answers a problem in one "
                f"step and has no {name}, which analyses of recurrent cells need. Use its `network`."
            )
        return super().__getattr__(name)


def with_positions(z: Objects) -> Float[Tensor, "batch objects features_and_position"]:
    """Append the position 0, 1, ... of each object as a feature (Webb et al. 2021)."""
    positions = torch.arange(z.shape[1], dtype=z.dtype, device=z.device).view(1, -1, 1)
    return torch.cat([z, positions.expand(len(z), -1, 1)], dim=2)
