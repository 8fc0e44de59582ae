"""Cells whose memory is a matrix of keys and values: the mLSTM of xLSTM, and the gated delta rule."""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu, softplus

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Cell, Step


class _KeyValueCell(Cell):
    """Base class of both: `heads` memories in parallel, each with values of `hidden_size / heads` features.

    The output has `hidden_size` features; the state is larger. All gates, keys and values depend on the inputs only,
    and `prepare` computes them; the steps update the memory.
    """

    def __init__(self, input_size: int, hidden_size: int, heads: int) -> None:
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size, heads=heads)
        if hidden_size % heads:
            raise ValueError(f"hidden_size must be a multiple of heads = {heads}, but is {hidden_size}.")
        self.input_size, self.hidden_size, self.heads = input_size, hidden_size, heads
        self.size = hidden_size // heads

    def output(self, state: Any) -> Float[Tensor, "*batch features"]:
        return state.h

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


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


class MLSTM(_KeyValueCell):
    """The mLSTM of xLSTM (Beck et al. 2024, Eq 19-27): keys and values in a matrix, with an exponential input gate.

    `C' = f C + i v k^T`, `n' = f n + i k`, `h' = o * C' q / max(|n'^T q|, 1)`; `i = exp(w_i x + b_i)`, f is the
    logistic function or exp (`forget`) of `w_f x + b_f`, `k = W_k x / sqrt(d) + b_k`, q and v are affine maps of x, and
    o is the logistic function of one; no gate depends on the state. C and n are stored divided by e^m, where
    `m' = max(log f + m, log i)` (Eq 15-17), so that no gate overflows. The 1 then becomes e^-m, and the output is
    unchanged.

    The projections and convolutions around the cell in the published blocks are not part of it.

    >>> cell = MLSTM(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).C.shape
    torch.Size([4, 2, 8, 8])
    """

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, forget: str = "sigmoid", forget_bias: float = 3.0
    ) -> None:
        super().__init__(input_size, hidden_size, heads)
        if forget not in ("sigmoid", "exponential"):
            raise ValueError(f"forget must be 'sigmoid' or 'exponential', but is {forget!r}.")
        self.forget = forget
        self.project = nn.Linear(input_size, 4 * hidden_size + 2 * heads)
        """Projection to q, k, v, o and, for each head, i and f."""
        with torch.no_grad():
            self.project.bias[-2 * heads : -heads] = 0
            self.project.bias[-heads:] = forget_bias

    def initial_state(self, batch: int) -> MLSTMState:
        zeros = self.project.weight.new_zeros
        h, C = zeros(batch, self.hidden_size), zeros(batch, self.heads, self.size, self.size)
        return MLSTMState(h, C, C[..., 0, :].clone(), C[..., 0, 0].clone())

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
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


class DeltaState(NamedTuple):
    """Output h (batch, features) and memory S (batch, heads, values, keys)."""

    h: Tensor
    S: Tensor


class GatedDeltaNet(_KeyValueCell):
    """`S' = alpha S (I - beta k k^T) + beta v k^T`, `h' = S' q` (Yang et al. 2025, Eq 10).

    The whole memory decays by alpha, and the value stored under the key k is replaced by v to the fraction beta. q and
    k are SiLU of linear maps of x, scaled to length 1, and v is SiLU of another; beta is the logistic function of a
    linear map, and `alpha = exp(-a softplus(w x + b))` with a > 0, as in Mamba2 (Dao & Gu 2024), for each head. At the
    start a ~ U(1, 16), and softplus(b) is log-uniform between 0.001 and 0.1. No gate depends on the state.

    The convolutions, the norm and the output gate around the rule in the published blocks are not part of the cell.

    >>> cell = GatedDeltaNet(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])
    """

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1) -> None:
        super().__init__(input_size, hidden_size, heads)
        self.project = nn.Linear(input_size, 3 * hidden_size + 2 * heads, bias=False)
        """Projection to q, k, v and, for each head, beta and the rate of alpha."""
        rate = torch.exp(torch.empty(heads).uniform_(log(1e-3), log(1e-1)))
        self.rate_bias = nn.Parameter(rate + torch.log(-torch.expm1(-rate)))  # softplus of it is the rate
        self.log_decay = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())

    def initial_state(self, batch: int) -> DeltaState:
        zeros = self.project.weight.new_zeros
        return DeltaState(zeros(batch, self.hidden_size), zeros(batch, self.heads, self.size, self.size))

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        d = self.hidden_size
        qkv, beta, rate = self.project(xs).split([3 * d, self.heads, self.heads], dim=-1)
        q, k, v = silu(qkv).unflatten(-1, (3, self.heads, self.size)).unbind(-3)
        alpha = torch.exp(-torch.exp(self.log_decay) * softplus(rate + self.rate_bias))
        vectors = [part.flatten(-2) for part in (_normalised(q), _normalised(k), v)]
        return torch.cat([*vectors, torch.sigmoid(beta), alpha], dim=-1), self._step

    def _parts(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return q, k and v (batch, heads, size), beta and alpha (batch, heads, 1)."""
        qkv, beta, alpha = u.split([3 * self.hidden_size, self.heads, self.heads], dim=-1)
        q, k, v = qkv.unflatten(-1, (3, self.heads, self.size)).unbind(-3)
        return q, k, v, beta.unsqueeze(-1), alpha.unsqueeze(-1)

    def _step(self, u: Tensor, state: DeltaState) -> DeltaState:
        q, k, v, beta, alpha = self._parts(u)
        decayed = alpha.unsqueeze(-1) * state.S
        stored = (decayed @ k.unsqueeze(-1)).squeeze(-1)  # alpha S k: the value stored under this key
        S = decayed + (beta * (v - stored)).unsqueeze(-1) * k.unsqueeze(-2)
        return DeltaState((S @ q.unsqueeze(-1)).flatten(-3), S)

    def jacobian(self, x: Tensor, state: DeltaState) -> Float[Tensor, "batch size size"]:
        """Return the matrix of the affine step: it multiplies each row of S by `alpha (I - beta k k^T)`; h' = S' q."""
        q, k, _, beta, alpha = self._parts(self.prepare(x)[0])
        eye = torch.eye(self.size).to(k)
        M = alpha.unsqueeze(-1) * (eye - (beta * k).unsqueeze(-1) * k.unsqueeze(-2))  # (batch, heads, keys, keys)
        rows, d = self.heads * self.size, self.hidden_size
        read = (M @ q.unsqueeze(-1)).squeeze(-1)  # h' as a function of the old row, (batch, heads, keys)
        J = k.new_zeros(len(k), d + rows * self.size, d + rows * self.size)
        by_row = torch.eye(rows).to(k).view(rows, rows, 1)
        reads = read.repeat_interleave(self.size, dim=1)  # (batch, rows, keys)
        J[:, :d, d:] = (by_row * reads.unsqueeze(2)).flatten(2)
        blocks = M.repeat_interleave(self.size, dim=1)  # (batch, rows, keys, keys)
        J[:, d:, d:] = torch.einsum("ij,bikl->bikjl", by_row[..., 0], blocks).flatten(3).flatten(1, 2)
        return J

    def intermediates(self, x: Tensor, state: DeltaState) -> dict[str, Tensor]:
        names = ("q", "k", "v", "beta", "alpha")
        return dict(zip(names, self._parts(self.prepare(x)[0]), strict=True))


def _normalised(vectors: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
    """Scale vectors to length 1, or slightly less, so that a vector of zeros has a gradient."""
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + 1e-6)
