"""The recurrences of xLSTM and RWKV-4, whose writes have exponential weights, so that their states are scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.pretrained.cores.mixer_core import MixerCore, convolved
from mnemoscope.cells.state import State


class _MLSTMCore(MixerCore):
    """Base class: the features are q, k and v of all heads, and i and f of each; the last value is the normaliser."""

    scaled = True

    def __init__(self, inputs: int, width: int, heads: int, keys: int, eps: float, cap: float | None) -> None:
        super().__init__(inputs, width, heads, keys, width // heads + 1)
        self.eps, self.cap = eps, cap

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        keys = self.heads * self.keys
        q, k, v, i, f = features.split([keys, keys, self.hidden_size, self.heads, self.heads], dim=-1)
        q, k, v = (x.unflatten(-1, (self.heads, -1)) for x in (q, k, v))
        if self.cap is not None:
            i, f = (self.cap * torch.tanh(gate / self.cap) for gate in (i, f))
        return Parts(q, k, pad(v, (0, 1), value=1.0), logsigmoid(f).unsqueeze(-1), log_writes=i)

    def denominators(self, reads: Tensor, scale: Tensor | None) -> Tensor:
        assert scale is not None
        return torch.maximum(reads[..., -1].abs(), torch.exp(-scale)) + self.eps

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        return (reads[..., :-1] / self.denominators(reads, scale).unsqueeze(-1)).flatten(-2)

    def start(self, state: Any) -> tuple[Tensor, Tensor]:
        n = state.n.view(*state.S.shape[:-1], 1)
        return torch.cat([state.S, n], dim=-1), state.m.view(state.S.shape[:2])


class LargeMLSTMCore(_MLSTMCore):
    """xLSTMLayer of transformers, and mLSTMLayer of xlstm.xlstm_large: no convolution, gates with a soft cap."""

    def __init__(self, mixer: Any) -> None:
        config, heads = mixer.config, mixer.config.num_heads
        in_transformers = hasattr(config, "hidden_size")
        inputs = config.hidden_size if in_transformers else config.embedding_dim
        eps = config.eps if in_transformers else config.mlstm_backend.eps
        super().__init__(inputs, mixer.v_dim, heads, mixer.qk_dim // heads, eps, config.gate_soft_cap)
        self.mixer = mixer
        self.fused = config.weight_mode == "fused"
        self.source = mixer.qkv_opreact if self.fused else mixer.q

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        mixer = self.mixer
        if self.fused:
            q, k, v, _ = mixer.qkv_opreact(xs).split([*2 * [mixer.qk_dim], *2 * [mixer.v_dim]], dim=-1)
            gates = mixer.ifgate_preact(xs)
        else:
            q, k, v = mixer.q(xs), mixer.k(xs), mixer.v(xs)
            gates = torch.cat([mixer.igate_preact(xs), mixer.fgate_preact(xs)], dim=-1)
        return torch.cat([q * self.keys**-0.5, k, v, gates], dim=-1)


class BlockMLSTMCore(_MLSTMCore):
    """mLSTMLayer of xlstm.blocks: q and k are maps of convolved features, and the gates are maps of q, k and v."""

    def __init__(self, mixer: Any) -> None:
        width, heads = mixer.proj_down.in_features, mixer.config.num_heads
        super().__init__(mixer.proj_up.in_features, width, heads, width // heads, eps=1e-6, cap=None)
        self.source, self.mixer, self.window = mixer.proj_up, mixer, mixer.config.conv1d_kernel_size

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        return self.source(xs).chunk(2, dim=-1)[0]

    def mixed(
        self, projected: Float[Tensor, "time batch projected"], state: Any
    ) -> Float[Tensor, "time batch features"]:
        mixer = self.mixer
        mixed = mixer.conv_act_fn(convolved(mixer.conv1d.conv, projected, state.conv.mT))
        q, k, v = mixer.q_proj(mixed), mixer.k_proj(mixed), mixer.v_proj(projected)
        gates = [gate(torch.cat([q, k, v], dim=-1)) for gate in (mixer.mlstm_cell.igate, mixer.mlstm_cell.fgate)]
        return torch.cat([q, k * self.keys**-0.5, v, *gates], dim=-1)


class RWKVCore(MixerCore):
    """RwkvSelfAttention: a numerator and a denominator for each channel, `s' = e^w s + e^k [v, 1]`.

    The output at a step is read before the decay, with another weight of the present input: it is the ratio of the two
    numbers `s + e^(u + k) [v, 1]`. These are the second row of S, which is computed anew at every step; the first row
    is s'.
    """

    scaled = True
    window = 2  # each input is mixed with the last one

    def __init__(self, mixer: Any) -> None:
        channels = mixer.attention_hidden_size
        super().__init__(mixer.key.in_features, channels, heads=channels, keys=2, values=2)
        self.source = self.mixer = mixer

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        log_k, v = features.chunk(2, dim=-1)
        g = -torch.exp(self.mixer.time_decay).unsqueeze(-1)  # (channels, 1)
        shape = (*v.shape, 2)
        none, one = torch.zeros_like(g), torch.ones_like(g)
        a, b = torch.cat([none, one], -1), torch.cat([one, -torch.exp(g)], -1)  # row 2 becomes row 1, without decay
        written = torch.cat([one, torch.exp(self.mixer.time_first).unsqueeze(-1)], -1)
        values = torch.stack([v, torch.ones_like(v)], -1)
        erase = (a.expand(shape), b.expand(shape))
        return Parts(a.expand(shape), written.expand(shape), values, g.expand(*v.shape, 1), erase, log_k)

    def denominators(self, reads: Tensor, scale: Tensor | None) -> Tensor:
        return reads[..., 1]

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        return reads[..., 0] / self.denominators(reads, scale)

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        return xs

    def mixed(
        self, projected: Float[Tensor, "time batch projected"], state: Any
    ) -> Float[Tensor, "time batch features"]:
        last = torch.cat([state.shift.unsqueeze(0).to(projected), projected[:-1]])
        mixes = (self.mixer.time_mix_key, self.mixer.time_mix_value)
        k, v = (mix * projected + (1 - mix) * last for mix in mixes)
        return torch.cat([self.mixer.key(k), self.mixer.value(v)], dim=-1)

    def start(self, state: Any) -> tuple[Tensor, Tensor]:
        kept = torch.stack([state.S, state.n], dim=-1)
        return torch.stack([kept, torch.zeros_like(kept)], dim=-2), state.m

    def layer(self, xs: Float[Tensor, "time batch inputs"], state: State) -> AffineLayer:
        return replace(super().layer(xs, state), registers=1)
