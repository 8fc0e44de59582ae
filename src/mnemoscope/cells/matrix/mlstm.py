"""The matrix memory of xLSTM."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell, Step
from mnemoscope.cells.matrix.heads import head_size


class MLSTMState(NamedTuple):
    """Output, memory and normaliser; the latter two are stored divided by e^m: the memory itself is `e^m C`."""

    h: Tensor
    """Output (batch, features)."""
    C: Tensor
    """Memory (batch, heads, values, keys)."""
    n: Tensor
    """Normaliser (batch, heads, keys)."""
    m: Tensor
    """Logarithm of the scale of C and n (batch, heads)."""


class MLSTM(Cell):
    """The mLSTM of xLSTM (Beck et al. 2024, Eq 19-27): keys and values in a matrix, with an exponential input gate.

    `C' = f C + i v k^T`, `n' = f n + i k`, `h' = o * C' q / max(|n'^T q|, 1)`; `i = exp(w_i x + b_i)`, f is the
    logistic function or exp of `w_f x + b_f`, `k = W_k x / sqrt(d) + b_k`, q and v are affine maps of x, and o is the
    logistic function of one; no gate depends on the state. C and n are stored divided by e^m, where
    `m' = max(log f + m, log i)` (Eq 15-17), so that no gate overflows. The 1 then becomes e^-m, and the
    output is unchanged.

    The projections and convolutions around the cell in the published blocks are not part of it.

    Args:
        input_size: number of input features.
        hidden_size: number of output features, `heads` times the size of a value. The state is larger.
        heads: number of memories in parallel.
        forget: forget gate, "sigmoid" or "exponential".
        forget_bias: initial value of b_f.

    >>> cell = MLSTM(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).C.shape
    torch.Size([4, 2, 8, 8])

    """

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, forget: str = "sigmoid", forget_bias: float = 3.0
    ) -> None:
        super().__init__()
        if forget not in ("sigmoid", "exponential"):
            raise ValueError(f"forget must be 'sigmoid' or 'exponential', but is {forget!r}.")
        self.size = head_size(input_size, hidden_size, heads)
        self.input_size, self.hidden_size, self.heads, self.forget = input_size, hidden_size, heads, forget
        self.project = nn.Linear(input_size, 4 * hidden_size + 2 * heads)
        """Projection to q, k, v, o and, for each head, i and f."""
        with torch.no_grad():
            self.project.bias[-2 * heads : -heads] = 0
            self.project.bias[-heads:] = forget_bias

    def initial_state(self, batch: int) -> MLSTMState:
        zeros = self.project.weight.new_zeros
        h, C = zeros(batch, self.hidden_size), zeros(batch, self.heads, self.size, self.size)
        return MLSTMState(h, C, C[..., 0, :].clone(), C[..., 0, 0].clone())

    def output(self, state: MLSTMState) -> Float[Tensor, "*batch features"]:
        return state.h

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        """Compute all gates, keys and values, which depend on the inputs only; the steps update the memory."""
        d = self.hidden_size
        q, k, v, o, i, f = self.project(xs).split([d, d, d, d, self.heads, self.heads], dim=-1)
        log_f = logsigmoid(f) if self.forget == "sigmoid" else f
        # (1/sqrt d) W_k x + b_k (Eq 23): the bias is not divided
        b_k = self.project.bias[d : 2 * d]
        k = (k - b_k) * self.size**-0.5 + b_k
        return torch.cat([q, k, v, torch.sigmoid(o), i, log_f], dim=-1), self._step

    def _step(self, u: Tensor, state: MLSTMState) -> MLSTMState:
        d = self.hidden_size
        *heads, o, log_i, log_f = u.split([d, d, d, d, self.heads, self.heads], dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, self.size)) for part in heads)
        kept = log_f + state.m
        m = torch.maximum(kept, log_i)  # Eq 15
        i, f = torch.exp(log_i - m).unsqueeze(-1), torch.exp(kept - m).unsqueeze(-1)  # Eq 16, 17
        n = f * state.n + i * k
        C = f.unsqueeze(-1) * state.C + (i * v).unsqueeze(-1) * k.unsqueeze(-2)
        # if e^-m overflows, the memory is 0 to rounding, and must not become 0 times infinity
        one = torch.exp(-m.clamp(min=_LEAST[m.dtype]))
        weight = torch.maximum((n * q).sum(-1).abs(), one)
        h = (C @ q.unsqueeze(-1)).squeeze(-1) / weight.unsqueeze(-1)
        return MLSTMState(o * h.flatten(-2), C, n, m)

    def intermediates(self, x: Tensor, state: MLSTMState) -> dict[str, Tensor]:
        """Return query, key and value, the output gate, and the logarithms of the input and the forget gate."""
        d = self.hidden_size
        parts = self.prepare(x)[0].split([d, d, d, d, self.heads, self.heads], dim=-1)
        return dict(zip(("q", "k", "v", "o", "log_i", "log_f"), parts, strict=True))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, forget={self.forget}"


_LEAST = {torch.float64: -700.0, torch.float32: -80.0, torch.bfloat16: -80.0, torch.float16: -10.0}
"""Smallest m for which e^-m does not overflow, by dtype."""
