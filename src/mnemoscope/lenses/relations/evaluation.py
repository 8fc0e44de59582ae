"""Shared by the lenses on relational networks: evaluation without side effects, and which objects are the same."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.relational import RelationalModel, Scenes, SimilarityModel

Pairs = Bool[Tensor, "batch objects objects"]


@contextmanager
def evaluation_mode(model: RelationalModel) -> Generator[None]:
    """Switch off randomness and gradients, and restore the mode of the model afterwards."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def check_comparing(model: RelationalModel) -> SimilarityModel:
    """Return the model; raise unless it has relations."""
    if isinstance(model, SimilarityModel):
        return model
    if isinstance(model, RelationalModel):
        raise TypeError(f"A {type(model).__name__} has no matrix of how alike its objects are: {model.mechanism}.")
    raise TypeError(f"Relations are recorded from a RelationalModel, but a {type(model).__name__} was given.")


def check_kinds(kinds: Int[Tensor, " images"] | None, scenes: Scenes) -> Int[Tensor, " images"]:
    """Return the kind of object that each image shows; by default every image shows a different one."""
    if kinds is None:
        return torch.arange(len(scenes.images))
    if kinds.shape != (len(scenes.images),):
        raise ValueError(
            f"There must be one kind for each of {len(scenes.images)} images, but {len(kinds)} were given."
        )
    return kinds.cpu()


def same_and_different(kinds: Int[Tensor, " images"], objects: Int[Tensor, "batch objects"]) -> tuple[Pairs, Pairs]:
    """Return which pairs of objects in a problem are the same, and which differ; both False if either is empty."""
    kind = kinds[objects]
    present = (kind >= 0).unsqueeze(2) & (kind >= 0).unsqueeze(1)
    same = kind.unsqueeze(2) == kind.unsqueeze(1)
    return present & same, present & ~same
