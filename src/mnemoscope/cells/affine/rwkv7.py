"""The time mixing of RWKV-7."""

from __future__ import annotations

from math import exp
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.convolution import Twice
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

    surroundings = Surroundings(
        embedding_norm=True,
        input_norm="layer",
        shift=True,
        norm="layer",
        eps=64e-5,
        gate="inner",
        low_rank_gate=True,
        feed_forward="channel mixing",
    )

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1, rank: int = 32) -> None:
        super().__init__(input_size, hidden_size, heads)
        check_whole(1, rank=rank)
        self.project = nn.Linear(input_size, 3 * hidden_size + 2 * rank, bias=False)
        """Projection to r, k, v, W_1 x and A_1 x."""
        self.decay, self.rate = nn.Linear(rank, hidden_size), nn.Linear(rank, hidden_size)
        """W_2 with w_0, and A_2 with a_0."""
        with torch.no_grad():
            self.decay.bias.copy_(_decay_biases(hidden_size, height=0))
            self.rate.bias.zero_()
        self.key_scale = nn.Parameter(torch.full((heads, self.keys), 0.85))
        self.key_mix = nn.Parameter(torch.ones(heads, self.keys))
        self.bonus = nn.Parameter(torch.zeros(heads, self.keys))
        """u."""

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        return [BlockRWKV7(width, level, depth, **options) for level in range(depth)]

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

    def _sizes(self) -> list[int]:
        """Return the numbers of features of r, k, v, W_1 x and A_1 x."""
        return [*3 * [self.hidden_size], *2 * [self.decay.in_features]]

    def _projected(self, features: Tensor) -> tuple[Tensor, ...]:
        """Return r, k, v, W_1 x and A_1 x."""
        return features.split(self._sizes(), dim=-1)

    def _split(self, features: Tensor) -> tuple[Tensor, ...]:
        r, k, v, w, a = self._projected(features)
        w, a = self.decay(torch.tanh(w)), torch.sigmoid(self.rate(a))
        return tuple(x.unflatten(-1, (self.heads, -1)) for x in (r, k, v, w, a))


class BlockRWKV7(RWKV7):
    """The time mixing of RWKV-7 in block `level` of `depth` (Peng et al. 2025).

    r, k, v, the low-rank maps and the gate each take their own mixture of the present and the last input, `x + mix *
    (x_last - x)`. The output is multiplied by the gate `G_2 sigmoid(G_1 x)`. Above the first block the values are mixed
    with those of the first block, which every block hands to the next: `v + sigmoid(v_0 + V_2 V_1 x) (v_first - v)`.
    The ranks and the initial values are those of the code that was released with the paper.

    >>> cell = BlockRWKV7(16, level=1, depth=3, heads=2)
    >>> cell(torch.zeros(4, 32), cell.initial_state(4)).S.shape  # inputs and values of the first block
    torch.Size([4, 2, 8, 8])
    """

    def __init__(self, width: int, level: int, depth: int, heads: int = 1) -> None:
        super().__init__(width, width, heads, _rank(1.8 * width**0.5))
        self.received, self.passed = width if level else 0, width if level < depth - 1 else 0
        self.input_size = width + self.received
        self.maps = self.project
        """Projections to r, k, v, W_1 x and A_1 x."""
        self.project, self.convolved = Twice(width), width
        height, remaining = level / max(depth - 1, 1), 1 - level / depth
        place = torch.arange(width) / width
        powers = torch.tensor([0.2, 0.9, 0.4, 0.9, 0.9, 0.2]).unsqueeze(1)
        shifts = torch.tensor([0, 0.4, 0.6, 0, 0, 0]).unsqueeze(1)
        self.mix = nn.Parameter(1 - place ** (powers * remaining) - shifts * height)
        """Weights of the last input for r, k, v, w, a and the gate, (6, width)."""
        self.gate = _low_rank(width, _rank(0.6 * width**0.8), nn.Sigmoid())
        """G_1, the logistic function, and G_2."""
        self.residual = _low_rank(width, _rank(1.3 * width**0.5), bias=True) if level else None
        """V_1, and V_2 with v_0."""
        with torch.no_grad():
            r, k, v, *low_rank = self.maps.get_parameter("weight").split(self._sizes())
            for each, bound in ((r, 0.5), (k, 0.05), (v, 0.5)):
                each.uniform_(-bound * width**-0.5, bound * width**-0.5)
            for each in low_rank:
                each.zero_()
            self.decay.bias.copy_(_decay_biases(width, height))
        _make_orthogonal(self.decay)
        _make_orthogonal(self.rate)

    def _projected(self, features: Tensor) -> tuple[Tensor, ...]:
        inputs, rows = self._mixed(features)[..., :5, :], self.maps.get_parameter("weight").split(self._sizes())
        r, k, v, w, a = (linear(x, row) for x, row in zip(inputs.unbind(-2), rows, strict=True))
        if self.residual is not None:
            first = features[..., 2 * self.hidden_size :]
            v = v + torch.sigmoid(self.residual(inputs[..., 2, :])) * (first - v)
        return r, k, v, w, a

    def _mixed(self, features: Tensor) -> Float[Tensor, "*batch 6 width"]:
        last, x = (each.unsqueeze(-2) for each in features[..., : 2 * self.hidden_size].chunk(2, dim=-1))
        return x + self.mix * (last - x)

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        return super().finish(reads, features, scale) * self.gate(self._mixed(features)[..., 5, :])

    def message(self, features: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch passed"]:
        """Return the values of the first block."""
        if self.received:
            return features[..., 2 * self.hidden_size :]
        rows = self.maps.get_parameter("weight").split(self._sizes())
        return linear(self._mixed(features)[..., 2, :], rows[2])


def _low_rank(width: int, rank: int, *between: nn.Module, bias: bool = False) -> nn.Sequential:
    """Return two linear maps with modules between them; the first is 0 at the start, and the bias 1."""
    first, second = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=bias)
    nn.init.zeros_(first.weight)
    _make_orthogonal(second)
    if bias:
        nn.init.ones_(second.bias)
    return nn.Sequential(first, *between, second)


def _make_orthogonal(second: nn.Linear) -> None:
    """Set the second factor of a map of low rank: orthogonal, times 0.1."""
    nn.init.orthogonal_(second.weight, gain=0.1 * max(second.in_features / second.out_features, 1) ** 0.5)


def _rank(size: float) -> int:
    """Return the multiple of 32 next to a number, at least 32."""
    return max(32, 32 * round(size / 32))


def _decay_biases(size: int, height: float) -> Float[Tensor, " size"]:
    """Return w_0 at the start: slow and fast channels, more slow ones the higher a layer is, from 0 to 1."""
    return -6.5 + 5 * torch.linspace(0, 1, size) ** (0.85 + height**0.5)
