"""Delta rules: a new value replaces the one that is stored under its key."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu, softplus

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.initial import inverse_softplus, log_uniform
from mnemoscope.cells.affine.parts import Parts, check_beta_max
from mnemoscope.cells.surroundings import Surroundings


class _Vectors(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor
    rest: Tensor
    """Features of the other gates."""


class _DeltaRule(AffineCell):
    """Base class: q, k, v and beta as all delta rules have them; `gates` features are left for other gates."""

    divides_queries = False
    """Whether q is divided by the square root of the number of keys, as in the released blocks."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        heads: int,
        key_size: int | None,
        beta_max: float,
        gates: int = 0,
        factors: int = 1,
    ) -> None:
        super().__init__(input_size, hidden_size, heads, key_size)
        check_whole(1, factors=factors)
        check_beta_max(beta_max)
        self.beta_max, self.factors = beta_max, factors
        self.convolved = heads * (self.keys + factors * (self.keys + self.values))
        self.project = nn.Linear(input_size, self.convolved + heads * factors + gates, bias=False)
        """Projection to q, k, v, beta of each head, and the other gates."""

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        cores = super().for_blocks(width, depth, **options)
        for core in cores:
            core.divides_queries = True
        return cores

    def vectors(self, features: Float[Tensor, "*batch features"]) -> _Vectors:
        """Return q, k, v and beta, each (*batch, heads, size), or (*batch, factors, heads, size) but for q."""
        n, (keys, values) = self.factors, (self.heads * self.keys, self.heads * self.values)
        mixed, beta, rest = features.tensor_split([self.convolved, self.convolved + n * self.heads], dim=-1)
        q, k, v = silu(mixed).split([keys, n * keys, n * values], dim=-1)
        q, heads = q.unflatten(-1, (self.heads, -1)), (self.heads, -1) if n == 1 else (n, self.heads, -1)
        k, v, beta = k.unflatten(-1, heads), v.unflatten(-1, heads), beta.unflatten(-1, heads)
        q = _unit_length(q) * (self.keys**-0.5 if self.divides_queries else 1)
        return _Vectors(q, _unit_length(k), v, self.beta_max * torch.sigmoid(beta), rest)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, beta_max={self.beta_max:g}"


class DeltaNet(_DeltaRule):
    """`S' = (I - beta k k^T) S + beta k v^T`, `o = S'^T q` (Yang et al. 2024, section 2.2).

    The value stored under the key k is replaced by v to the fraction beta. q and k are SiLU of linear maps of x, scaled
    to length 1, v is SiLU of another, and beta is `beta_max` times the logistic function of a linear map. With
    `beta_max` = 2 the step can reflect along k: it has an eigenvalue between -1 and 1 (Grazzi et al. 2025), and so can
    count modulo 2. In a block q is divided by the square root of the number of keys, as in the released code.

    >>> cell = DeltaNet(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])
    """

    surroundings = Surroundings(convolution=4, convolution_bias=False, norm="rms")

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, key_size: int | None = None, beta_max: float = 1.0
    ) -> None:
        super().__init__(input_size, hidden_size, heads, key_size, beta_max)

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        q, k, v, beta, _ = self.vectors(features)
        return Parts(q, beta * k, v, torch.zeros_like(beta), erase=(-beta * k, k))


class _WideDeltaRule(_DeltaRule):
    """Base class: in a block a head has twice as many values as keys, and all heads together 3/4 w keys."""

    surroundings = Surroundings(convolution=4, convolution_bias=False, norm="rms", gate="silu", expand=1.5)

    @classmethod
    def for_blocks(
        cls, width: int, depth: int, heads: int = 1, key_size: int | None = None, **options: Any
    ) -> list[Any]:
        check_whole(1, heads=heads)
        keys = max(round(0.75 * width / heads), 1) if key_size is None else key_size
        check_whole(1, key_size=keys)
        return super().for_blocks(width, depth, hidden_size=2 * heads * keys, heads=heads, key_size=keys, **options)


class GatedDeltaNet(_WideDeltaRule):
    """`S' = alpha (I - beta k k^T) S + beta k v^T`, `o = S'^T q` (Yang et al. 2025, Eq 10).

    A `DeltaNet` whose memory decays by `alpha = exp(-a softplus(w x + b))`, a > 0, at every step, as in Mamba-2
    (Dao & Gu 2024). At the start a ~ U(0, 16), and softplus(b) is log-uniform between 0.001 and 0.1. In a block there
    are twice as many values as keys.

    >>> cell = GatedDeltaNet(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])
    """

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, key_size: int | None = None, beta_max: float = 1.0
    ) -> None:
        super().__init__(input_size, hidden_size, heads, key_size, beta_max, gates=heads)
        self.rate_bias = nn.Parameter(inverse_softplus(log_uniform(heads)))
        self.log_decay = nn.Parameter(torch.empty(heads).uniform_(0, 16).log())

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        q, k, v, beta, rate = self.vectors(features)
        g = (-torch.exp(self.log_decay) * softplus(rate + self.rate_bias)).unsqueeze(-1)
        return Parts(q, beta * k, v, g, erase=(-beta * k, torch.exp(g) * k))


class DeltaProduct(_WideDeltaRule):
    """`S' = A_n ... A_1 S + ...`, with n = `factors` delta rules per input (Siems et al. 2025, section 3).

    Each of them has its own key, value and beta: `S <- (I - beta_j k_j k_j^T) S + beta_j k_j v_j^T`. The product of two
    reflections is a rotation, which one factor cannot make. With `gated` the memory decays before the first of them, by
    alpha of the `GatedDeltaNet`. beta is at most `beta_max`.

    >>> cell = DeltaProduct(3, 16, heads=2, factors=3)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        heads: int = 1,
        factors: int = 2,
        key_size: int | None = None,
        beta_max: float = 2.0,
        gated: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, heads, key_size, beta_max, heads if gated else 0, factors)
        self.gated = gated
        if gated:
            self.rate_bias = nn.Parameter(inverse_softplus(log_uniform(heads)))
            self.log_decay = nn.Parameter(torch.empty(heads).uniform_(0, 16).log())

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        q, k, v, beta, rate = self.vectors(features)
        g = torch.zeros_like(beta)
        if self.gated:
            first = (-torch.exp(self.log_decay) * softplus(rate + self.rate_bias)).unsqueeze(-1)
            g = first if self.factors == 1 else pad(first.unsqueeze(-3), (0, 0, 0, 0, 0, self.factors - 1))
        return Parts(q, beta * k, v, g, erase=(-beta * k, torch.exp(g) * k), micro_steps=self.factors)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, factors={self.factors}, gated={self.gated}"


class KDA(_DeltaRule):
    """Kimi Delta Attention: `S' = (I - beta k k^T) diag(alpha) S + beta k v^T`, `o = S'^T q` (Kimi Team 2025, Eq 1).

    A `GatedDeltaNet` with one decay for each key: `alpha = exp(-a softplus(W_2 W_1 x + b))`, where W_1 has `rank` rows,
    by default as many as a head has values, and a > 0 is one number for each head.

    >>> cell = KDA(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])
    """

    surroundings = Surroundings(convolution=4, convolution_bias=False, norm="rms", gate="sigmoid", low_rank_gate=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        heads: int = 1,
        key_size: int | None = None,
        beta_max: float = 1.0,
        rank: int | None = None,
    ) -> None:
        rank = max(hidden_size // max(heads, 1), 1) if rank is None else rank
        check_whole(1, rank=rank)
        super().__init__(input_size, hidden_size, heads, key_size, beta_max, gates=rank)
        self.decay = nn.Linear(rank, heads * self.keys, bias=False)
        """W_2."""
        self.rate_bias = nn.Parameter(inverse_softplus(log_uniform(heads * self.keys)))
        self.log_decay = nn.Parameter(torch.empty(heads, 1).uniform_(1, 16).log())

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        q, k, v, beta, low_rank = self.vectors(features)
        rates = softplus(self.decay(low_rank) + self.rate_bias).unflatten(-1, (self.heads, -1))
        g = -torch.exp(self.log_decay) * rates
        return Parts(q, beta * k, v, g, erase=(-beta * k, torch.exp(g) * k))


def _unit_length(vectors: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
    """Scale vectors to length 1, or slightly less, so that a vector of zeros has a gradient."""
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + 1e-6)
