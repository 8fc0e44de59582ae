"""The mLSTM of xLSTM."""

from __future__ import annotations

from math import gcd
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad, silu

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.block_diagonal import BlockDiagonal
from mnemoscope.cells.convolution import Twice
from mnemoscope.cells.surroundings import Surroundings


class MLSTM(AffineCell):
    """The mLSTM of xLSTM (Beck et al. 2024, Eq 19-27): keys and values in a matrix, with an exponential input gate.

    `C' = f C + i v k^T`, `n' = f n + i k`, `h' = o * C' q / max(|n'^T q|, 1)`; `i = exp(w_i x + b_i)`, f is the
    logistic function or exp (`forget`) of `w_f x + b_f`, `k = W_k x / sqrt(d) + b_k`, q and v are affine maps of x, and
    o is the logistic function of one. The normaliser n is the last column of S, whose value is always 1, and the others
    are C^T. S is stored divided by e^m, where `m' = max(log f + m, log i)` (Eq 15-17), so that no gate overflows. The 1
    then becomes e^-m, and the output is unchanged. At the start b_i is 0 and b_f is `forget_bias`, by default evenly
    spaced from 3 in the first head to 6 in the last.

    >>> cell = MLSTM(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 9])
    """

    surroundings = Surroundings(input_norm="layer", convolution=4, norm="layer", norm_bias=False, gate="silu", expand=2)
    scaled = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        heads: int = 1,
        forget: str = "sigmoid",
        forget_bias: float | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, heads)
        if forget not in ("sigmoid", "exponential"):
            raise ValueError(f"forget must be 'sigmoid' or 'exponential', but is {forget!r}.")
        self.forget = forget
        self.values = self.keys + 1
        self.project = nn.Linear(input_size, 4 * hidden_size + 2 * heads)
        """Projection to q, k, v, o and, for each head, i and f."""
        with torch.no_grad():
            self.project.bias[-2 * heads : -heads] = 0
            self.project.bias[-heads:] = torch.linspace(3, 6, heads) if forget_bias is None else forget_bias

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        return [BlockMLSTM(width, round(cls.surroundings.expand * width), **options) for _ in range(depth)]

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        q, k, v, log_i, f = self.vectors(features)
        log_f = logsigmoid(f) if self.forget == "sigmoid" else f
        q, k, v = (x.unflatten(-1, (self.heads, -1)) for x in (q, k, v))
        return Parts(q, k, pad(v, (0, 1), value=1.0), log_f.unsqueeze(-1), log_writes=log_i)

    def vectors(self, features: Float[Tensor, "*batch features"]) -> tuple[Tensor, ...]:
        """Return q, k, v, log i, and the number that the forget gate is a function of."""
        q, k, v, _, log_i, f = self._split(features)
        # (1/sqrt d) W_k x + b_k (Eq 23): the bias is not divided
        b_k = self.get_parameter("project.bias")[self.hidden_size : 2 * self.hidden_size]
        return q, (k - b_k) * self.keys**-0.5 + b_k, v, log_i, f

    def denominators(self, reads: Tensor, scale: Tensor | None) -> Tensor:
        assert scale is not None
        # if e^-m overflows, the memory is 0 to rounding, and must not become 0 times infinity
        one = torch.exp(-scale.clamp(min=_LEAST[scale.dtype]))
        return torch.maximum(reads[..., -1].abs(), one)

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        return torch.sigmoid(self._split(features)[3]) * self.retrieved(reads, scale)

    def retrieved(self, reads: Tensor, scale: Tensor | None) -> Float[Tensor, "*batch outputs"]:
        """Return the values read, divided by the normaliser, and normed in a block."""
        return self.norm(reads[..., :-1] / self.denominators(reads, scale).unsqueeze(-1)).flatten(-2)

    def _split(self, features: Tensor) -> tuple[Tensor, ...]:
        return features.split([*4 * [self.hidden_size], self.heads, self.heads], dim=-1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, forget={self.forget}"


class BlockMLSTM(MLSTM):
    """The mLSTM of a published block (Beck et al. 2024).

    With u = W x and c = SiLU of the convolved u, q and k are maps of c and v of u, whose matrices have blocks of 4
    features, or 2 if the number of features is no multiple of 4. i and f are linear maps of q, k and v. `skip` times c
    is added to the output, which has no gate o. At the start i and f do not depend on the input: the biases of i are
    normal with a standard deviation of 0.1, and those of f go from 3 to 6.

    >>> cell = BlockMLSTM(4, 8, heads=2)
    >>> cell(torch.zeros(5, 4), cell.initial_state(5)).S.shape
    torch.Size([5, 2, 4, 5])
    """

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1, forget: str = "sigmoid") -> None:
        super().__init__(input_size, hidden_size, heads, forget)
        self.convolved = hidden_size
        up = nn.Linear(input_size, hidden_size, bias=False)
        self.project = nn.Sequential(up, Twice(hidden_size))
        blocks = hidden_size // gcd(4, hidden_size)
        self.q, self.k, self.v = (BlockDiagonal(hidden_size, blocks, bias=False) for _ in range(3))
        self.gates = nn.Linear(3 * hidden_size, 2 * heads)
        """Map of q, k and v to i and f."""
        self.skip = nn.Parameter(torch.ones(hidden_size))
        for each in (up, self.q, self.k, self.v):
            nn.init.normal_(each.weight, std=(2 / (5 * input_size)) ** 0.5)
        nn.init.zeros_(self.gates.weight)
        with torch.no_grad():
            self.gates.bias[:heads].normal_(std=0.1)
            self.gates.bias[heads:] = torch.linspace(3, 6, heads)

    def vectors(self, features: Float[Tensor, "*batch features"]) -> tuple[Tensor, ...]:
        convolved, u = features.chunk(2, dim=-1)
        c = silu(convolved)
        q, k, v = self.q(c), self.k(c), self.v(u)
        log_i, f = self.gates(torch.cat([q, k, v], dim=-1)).chunk(2, dim=-1)
        return q, k * self.keys**-0.5, v, log_i, f

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        return self.retrieved(reads, scale) + self.skip * silu(features[..., : self.hidden_size])


_LEAST = {torch.float64: -700.0, torch.float32: -80.0, torch.bfloat16: -80.0, torch.float16: -10.0}
"""Smallest m for which e^-m does not overflow, by dtype."""
