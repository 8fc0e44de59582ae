"""Gated cells without recurrent weights: a vector of numbers, each with its own decay."""

from __future__ import annotations

from math import gcd
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.initial import inverse_softplus
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.block_diagonal import BlockDiagonal
from mnemoscope.cells.surroundings import Surroundings


class _VectorCell(AffineCell):
    """Base class: each unit is a head with one key and one value, `s' = e^g s + k v`."""

    def __init__(self, input_size: int, hidden_size: int, features: int, convolved: int) -> None:
        super().__init__(input_size, hidden_size, heads=hidden_size, keys=1)
        self.convolved = convolved
        self.project = nn.Linear(input_size, features)

    def extra_repr(self) -> str:
        return f"{self.hidden_size}"


class _MinimalCell(_VectorCell):
    """Base class: linear maps of x to the gates and the values n; in a block the convolution precedes them.

    With `positive` the values are `n + 1/2` where n >= 0 and sigmoid(n) elsewhere, as in the version in log space.
    """

    surroundings = Surroundings(convolution=4, feed_forward="gelu", inner=4)

    def __init__(self, input_size: int, hidden_size: int, features: int, positive: bool) -> None:
        super().__init__(input_size, hidden_size, features, convolved=0)
        self.positive = positive
        self.maps: nn.Module = nn.Identity()
        """Linear maps after the convolution of a block."""

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        cores = super().for_blocks(width, depth, **{"positive": True, **options})
        for core in cores:
            core.maps, core.project, core.convolved = core.project, nn.Identity(), width
        return cores

    def written(self, n: Float[Tensor, " ..."]) -> Float[Tensor, " ..."]:
        """Return the values that are written."""
        return torch.where(n >= 0, n + 0.5, torch.sigmoid(n)) if self.positive else n


class MinGRU(_MinimalCell):
    """`h' = (1 - z) h + z n` with `z = sigmoid(W_z x + b_z)` and `n = W x + b` (Feng et al. 2024, section 3.1).

    With `positive`, as in blocks, n is made positive, as in the version in log space.

    >>> cell = MinGRU(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 16, 1, 1])
    """

    def __init__(self, input_size: int, hidden_size: int, positive: bool = False) -> None:
        super().__init__(input_size, hidden_size, 2 * hidden_size, positive)

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        z, n = self.maps(features).unsqueeze(-1).chunk(2, dim=-2)
        return Parts(torch.ones_like(z), torch.sigmoid(z), self.written(n), logsigmoid(-z))


class MinLSTM(_MinimalCell):
    """`c' = f c + i n`, where the gates are divided by their sum (Feng et al. 2024, section 3.2).

    `f = sigmoid(W_f x + b_f)` and `i = sigmoid(W_i x + b_i)` before the division, and `n = W x + b`. With `positive`,
    as in blocks, n is made positive, as in the version in log space.

    >>> cell = MinLSTM(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 16, 1, 1])
    """

    def __init__(self, input_size: int, hidden_size: int, positive: bool = False) -> None:
        super().__init__(input_size, hidden_size, 3 * hidden_size, positive)

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        f, i, n = self.maps(features).unsqueeze(-1).chunk(3, dim=-2)
        ratio = logsigmoid(f) - logsigmoid(i)  # log of f / i
        return Parts(torch.ones_like(f), torch.sigmoid(-ratio), self.written(n), logsigmoid(ratio))


class RGLRU(_VectorCell):
    """The real-gated linear recurrent unit of Griffin (De et al. 2024, Eq 1-4).

    `h' = a h + sqrt(1 - a^2) (i u)` with `a = exp(-8 softplus(L) r)`, where u is a linear map of x, and the gates r and
    i are the logistic functions of linear maps of u, whose matrices have `gate_blocks` blocks on the diagonal; in a
    block there are 16 of them, or fewer if w is no multiple of 16. At the start `exp(-8 softplus(L))` is uniform
    between 0.9 and 0.999.

    >>> cell = RGLRU(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 16, 1, 1])
    """

    surroundings = Surroundings(convolution=4, gate="gelu", bias=True, expand=4 / 3, feed_forward="tanh geglu", inner=3)

    def __init__(self, input_size: int, hidden_size: int, gate_blocks: int = 1) -> None:
        super().__init__(input_size, hidden_size, hidden_size, hidden_size)
        self.recurrence_gate, self.input_gate = (BlockDiagonal(hidden_size, gate_blocks) for _ in range(2))
        """Maps of u to r and i."""
        for gate in (self.recurrence_gate, self.input_gate):
            nn.init.normal_(gate.weight, std=(gate_blocks / hidden_size) ** 0.5)
        slowest = torch.empty(hidden_size).uniform_(0.9, 0.999)
        self.rate_bias = nn.Parameter(inverse_softplus(-slowest.log() / _SHARPNESS))
        """L."""

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        blocks = gcd(16, width)
        features = blocks * round(cls.surroundings.expand * width / blocks)
        return super().for_blocks(width, depth, hidden_size=features, gate_blocks=blocks, **options)

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        r, i = torch.sigmoid(self.recurrence_gate(features)), torch.sigmoid(self.input_gate(features))
        g = -_SHARPNESS * softplus(self.rate_bias) * r
        # the root has no derivative at 0, where a has rounded to 1
        written = torch.sqrt((-torch.expm1(2 * g)).clamp_min(torch.finfo(g.dtype).tiny))
        k, v, g = (x.unsqueeze(-1) for x in (written, i * features, g))
        return Parts(torch.ones_like(k), k, v, g)


_SHARPNESS = 8.0
"""The constant c of Griffin, a power of the decay."""
