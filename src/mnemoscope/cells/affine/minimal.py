"""Gated cells without recurrent weights: a vector of numbers, each with its own decay."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.initial import inverse_softplus
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.surroundings import Surroundings


class _VectorCell(AffineCell):
    """Base class: each unit is a head with one key and one value, `s' = e^g s + k v`."""

    def __init__(self, input_size: int, hidden_size: int, features: int, convolved: int) -> None:
        super().__init__(input_size, hidden_size, heads=hidden_size, keys=1)
        self.convolved = convolved
        self.project = nn.Linear(input_size, features)

    def extra_repr(self) -> str:
        return f"{self.hidden_size}"


class MinGRU(_VectorCell):
    """`h' = (1 - z) h + z n` with `z = sigmoid(W_z x + b_z)` and `n = W x + b` (Feng et al. 2024, section 3.1).

    >>> cell = MinGRU(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 16, 1, 1])
    """

    surroundings = Surroundings(convolution=4)

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, 2 * hidden_size, 2 * hidden_size)

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        z, n = features.unsqueeze(-1).chunk(2, dim=-2)
        return Parts(torch.ones_like(z), torch.sigmoid(z), n, logsigmoid(-z))


class MinLSTM(_VectorCell):
    """`c' = f c + i n`, where the gates are divided by their sum (Feng et al. 2024, section 3.2).

    `f = sigmoid(W_f x + b_f)` and `i = sigmoid(W_i x + b_i)` before the division, and `n = W x + b`.

    >>> cell = MinLSTM(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 16, 1, 1])
    """

    surroundings = Surroundings(convolution=4)

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, 3 * hidden_size, 3 * hidden_size)

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        f, i, n = features.unsqueeze(-1).chunk(3, dim=-2)
        ratio = logsigmoid(f) - logsigmoid(i)  # log of f / i
        return Parts(torch.ones_like(f), torch.sigmoid(-ratio), n, logsigmoid(ratio))


class RGLRU(_VectorCell):
    """The real-gated linear recurrent unit of Griffin (De et al. 2024, Eq 1-4).

    `h' = a h + sqrt(1 - a^2) (i u)` with `a = exp(-8 softplus(L) r)`, where u is a linear map of x, and the gates r and
    i are the logistic functions of linear maps of u. At the start `exp(-8 softplus(L))` is uniform between 0.9 and
    0.999.

    >>> cell = RGLRU(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 16, 1, 1])
    """

    surroundings = Surroundings(convolution=4, gate="gelu")

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, hidden_size, hidden_size)
        self.gates = nn.Linear(hidden_size, 2 * hidden_size)
        """Projection of u to r and i."""
        slowest = torch.empty(hidden_size).uniform_(0.9, 0.999)
        self.rate_bias = nn.Parameter(inverse_softplus(-slowest.log() / _SHARPNESS))
        """L."""

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        r, i = torch.sigmoid(self.gates(features)).chunk(2, dim=-1)
        g = -_SHARPNESS * softplus(self.rate_bias) * r
        # the root has no derivative at 0, where a has rounded to 1
        written = torch.sqrt((-torch.expm1(2 * g)).clamp_min(torch.finfo(g.dtype).tiny))
        k, v, g = (x.unsqueeze(-1) for x in (written, i * features, g))
        return Parts(torch.ones_like(k), k, v, g)


_SHARPNESS = 8.0
"""The constant c of Griffin, a power of the decay."""
