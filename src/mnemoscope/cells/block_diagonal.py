"""Linear maps with block-diagonal matrices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float


class BlockDiagonal(nn.Module):
    """`y = W x + b`, where W has `blocks` square blocks on its diagonal and is 0 elsewhere.

    >>> BlockDiagonal(6, blocks=2)(torch.zeros(5, 6)).shape
    torch.Size([5, 6])
    """

    def __init__(self, features: int, blocks: int, bias: bool = True) -> None:
        super().__init__()
        if features % blocks:
            raise ValueError(f"The number of features must be a multiple of {blocks} blocks, but is {features}.")
        size = features // blocks
        self.weight = nn.Parameter(torch.empty(blocks, size, size).uniform_(-(size**-0.5), size**-0.5))
        """The blocks, (blocks, outputs, inputs)."""
        self.bias = nn.Parameter(torch.zeros(features)) if bias else None

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        by_block = x.unflatten(-1, (len(self.weight), -1))
        y = torch.einsum("...bi,boi->...bo", by_block, self.weight).flatten(-2)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        blocks, size, _ = self.weight.shape
        return f"{blocks * size}, blocks={blocks}, bias={self.bias is not None}"
