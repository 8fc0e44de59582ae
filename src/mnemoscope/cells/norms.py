"""Norms of blocks that torch does not have."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, rms_norm

from mnemoscope.base.array_types import Float


class HeadNorm(nn.Module):
    """Layer norm of each head with weights for every feature, and biases if `bias`; a group norm of the heads.

    >>> HeadNorm(heads=2, size=3)(torch.ones(5, 2, 3)).shape
    torch.Size([5, 2, 3])
    """

    def __init__(self, heads: int, size: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(heads, size))
        self.bias = nn.Parameter(torch.zeros(heads, size)) if bias else None

    def forward(self, x: Float[Tensor, "*batch heads size"]) -> Float[Tensor, "*batch heads size"]:
        normed = self.weight * layer_norm(x, x.shape[-1:], eps=self.eps)
        return normed if self.bias is None else normed + self.bias


class PartialNorm(nn.Module):
    """A norm of the first `size` features; the others pass unchanged.

    >>> PartialNorm(nn.LayerNorm(2), 2)(torch.tensor([3.0, 3.0, 5.0])).tolist()
    [0.0, 0.0, 5.0]
    """

    def __init__(self, norm: nn.Module, size: int) -> None:
        super().__init__()
        self.norm, self.size = norm, size

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        return torch.cat([self.norm(x[..., : self.size]), x[..., self.size :]], dim=-1)


class GroupedRMSNorm(nn.Module):
    """RMS norm of each of `groups` groups of features, with a weight for every feature.

    >>> GroupedRMSNorm(size=6, groups=2)(torch.ones(5, 6)).shape
    torch.Size([5, 6])
    """

    def __init__(self, size: int, groups: int = 1, eps: float = 1e-5) -> None:
        super().__init__()
        self.groups, self.eps = groups, eps
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        grouped = x.unflatten(-1, (self.groups, -1))
        return self.weight * rms_norm(grouped, grouped.shape[-1:], eps=self.eps).flatten(-2)
