"""Short causal convolutions of each feature over time, whose state is a register of the last inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float, Int, Num


class ShortConvolution(nn.Module):
    """`y_t = b + sum_j w_j x_{t - width + 1 + j}` for each channel; b is 0 without `bias`.

    The register (batch, channels, width) holds the last inputs with the present one, so that outputs are a function of
    it. Its oldest entry is not read again.

    >>> convolution = ShortConvolution(channels=5, width=4)
    >>> convolution.read(convolution.shift(torch.zeros(2, 5, 4), torch.ones(2, 5))).shape
    torch.Size([2, 5])
    """

    def __init__(self, channels: int, width: int, bias: bool = True) -> None:
        super().__init__()
        bound = width**-0.5  # as in torch.nn.Conv1d
        self.weight = nn.Parameter(torch.empty(channels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def shift(
        self, register: Float[Tensor, "batch channels width"], x: Float[Tensor, "batch channels"]
    ) -> Float[Tensor, "batch channels width"]:
        """Return the register after one more input."""
        return torch.cat([register[..., 1:], x.unsqueeze(-1)], dim=-1)

    def read(self, register: Float[Tensor, "batch channels width"]) -> Float[Tensor, "batch channels"]:
        """Return the output after the last input in the register."""
        return self._with_bias((self.weight * register).sum(-1))

    def run(
        self,
        xs: Float[Tensor, "time batch channels"],
        register: Float[Tensor, "batch channels width"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "time batch channels"], Float[Tensor, "batch channels width"]]:
        """Return the outputs of a sequence, and the register after it, or after the first `lengths` inputs."""
        width = register.shape[-1]
        extended = torch.cat([register.permute(2, 0, 1), xs])
        terms = [self.weight[:, j] * extended[j + 1 : j + 1 + len(xs)] for j in range(width)]
        outputs = self._with_bias(sum(terms[1:], terms[0]))
        if lengths is None:
            return outputs, extended[-width:].permute(1, 2, 0).contiguous()
        places = (lengths + torch.arange(width, device=xs.device).unsqueeze(1)).unsqueeze(-1)  # (width, batch, 1)
        last = extended.gather(0, places.expand(-1, -1, xs.shape[-1]))
        return outputs, last.permute(1, 2, 0).contiguous()

    def _with_bias(self, convolved: Tensor) -> Tensor:
        return convolved if self.bias is None else convolved + self.bias


class Delay(ShortConvolution):
    """`y_t = x_{t - 1}` for each channel: a token shift."""

    weight: Tensor

    def __init__(self, channels: int) -> None:
        nn.Module.__init__(self)
        self.register_buffer("weight", torch.tensor([1.0, 0.0]).repeat(channels, 1), persistent=False)
        self.bias = None


class Twice(nn.Module):
    """Repeat the first `size` features before all of them: a convolution changes the first copy only.

    >>> Twice(2)(torch.tensor([1, 2, 3]))
    tensor([1, 2, 1, 2, 3])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Num[Tensor, "*batch features"]) -> Num[Tensor, "*batch more"]:
        return torch.cat([x[..., : self.size], x], dim=-1)


def compact(
    xs: Float[Tensor, "time batch features"], mask: Bool[Tensor, "time batch"]
) -> tuple[Float[Tensor, "time batch features"], Int[Tensor, "time batch"]]:
    """Return the inputs where the mask is True, moved to the first steps, and the new step of each of them."""
    order = torch.argsort((~mask).to(torch.uint8), dim=0, stable=True)
    places = (mask.cumsum(0) - 1).clamp_min(0)
    return xs.gather(0, order.unsqueeze(-1).expand_as(xs)), places
