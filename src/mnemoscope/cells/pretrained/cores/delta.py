"""The recurrences of Qwen3-Next, OLMo-Hybrid and Kimi-Linear."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.delta_rules import KDA, GatedDeltaNet
from mnemoscope.cells.pretrained.cores.mixer_core import MixerCore, check_activation, convolved


class _DeltaCore(MixerCore):
    """Base class: q, k and v are convolved, and several heads of values may share a query and a key."""

    divides_queries = True

    def __init__(self, mixer: Any, width: int, heads: int, keys: int) -> None:
        check_activation(mixer, mixer.activation)
        AffineCell.__init__(self, mixer.hidden_size, width, heads, keys)
        self.mixer, self.conv, self.window = mixer, mixer.conv1d, mixer.conv1d.kernel_size[0]
        self.factors, self.beta_max = 1, 2.0 if getattr(mixer, "allow_neg_eigval", False) else 1.0
        self.convolved = heads * (2 * self.keys + self.values)

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        mixer = self.mixer
        gates = (mixer.b_proj(xs), mixer.a_proj(xs))
        return torch.cat([mixer.q_proj(xs), mixer.k_proj(xs), mixer.v_proj(xs), *gates], dim=-1)

    def mixed(
        self, projected: Float[Tensor, "time batch projected"], state: Any
    ) -> Float[Tensor, "time batch features"]:
        mixed, gates = projected.tensor_split([self.conv.in_channels], dim=-1)
        mixed, values = convolved(self.conv, mixed, state.conv), self.heads * self.values
        shared = (mixed.shape[-1] - values) // 2
        q, k, v = mixed.split([shared, shared, values], dim=-1)
        copies = self.heads * self.keys // shared
        q, k = (x.unflatten(-1, (-1, self.keys)).repeat_interleave(copies, dim=-2).flatten(-2) for x in (q, k))
        return torch.cat([q, k, v, gates], dim=-1)

    def start(self, state: Any) -> tuple[Tensor]:
        return (state.S,)


class GatedDeltaNetCore(_DeltaCore, GatedDeltaNet):
    """OlmoHybridGatedDeltaNet, whose projections are separate modules."""

    def __init__(self, mixer: Any) -> None:
        super().__init__(mixer, mixer.value_dim, mixer.num_v_heads, mixer.head_k_dim)
        self.source = mixer.q_proj
        self.rate_bias, self.log_decay = mixer.dt_bias, mixer.A_log


class Qwen3NextCore(_DeltaCore, GatedDeltaNet):
    """Qwen3NextGatedDeltaNet, whose projections to q, k, v and the output gate are one module."""

    def __init__(self, mixer: Any) -> None:
        super().__init__(mixer, mixer.value_dim, mixer.num_v_heads, mixer.head_k_dim)
        self.source = mixer.in_proj_qkvz
        self.rate_bias, self.log_decay = mixer.dt_bias, mixer.A_log

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        both = self.mixer.in_proj_qkvz(xs), self.mixer.in_proj_ba(xs)
        q, k, v, _, beta, rate = self.mixer.fix_query_key_value_ordering(*both)
        return torch.cat([q.flatten(2), k.flatten(2), v.flatten(2), beta, rate], dim=-1)


class KimiCore(_DeltaCore, KDA):
    """KimiLinearDeltaAttention."""

    def __init__(self, mixer: Any) -> None:
        super().__init__(mixer, mixer.qkv_dim, mixer.num_heads, mixer.head_dim)
        gate = mixer.forget_gate
        self.source, self.low_rank, self.decay = mixer.q_proj, gate.f_a_proj, gate.f_b_proj
        self.rate_bias, self.log_decay = gate.dt_bias, gate.A_log.view(-1, 1)

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        mixer = self.mixer
        gates = (mixer.b_proj(xs), self.low_rank(xs))
        return torch.cat([mixer.q_proj(xs), mixer.k_proj(xs), mixer.v_proj(xs), *gates], dim=-1)
