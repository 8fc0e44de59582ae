"""Encoder from images to feature vectors. Each distinct image of a batch is encoded once."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.relational.layers import layer

HALVINGS = 3
"""Number of convolutions of stride 2, each of which halves an image, rounding down."""


class Encoder(nn.Module):
    """Convolutional encoder of Webb et al. (2021; Kerg, C.1 Table 1).

    Three convolutions of 4 x 4 with stride 2 and 32 channels are followed by two linear maps, all with ReLU. Images of
    32 x 32 pixels become 512, then 256, then 128 features; the 12 x 12 pixels of a cell of the relational games become
    32, 256 and 128. Unless `trained`, the encoder keeps its random weights.

    >>> encoder = Encoder(channels=3, height=32, width=32)
    >>> sum(weight.numel() for weight in encoder.parameters())
    198624
    >>> encoder(torch.zeros(5, 3, 32, 32)).shape
    torch.Size([5, 128])
    """

    def __init__(self, channels: int, height: int, width: int, features: int = 128, trained: bool = True) -> None:
        super().__init__()
        check_whole(1, channels=channels, height=height, width=width, features=features)
        if min(height, width) < 2**HALVINGS:
            raise ValueError(
                f"The encoder halves an image {HALVINGS} times and needs at least {2**HALVINGS} x {2**HALVINGS} "
                f"pixels, but images are {height} x {width}; enlarge them."
            )
        self.shape = (channels, height, width)
        self.features = features
        filters, hidden = 32, 256
        parts: list[nn.Module] = []
        for before in (channels, *[filters] * (HALVINGS - 1)):
            parts += [_convolution(before, filters), nn.ReLU()]
        flat = filters * (height >> HALVINGS) * (width >> HALVINGS)
        self.convolutions = nn.Sequential(*parts, nn.Flatten())
        self.dense = nn.Sequential(layer(flat, hidden, "relu"), nn.ReLU(), layer(hidden, features, "relu"), nn.ReLU())
        self.requires_grad_(trained)

    def forward(self, images: Float[Tensor, "distinct channels height width"]) -> Float[Tensor, "distinct features"]:
        if tuple(images.shape[1:]) != self.shape:
            raise ValueError(
                f"This encoder takes images of (channels, height, width) = {self.shape}, but these are "
                f"{tuple(images.shape[1:])}."
            )
        return self.dense(self.convolutions(images))


class SparseProjection(nn.Module):
    """Linear map after the encoder with the L1 penalty `strength * sum |w|`, which drops features that do not help.

    See Kerg, section 5.6 Fig 6 and C.5: strength 1, and 5 for RMTS. The map has no bias because context normalisation
    subtracts the mean.
    """

    def __init__(self, features: int, strength: float) -> None:
        super().__init__()
        if not 0 < strength < inf:
            raise ValueError(f"The strength of an L1 penalty must be above 0 and finite, but is {strength}.")
        self.linear = nn.Linear(features, features, bias=False)
        self.strength = strength

    def forward(self, s: Float[Tensor, "distinct features"]) -> Float[Tensor, "distinct features"]:
        return self.linear(s)

    def penalty(self) -> Float[Tensor, ""]:
        return self.strength * self.linear.weight.abs().sum()


def gather(
    features: Float[Tensor, "distinct features"], objects: Int[Tensor, "batch objects"]
) -> Float[Tensor, "batch objects features"]:
    """Return the features of each object.

    >>> gather(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[2, 2], [0, 1]])).squeeze(2)
    tensor([[3., 3.],
            [1., 2.]])
    """
    return embedding(objects, features)  # its backward pass is faster than that of indexing


def _convolution(before: int, after: int) -> nn.Conv2d:
    convolution = nn.Conv2d(before, after, kernel_size=4, stride=2, padding=1)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
    nn.init.zeros_(torch.as_tensor(convolution.bias))
    return convolution
