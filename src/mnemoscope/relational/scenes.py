"""What a relational task hands to a relational model."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int


class Scenes(NamedTuple):
    """A batch of relational problems over images of which each distinct one stands there once."""

    images: Float[Tensor, "distinct channels height width"]
    objects: Int[Tensor, "batch objects"]
    """Which image each object is."""
    labels: Int[Tensor, " batch"]

    def to(self, device: torch.device | str) -> Scenes:
        """The same scenes on another device."""
        return Scenes(*(part.to(device) for part in self))

    def part(self, which: slice) -> Scenes:
        """Some of the problems, with the images that occur in them."""
        shown, objects = self.objects[which].unique(return_inverse=True)
        return Scenes(self.images[shown], objects, self.labels[which])
