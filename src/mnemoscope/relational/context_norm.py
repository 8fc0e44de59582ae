"""Context normalisation: each feature is standardised over the objects of a problem."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole

EPSILON = 1e-8
"""Added to the variance."""


class ContextNorm(nn.Module):
    """`gain (s - mean) / sqrt(variance + 1e-8) + bias`, each feature over the objects of a problem (Webb et al. 2020).

    The variance is unbiased. `segments` are lengths of consecutive segments of a problem's objects that are normalised
    separately; None for one segment.

    >>> ContextNorm(1)(torch.tensor([[[1.0], [2.0], [3.0]]])).flatten().tolist()
    [-1.0, 0.0, 1.0]
    """

    def __init__(self, features: int, segments: Sequence[int] | None = None) -> None:
        super().__init__()
        check_whole(1, features=features)
        if segments is not None:
            if len(segments) == 0:
                raise ValueError("segments must hold at least one length, but is empty; give None for one segment.")
            check_whole(2, **{f"segments[{place}]": length for place, length in enumerate(segments)})
        self.segments = None if segments is None else tuple(segments)
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def extra_repr(self) -> str:
        return f"{len(self.gain)}" + ("" if self.segments is None else f", segments={self.segments}")

    def forward(
        self, s: Float[Tensor, "batch objects *more features"]
    ) -> Float[Tensor, "batch objects *more features"]:
        """Normalise over the objects.

        Further dimensions before the features, such as several relations, are normalised separately and share gain and
        bias.
        """
        objects = s.shape[1]
        if self.segments is None:
            if objects < 2:
                raise ValueError(f"A variance over objects needs at least 2 of them, but a problem has {objects}.")
            return self._normalised(s)
        if sum(self.segments) != objects:
            raise ValueError(
                f"The segments {self.segments} are of {sum(self.segments)} objects, but a problem has {objects}."
            )
        return torch.cat([self._normalised(part) for part in s.split(self.segments, dim=1)], dim=1)

    def _normalised(self, s: Tensor) -> Tensor:
        # torch.var_mean takes several times as long on a CPU. Subtracting the first object makes a feature that all
        # objects share exactly 0; rounding errors would be amplified by 1 / sqrt(1e-8).
        deviation = s - s[:, :1].detach()
        deviation = deviation - deviation.mean(1, keepdim=True)
        variance = deviation.square().sum(1, keepdim=True) / (s.shape[1] - 1)
        return deviation * torch.rsqrt(variance + EPSILON) * self.gain + self.bias
