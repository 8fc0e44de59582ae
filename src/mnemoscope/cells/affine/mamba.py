"""Selective state-space models."""

from __future__ import annotations

from math import ceil
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.channels import ChannelModel
from mnemoscope.cells.affine.initial import inverse_softplus, log_uniform
from mnemoscope.cells.affine.parts import Parts, check_beta_max
from mnemoscope.cells.surroundings import Surroundings


class Mamba2(AffineCell):
    """`S' = exp(-a dt) S + dt B x^T`, `o = S'^T C + D x` for each head (Dao & Gu 2024, section 7).

    x, B and C are SiLU of linear maps of the input, and `dt = softplus(w u + b)` for each head. B and C have
    `state_size` numbers and are shared by the heads of a group. At the start a ~ U(1, 16), softplus(b) is log-uniform
    between 0.001 and 0.1, and D = 1.

    >>> cell = Mamba2(3, 16, heads=2, state_size=4)
    >>> cell(torch.zeros(5, 3), cell.initial_state(5)).S.shape
    torch.Size([5, 2, 4, 8])
    """

    surroundings = Surroundings(convolution=4, norm="all", gate="silu", expand=2)

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, state_size: int = 128, groups: int = 1
    ) -> None:
        check_whole(1, state_size=state_size, groups=groups)
        super().__init__(input_size, hidden_size, heads, keys=state_size)
        if heads % groups:
            raise ValueError(f"heads must be a multiple of groups = {groups}, but is {heads}.")
        self.groups = groups
        self.convolved = hidden_size + 2 * groups * state_size
        self.project = nn.Linear(input_size, self.convolved + heads, bias=False)
        """Projection to x, B, C and, for each head, dt."""
        self.rate_bias = nn.Parameter(inverse_softplus(log_uniform(heads)))
        self.log_decay = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        self.skip = nn.Parameter(torch.ones(heads, 1))
        """D."""

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        x, B, C, dt = features.split([self.hidden_size, *2 * [self.groups * self.keys], self.heads], dim=-1)
        dt = softplus(dt + self.rate_bias).unsqueeze(-1)
        v = dt * silu(x).unflatten(-1, (self.heads, -1))
        g = -torch.exp(self.log_decay).unsqueeze(-1) * dt
        return Parts(self._by_head(silu(C)), self._by_head(silu(B)), v, g)

    def _by_head(self, shared: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch heads keys"]:
        return shared.unflatten(-1, (self.groups, self.keys)).repeat_interleave(self.heads // self.groups, dim=-2)

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        x = silu(features[..., : self.hidden_size]).unflatten(-1, (self.heads, -1))
        return super().finish(reads + self.skip * x, features, scale)


class Mamba(ChannelModel):
    """`s' = exp(A dt) s + dt B x`, `y = C s' + D x` for each channel x (Gu & Dao 2024, section 3, Algorithm 2).

    x is SiLU of one of `hidden_size` linear maps of the input. B, C and, through W_1 with `rank` rows, the time step
    `dt = softplus(W_2 W_1 x + b)` of each channel are linear maps of all x. At the start `A = -1, ..., -state_size` in
    each channel, softplus(b) is log-uniform between 0.001 and 0.1, and D = 1. The rank is hidden_size / 16, rounded up,
    by default; in a block it is 1/16 of the features of the block.

    The decay `exp(A dt)` removes the part `1 - exp(A dt)` of s. With `beta_max` = 2 it removes twice as much: the decay
    is `2 exp(A dt) - 1`, between -1 and 1 (Grazzi et al. 2025), so that the cell can count modulo 2.

    >>> cell = Mamba(3, 16, state_size=4)
    >>> cell(torch.zeros(5, 3), cell.initial_state(5)).S.shape
    torch.Size([5, 16, 4, 1])
    """

    surroundings = Surroundings(convolution=4, entry="silu", gate="silu", expand=2)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        state_size: int = 16,
        rank: int | None = None,
        beta_max: float = 1.0,
    ) -> None:
        check_whole(1, state_size=state_size)
        check_beta_max(beta_max)
        super().__init__(input_size, hidden_size, keys=state_size)
        rank = ceil(hidden_size / 16) if rank is None else rank
        check_whole(1, rank=rank)
        self.beta_max = beta_max
        self.convolved = hidden_size
        self.project = nn.Linear(input_size, hidden_size, bias=False)
        self.select = nn.Linear(hidden_size, rank + 2 * state_size, bias=False)
        """Projection of x to W_1 x, B and C."""
        self.rate = nn.Linear(rank, hidden_size)
        """W_2 and b."""
        with torch.no_grad():
            self.rate.weight.uniform_(-(rank**-0.5), rank**-0.5)
            self.rate.bias.copy_(inverse_softplus(log_uniform(hidden_size)))
        self.log_decay = nn.Parameter(torch.arange(1, state_size + 1.0).log().repeat(hidden_size, 1))
        """Logarithm of -A."""
        self.skip = nn.Parameter(torch.ones(hidden_size))
        """D."""

    @classmethod
    def options_in_blocks(cls, width: int) -> dict[str, Any]:
        return {"rank": ceil(width / 16)}

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        return super().for_blocks(width, depth, **{**cls.options_in_blocks(width), **options})

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        x = self.channels(features)
        low_rank, B, C = self.select(x).split([self.rate.in_features, self.keys, self.keys], dim=-1)
        dt = softplus(self.rate(low_rank)).unsqueeze(-1)
        g = -torch.exp(self.log_decay) * dt
        B, C = (shared.unsqueeze(-2).expand(g.shape) for shared in (B, C))
        return Parts(C, B, dt * x.unsqueeze(-1), g, beta_max=self.beta_max)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, beta_max={self.beta_max:g}"
