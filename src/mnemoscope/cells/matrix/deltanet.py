"""A matrix memory with the gated delta rule."""

from __future__ import annotations

from math import log
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell, Step
from mnemoscope.cells.matrix.heads import head_size


class DeltaState(NamedTuple):
    """Output h (batch, features) and memory S (batch, heads, values, keys)."""

    h: Tensor
    S: Tensor


class GatedDeltaNet(Cell):
    """`S' = alpha S (I - beta k k^T) + beta v k^T`, `h' = S' q` (Yang et al. 2025, Eq 10).

    The whole memory decays by alpha, and the value stored under the key k is replaced by v to the fraction beta. q and
    k are SiLU of linear maps of x, scaled to length 1, and v is SiLU of another; beta is the logistic function of a
    linear map, and `alpha = exp(-a softplus(w x + b))` with a > 0, as in Mamba2 (Dao & Gu 2024), for each head. At the
    start a ~ U(1, 16), and softplus(b) is log-uniform between 0.001 and 0.1. No gate depends on the state.

    The convolutions, the norm and the output gate around the rule in the published blocks are not part of the cell.

    Args:
        input_size: number of input features.
        hidden_size: number of output features, `heads` times the size of a value. The state is larger.
        heads: number of memories in parallel.

    >>> cell = GatedDeltaNet(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])

    """

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1) -> None:
        super().__init__()
        self.size = head_size(input_size, hidden_size, heads)
        self.input_size, self.hidden_size, self.heads = input_size, hidden_size, heads
        self.project = nn.Linear(input_size, 3 * hidden_size + 2 * heads, bias=False)
        """Projection to q, k, v and, for each head, beta and the rate of alpha."""
        rate = torch.exp(torch.empty(heads).uniform_(log(1e-3), log(1e-1)))
        self.rate_bias = nn.Parameter(rate + torch.log(-torch.expm1(-rate)))  # softplus of it is the rate
        self.log_decay = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())

    def initial_state(self, batch: int) -> DeltaState:
        zeros = self.project.weight.new_zeros
        return DeltaState(zeros(batch, self.hidden_size), zeros(batch, self.heads, self.size, self.size))

    def output(self, state: DeltaState) -> Float[Tensor, "*batch features"]:
        return state.h

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        """Compute all gates, keys and values, which depend on the inputs only; the steps update the memory."""
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

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


def _normalised(vectors: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
    """Scale vectors to length 1, or slightly less, so that a vector of zeros has a gradient."""
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + 1e-6)
