"""The time mixing of RWKV-7."""

from __future__ import annotations

from math import exp

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.surroundings import Surroundings


class RWKV7(AffineCell):
    """`S' = (diag(w) - (a * c) c^T) S + k v^T`, `o = S'^T r + (r . (u * k)) v` (Peng et al. 2025, section 4).

    w, in (0.545, 1), and a, in (0, 1), have one number for each key: `w = exp(-e^-0.5 sigmoid(w_0 + W_2 tanh(W_1 x)))`
    and `a = sigmoid(a_0 + A_2 A_1 x)`, where W_1 and A_1 have `rank` rows. c is `key_scale * k` scaled to length 1, and
    the key that is written is `k * (1 + (a - 1) key_mix)`. r, k and v are linear maps of x. The step is not normal: it
    can lengthen a state for some steps.

    >>> cell = RWKV7(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])
    """

    surroundings = Surroundings(input_norm="layer", convolution=2, norm="layer", eps=64e-5, gate="sigmoid")

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1, rank: int = 32) -> None:
        super().__init__(input_size, hidden_size, heads)
        check_whole(1, rank=rank)
        self.convolved = 3 * hidden_size + 2 * rank
        self.project = nn.Linear(input_size, self.convolved, bias=False)
        """Projection to r, k, v, W_1 x and A_1 x."""
        self.decay, self.rate = nn.Linear(rank, hidden_size), nn.Linear(rank, hidden_size)
        """W_2 with w_0, and A_2 with a_0."""
        channels = torch.arange(hidden_size) / max(hidden_size - 1, 1)
        with torch.no_grad():
            self.decay.bias.copy_(-6.5 + 5 * channels**0.85)  # slow and fast channels, as in the released code
            self.rate.bias.zero_()
        self.key_scale = nn.Parameter(torch.full((heads, self.keys), 0.85))
        self.key_mix = nn.Parameter(torch.ones(heads, self.keys))
        self.bonus = nn.Parameter(torch.zeros(heads, self.keys))
        """u."""

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        r, k, v, w, a = self._split(features)
        g = -exp(-0.5) * torch.sigmoid(w)
        c = k * self.key_scale
        c = c * torch.rsqrt(c.square().sum(-1, keepdim=True) + 1e-6)  # a key of zeros has a gradient
        return Parts(r, self._written(k, a), v, g, erase=(-a * c, c))

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        r, k, v, _, a = self._split(features)
        direct = (r * self.bonus * self._written(k, a)).sum(-1, keepdim=True) * v
        return (self.norm(reads) + direct).flatten(-2)

    def _written(self, k: Tensor, a: Tensor) -> Tensor:
        return k * (1 + (a - 1) * self.key_mix)

    def _split(self, features: Tensor) -> tuple[Tensor, ...]:
        width, rank = self.hidden_size, self.decay.in_features
        r, k, v, w, a = features.split([width, width, width, rank, rank], dim=-1)
        w, a = self.decay(torch.tanh(w)), torch.sigmoid(self.rate(a))
        return tuple(x.unflatten(-1, (self.heads, -1)) for x in (r, k, v, w, a))
