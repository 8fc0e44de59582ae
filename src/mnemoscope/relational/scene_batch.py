"""Batches of relational problems: the input of relational models."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int


class Scenes(NamedTuple):
    """A batch of relational problems; each distinct image is stored once."""

    images: Float[Tensor, "distinct channels height width"]
    objects: Int[Tensor, "batch objects"]
    """Index of the image of each object."""
    labels: Int[Tensor, " batch"]

    def to(self, device: torch.device | str) -> Scenes:
        """Return the scenes on `device`."""
        return Scenes(*(part.to(device) for part in self))

    def part(self, which: slice) -> Scenes:
        """Return the problems `which`, with the images that occur in them."""
        shown, objects = self.objects[which].unique(return_inverse=True)
        return Scenes(self.images[shown], objects, self.labels[which])
