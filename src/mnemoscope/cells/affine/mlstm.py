"""The mLSTM of xLSTM."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.surroundings import Surroundings


class MLSTM(AffineCell):
    """The mLSTM of xLSTM (Beck et al. 2024, Eq 19-27): keys and values in a matrix, with an exponential input gate.

    `C' = f C + i v k^T`, `n' = f n + i k`, `h' = o * C' q / max(|n'^T q|, 1)`; `i = exp(w_i x + b_i)`, f is the
    logistic function or exp (`forget`) of `w_f x + b_f`, `k = W_k x / sqrt(d) + b_k`, q and v are affine maps of x, and
    o is the logistic function of one. The normaliser n is the last column of S, whose value is always 1, and the others
    are C^T. S is stored divided by e^m, where `m' = max(log f + m, log i)` (Eq 15-17), so that no gate overflows. The 1
    then becomes e^-m, and the output is unchanged.

    >>> cell = MLSTM(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 9])
    """

    surroundings = Surroundings(input_norm="layer", convolution=4, norm="layer", norm_bias=False, gate="silu", expand=2)
    scaled = True

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, forget: str = "sigmoid", forget_bias: float = 3.0
    ) -> None:
        super().__init__(input_size, hidden_size, heads)
        if forget not in ("sigmoid", "exponential"):
            raise ValueError(f"forget must be 'sigmoid' or 'exponential', but is {forget!r}.")
        self.forget = forget
        self.values = self.keys + 1
        self.convolved = 2 * hidden_size
        self.project = nn.Linear(input_size, 4 * hidden_size + 2 * heads)
        """Projection to q, k, v, o and, for each head, i and f."""
        with torch.no_grad():
            self.project.bias[-2 * heads : -heads] = 0
            self.project.bias[-heads:] = forget_bias

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        q, k, v, _, log_i, f = self._split(features)
        log_f = logsigmoid(f) if self.forget == "sigmoid" else f
        # (1/sqrt d) W_k x + b_k (Eq 23): the bias is not divided
        b_k = self.get_parameter("project.bias")[self.hidden_size : 2 * self.hidden_size]
        k = (k - b_k) * self.keys**-0.5 + b_k
        q, k, v = (x.unflatten(-1, (self.heads, -1)) for x in (q, k, v))
        return Parts(q, k, pad(v, (0, 1), value=1.0), log_f.unsqueeze(-1), log_writes=log_i)

    def denominators(self, reads: Tensor, scale: Tensor | None) -> Tensor:
        assert scale is not None
        # if e^-m overflows, the memory is 0 to rounding, and must not become 0 times infinity
        one = torch.exp(-scale.clamp(min=_LEAST[scale.dtype]))
        return torch.maximum(reads[..., -1].abs(), one)

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        h = self.norm(reads[..., :-1] / self.denominators(reads, scale).unsqueeze(-1)).flatten(-2)
        return torch.sigmoid(self._split(features)[3]) * h

    def _split(self, features: Tensor) -> tuple[Tensor, ...]:
        return features.split([*4 * [self.hidden_size], self.heads, self.heads], dim=-1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, forget={self.forget}"


_LEAST = {torch.float64: -700.0, torch.float32: -80.0, torch.bfloat16: -80.0, torch.float16: -10.0}
"""Smallest m for which e^-m does not overflow, by dtype."""
