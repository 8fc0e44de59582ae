"""Linear attention whose memory decays."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.parts import Parts, as_complex
from mnemoscope.cells.surroundings import Surroundings


class GLA(AffineCell):
    """Gated linear attention: `S' = diag(alpha) S + k v^T`, `o = S'^T q` (Yang et al. 2024, section 4).

    `alpha = sigmoid(W_2 W_1 x + b)^(1/16)` has one number for each key, and W_1 has `rank` rows. q, k and v are linear
    maps of x, and q is divided by the square root of the number of keys. There are half as many keys as values.

    >>> cell = GLA(3, 16, heads=2)
    >>> cell(torch.zeros(5, 3), cell.initial_state(5)).S.shape
    torch.Size([5, 2, 4, 8])
    """

    surroundings = Surroundings(norm="rms", gate="silu")
    temperature = 16
    """The root of the logistic function that the decay is."""

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, key_size: int | None = None, rank: int = 16
    ) -> None:
        check_whole(1, rank=rank, heads=heads)
        super().__init__(
            input_size, hidden_size, heads, max(hidden_size // (2 * heads), 1) if key_size is None else key_size
        )
        self.project = nn.Linear(input_size, heads * (2 * self.keys + self.values) + rank, bias=False)
        """Projection to q, k, v and W_1 x."""
        self.decay = nn.Linear(rank, heads * self.keys)
        """W_2 and b."""

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        keys, values = self.heads * self.keys, self.heads * self.values
        q, k, v, low_rank = features.split([keys, keys, values, self.decay.in_features], dim=-1)
        g = logsigmoid(self.decay(low_rank)) / self.temperature
        q, k, v, g = (x.unflatten(-1, (self.heads, -1)) for x in (q, k, v, g))
        return Parts(q * self.keys**-0.5, k, v, g)


class HGRN2(AffineCell):
    """`S' = diag(f) S + (1 - f) v^T`, `o = S'^T q` (Qin et al. 2024, section 3).

    The key is what the forget gate lets go: `f = l + (1 - l) sigmoid(W_f x)`, with a `lower_bound` l. v is a linear map
    of x, and q is SiLU of another. In blocks the lower bounds are learned (`LowerBounds`).

    >>> cell = HGRN2(3, 16, heads=2)
    >>> cell(torch.zeros(5, 3), cell.initial_state(5)).S.shape
    torch.Size([5, 2, 8, 8])
    """

    surroundings = Surroundings(norm="all")

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, key_size: int | None = None, lower_bound: float = 0.0
    ) -> None:
        super().__init__(input_size, hidden_size, heads, key_size)
        if not 0 <= lower_bound < 1:
            raise ValueError(f"lower_bound must be at least 0 and below 1, but is {lower_bound}.")
        self.lower_bound = lower_bound
        self.project = nn.Linear(input_size, heads * (2 * self.keys + self.values), bias=False)
        """Projection to q, f and v."""
        self.shared_bounds: LowerBounds | None = None
        """Learned bounds, shared with the other layers, in place of `lower_bound`."""
        self.level = 0
        """Position among the layers that share the bounds."""

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        cores = super().for_blocks(width, depth, **options)
        bounds = LowerBounds(depth, cores[0].heads * cores[0].keys)
        for level, core in enumerate(cores[1:], 1):  # the bounds of the first layer are 0
            core.shared_bounds, core.level = bounds, level
        return cores

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        keys, values = self.heads * self.keys, self.heads * self.values
        q, f, v = (x.unflatten(-1, (self.heads, -1)) for x in features.split([keys, keys, values], dim=-1))
        if self.shared_bounds is None and not self.lower_bound:
            return Parts(silu(q), torch.sigmoid(-f), v, logsigmoid(f))
        shared = self.shared_bounds
        bound = self.lower_bound if shared is None else shared(self.level).view(self.heads, self.keys)
        return Parts(silu(q), (1 - bound) * torch.sigmoid(-f), v, torch.log(bound + (1 - bound) * torch.sigmoid(f)))

    def extra_repr(self) -> str:
        bound = f", lower_bound={self.lower_bound:g}" if self.shared_bounds is None else ""
        return super().extra_repr() + bound


class LowerBounds(nn.Module):
    """Lower bounds of the forget gates of `depth` layers, which grow with the layer (Qin et al. 2023).

    The softmax of learned numbers over the layers gives the growth from one layer to the next. The bounds of the first
    layer are 0.

    >>> bounds = LowerBounds(depth=4, features=2)
    >>> [bounds(level)[0].item() for level in range(4)]
    [0.0, 0.25, 0.5, 0.75]
    """

    def __init__(self, depth: int, features: int) -> None:
        super().__init__()
        self.growth = nn.Parameter(torch.zeros(depth, features))

    def forward(self, level: int) -> Float[Tensor, " features"]:
        return torch.softmax(self.growth, dim=0)[1 : level + 1].sum(0)


class RetNet(AffineCell):
    """Retention: linear attention with a constant decay and relative positions (Sun et al. 2023, section 2.1).

    `S' = gamma e^(i theta) S + conj(k) v^T` and `o = Re(S'^T q)`, where q and k are linear maps of x, two features to a
    complex number, and k is divided by the square root of the number of features. The decay of head h = 0, 1, ... is
    `1 - 2^(-5 - h)`, and `theta_j = 10000^(-2j / d)`. That is the rotation of queries and keys by their positions, as
    seen from the present. `key_size` counts real features, by default half as many as a head has values.

    >>> cell = RetNet(3, 16, heads=2)
    >>> cell(torch.zeros(5, 3), cell.initial_state(5)).S.shape
    torch.Size([5, 2, 2, 8])
    """

    surroundings = Surroundings(input_norm="layer", norm="layer", gate="silu", expand=2, feed_forward="gelu", inner=2)
    complex_state = True

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1, key_size: int | None = None) -> None:
        check_whole(1, heads=heads)
        size = 2 * max(hidden_size // (4 * heads), 1) if key_size is None else key_size
        if size % 2:
            raise ValueError(f"key_size must be even, as two features are a complex number, but is {size}.")
        super().__init__(input_size, hidden_size, heads, size // 2)
        self.project = nn.Linear(input_size, heads * (2 * size + self.values), bias=False)
        """Projection to q, k and v."""

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        keys, values = 2 * self.heads * self.keys, self.heads * self.values
        q, k, v = features.split([keys, keys, values], dim=-1)
        q, k = (as_complex(x.unflatten(-1, (self.heads, self.keys, 2))) for x in (q, k))
        head, pair = (torch.arange(n, dtype=torch.float64, device=k.device) for n in (self.heads, self.keys))
        log_gamma, theta = torch.log1p(-(2.0 ** (-5 - head))), 10_000.0 ** (-pair / self.keys)
        g = torch.complex(log_gamma.unsqueeze(-1).expand(k.shape[-2:]), theta.expand(k.shape[-2:])).to(k.dtype)
        return Parts(q, k.conj() * (2 * self.keys) ** -0.5, v.unflatten(-1, (self.heads, -1)), g.expand(k.shape))
