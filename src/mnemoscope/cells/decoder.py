"""The readout that decodes a whole sequence from the output at its last step."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float

LONGEST_WAVE = 10_000.0
"""Ratio of the slowest to the fastest wavelength of the positions."""


class SequenceDecoder(nn.Module):
    """Decode the tokens of a sequence from the features at its last step: all that a network keeps of it.

    The output at place t is that of a network of two hidden layers, the same for all places, on the sum of the last
    features and a sinusoidal embedding of t. It is the decoder of the compression task of MAD (Poli et al. 2024; code:
    athms/mad-lab): RMS norm, linear, GELU, twice, then RMS norm and a linear map to the outputs.

    >>> outputs = SequenceDecoder(8, 5)(torch.randn(20, 3, 8))
    >>> outputs.shape
    torch.Size([20, 3, 5])
    """

    def __init__(self, features: int, output_size: int, bias: bool = True) -> None:
        super().__init__()
        hidden = [layer for _ in range(2) for layer in (nn.RMSNorm(features), nn.Linear(features, features), nn.GELU())]
        self.layers = nn.Sequential(*hidden, nn.RMSNorm(features), nn.Linear(features, output_size, bias=bias))

    def forward(self, features: Float[Tensor, "... features"]) -> Float[Tensor, "time batch output"]:
        if features.dim() != 3:
            raise ValueError(
                f"The readout of this model decodes a whole sequence (time, batch, features) from its last step, but "
                f"got features of shape {tuple(features.shape)}: lenses that read out single states do not apply."
            )
        places = positions(len(features), features.shape[2], features.device).to(features.dtype)
        return self.layers(features[-1] + places.unsqueeze(1))


def positions(number: int, features: int, device: torch.device | None = None) -> Float[Tensor, "number features"]:
    """Return the sinusoidal embeddings of the places 0, 1, ...: sines in the first half, cosines in the second.

    >>> positions(2, 4).round(decimals=3)
    tensor([[0.0000, 0.0000, 1.0000, 1.0000],
            [0.8410, 0.0000, 0.5400, 1.0000]])
    """
    half = features // 2
    rates = torch.exp(-torch.arange(half, device=device) * log(LONGEST_WAVE) / max(half - 1, 1))
    angles = torch.arange(number, device=device).unsqueeze(1) * rates
    return nn.functional.pad(torch.cat([angles.sin(), angles.cos()], 1), (0, features % 2))
