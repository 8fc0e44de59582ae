"""Delta rules: a new value replaces the one that is stored under its key."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.initial import inverse_softplus, log_uniform
from mnemoscope.cells.affine.parts import Parts


class DeltaNet(AffineCell):
    """`S' = (I - beta k k^T) S + beta k v^T`, `o = S'^T q` (Yang et al. 2024, section 2.2).

    The value stored under the key k is replaced by v to the fraction beta. q and k are SiLU of linear maps of x, scaled
    to length 1, v is SiLU of another, and beta is `beta_max` times the logistic function of a linear map. With
    `beta_max` = 2 the step can reflect along k: it has an eigenvalue between -1 and 1 (Grazzi et al. 2025), and so can
    count modulo 2.

    >>> cell = DeltaNet(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])
    """

    extra_gates = 0
    """Features for each head besides beta."""

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, key_size: int | None = None, beta_max: float = 1.0
    ) -> None:
        super().__init__(input_size, hidden_size, heads, key_size)
        self.beta_max = checked_beta(beta_max)
        self.convolved = heads * (2 * self.keys + self.values)
        self.project = nn.Linear(input_size, self.convolved + (1 + self.extra_gates) * heads, bias=False)
        """Projection to q, k, v and, for each head, beta and the other gates."""

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        q, k, v, beta, _ = self.vectors(features)
        return Parts(q, beta * k, v, torch.zeros_like(beta), erase=(-beta * k, k))

    def vectors(self, features: Float[Tensor, "*batch features"]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return q, k, v and beta (*batch, heads, size), and the remaining features."""
        vectors, beta, rest = features.split(
            [self.convolved, self.heads, features.shape[-1] - self.convolved - self.heads], dim=-1
        )
        sizes = [self.heads * size for size in (self.keys, self.keys, self.values)]
        q, k, v = (x.unflatten(-1, (self.heads, -1)) for x in silu(vectors).split(sizes, dim=-1))
        return to_unit_length(q), to_unit_length(k), v, self.beta_max * torch.sigmoid(beta).unsqueeze(-1), rest

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, beta_max={self.beta_max:g}"


class GatedDeltaNet(DeltaNet):
    """`S' = alpha (I - beta k k^T) S + beta k v^T`, `o = S'^T q` (Yang et al. 2025, Eq 10).

    A `DeltaNet` whose memory decays by `alpha = exp(-a softplus(w x + b))`, a > 0, at every step, as in Mamba-2
    (Dao & Gu 2024). At the start a ~ U(1, 16), and softplus(b) is log-uniform between 0.001 and 0.1.

    >>> cell = GatedDeltaNet(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 2, 8, 8])
    """

    extra_gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, key_size: int | None = None, beta_max: float = 1.0
    ) -> None:
        super().__init__(input_size, hidden_size, heads, key_size, beta_max)
        self.rate_bias = nn.Parameter(inverse_softplus(log_uniform(heads)))
        self.log_decay = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        q, k, v, beta, rate = self.vectors(features)
        g = (-torch.exp(self.log_decay) * softplus(rate + self.rate_bias)).unsqueeze(-1)
        return Parts(q, beta * k, v, g, erase=(-beta * k, torch.exp(g) * k))


def checked_beta(beta_max: float) -> float:
    """Return the largest beta; raise unless the step cannot grow."""
    if not 0 < beta_max <= 2:
        raise ValueError(f"beta_max must be above 0 and at most 2, where a step only reflects, but is {beta_max}.")
    return beta_max


def to_unit_length(vectors: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
    """Scale vectors to length 1, or slightly less, so that a vector of zeros has a gradient."""
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + 1e-6)
