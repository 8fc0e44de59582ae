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
        return map_blocks(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        blocks, size, _ = self.weight.shape
        return f"{blocks * size}, blocks={blocks}, bias={self.bias is not None}"


def map_blocks(
    x: Float[Tensor, "*batch features"],
    weight: Float[Tensor, "blocks outputs inputs"],
    bias: Float[Tensor, " features"] | None = None,
) -> Float[Tensor, "*batch features"]:
    """Return `W x + b`, where W has the blocks `weight` on its diagonal and is 0 elsewhere.

    >>> map_blocks(torch.tensor([1.0, 2.0]), torch.tensor([[[3.0]], [[4.0]]]))
    tensor([3., 8.])
    """
    by_block = x.unflatten(-1, (len(weight), -1))
    y = torch.einsum("...bi,boi->...bo", by_block, weight).flatten(-2)
    return y if bias is None else y + bias
