"""Linear attention whose memory decays."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.parts import Parts


class GLA(AffineCell):
    """Gated linear attention: `S' = diag(alpha) S + k v^T`, `o = S'^T q` (Yang et al. 2024, section 4).

    `alpha = sigmoid(W_2 W_1 x + b)^(1/16)` has one number for each key, and W_1 has `rank` rows. q, k and v are linear
    maps of x, and q is divided by the square root of the number of keys. There are half as many keys as values.

    >>> import torch
    >>> cell = GLA(3, 16, heads=2)
    >>> cell(torch.zeros(5, 3), cell.initial_state(5)).S.shape
    torch.Size([5, 2, 4, 8])
    """

    temperature = 16
    """The root of the logistic function that the decay is."""

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, key_size: int | None = None, rank: int = 16
    ) -> None:
        check_whole(1, rank=rank, heads=heads)
        super().__init__(
            input_size, hidden_size, heads, max(hidden_size // (2 * heads), 1) if key_size is None else key_size
        )
        self.convolved = heads * (2 * self.keys + self.values)
        self.project = nn.Linear(input_size, self.convolved + rank, bias=False)
        """Projection to q, k, v and W_1 x."""
        self.decay = nn.Linear(rank, heads * self.keys)
        """W_2 and b."""

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        keys, values = self.heads * self.keys, self.heads * self.values
        q, k, v, low_rank = features.split([keys, keys, values, features.shape[-1] - self.convolved], dim=-1)
        g = logsigmoid(self.decay(low_rank)) / self.temperature
        q, k, v, g = (x.unflatten(-1, (self.heads, -1)) for x in (q, k, v, g))
        return Parts(q * self.keys**-0.5, k, v, g)
