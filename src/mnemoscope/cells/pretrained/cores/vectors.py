"""The recurrences of RecurrentGemma, minGRU and minLSTM: each unit is a number with its own decay."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.minimal import RGLRU, MinGRU, MinLSTM
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.block_diagonal import map_blocks
from mnemoscope.cells.pretrained.cores.mixer_core import MixerCore, convolved


class GriffinCore(MixerCore, RGLRU):
    """RecurrentGemmaRecurrentBlock.

    Its first input is written with the weight 1 in place of `sqrt(1 - a^2)`, and erases the state, which is 0 then. The
    last feature is 1 for this input and 0 for all others.
    """

    def __init__(self, mixer: Any) -> None:
        AffineCell.__init__(self, mixer.hidden_size, mixer.lru_width, heads=mixer.lru_width, keys=1)
        self.source, self.conv, self.window = mixer.linear_x, mixer.conv_1d, mixer.conv1d_width
        unit = mixer.rg_lru
        self.recurrence_gate = _Gate(unit.recurrent_gate_weight, unit.recurrent_gate_bias)
        self.input_gate = _Gate(unit.input_gate_weight, unit.input_gate_bias)
        self.rate_bias = unit.recurrent_param

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        parts, first = super().parts(features[..., :-1]), features[..., -1:].unsqueeze(-1)
        return parts._replace(keys=torch.where(first > 0, 1, parts.keys))

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        return self.source(xs)

    def mixed(
        self, projected: Float[Tensor, "time batch projected"], state: Any
    ) -> Float[Tensor, "time batch features"]:
        mixed = convolved(self.conv, projected, state.conv)
        first = torch.zeros_like(mixed[..., :1])
        first[0] = (state.started <= 0.5).to(mixed)
        return torch.cat([mixed, first], dim=-1)

    def start(self, state: Any) -> tuple[Tensor]:
        return (torch.where(state.started > 0.5, state.h, 0)[..., None, None],)


class MinGRUCore(MixerCore, MinGRU):
    """minGRU of minGRU-pytorch, whose values are positive."""

    def __init__(self, mixer: Any) -> None:
        _build(self, mixer.to_hidden_and_gate, mixer.to_hidden_and_gate.out_features // 2)

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        n, z = self.source(xs).chunk(2, dim=-1)
        return torch.cat([z, n], dim=-1)

    def start(self, state: Any) -> tuple[Tensor]:
        return (state.h[..., None, None],)


class MinLSTMCore(MixerCore, MinLSTM):
    """minLSTM of minGRU-pytorch, whose values are positive."""

    def __init__(self, mixer: Any) -> None:
        _build(self, mixer.to_hidden_and_f_i_gate, mixer.to_hidden_and_f_i_gate.out_features // 3)

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        n, f, i = self.source(xs).chunk(3, dim=-1)
        return torch.cat([f, i, n], dim=-1)

    def start(self, state: Any) -> tuple[Tensor]:
        return (state.h[..., None, None],)


def _build(core: Any, projection: Any, units: int) -> None:
    AffineCell.__init__(core, projection.in_features, units, heads=units, keys=1)
    core.source, core.maps, core.positive = projection, nn.Identity(), True


class _Gate(nn.Module):
    """A map to a gate of RG-LRU, in which the units of a block see each other only; its weights are the mixer's."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias  # (blocks, inputs, outputs), (blocks, outputs)

    def forward(self, u: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch units"]:
        return map_blocks(u, self.weight.mT, self.bias.flatten())
