"""The recurrences of Mamba, FalconMamba and mambapy, and of Mamba-2, Bamba and Zamba2."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.channels import ChannelModel
from mnemoscope.cells.affine.mamba import Mamba, Mamba2
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.pretrained.cores.mixer_core import MixerCore, check_activation, convolved
from mnemoscope.cells.pretrained.pure_step import PureStep


class MambaCore(MixerCore, Mamba):
    """MambaMixer and FalconMambaMixer of transformers, and MambaBlock of mambapy."""

    def __init__(self, mixer: Any) -> None:
        check_activation(mixer, getattr(mixer, "activation", "silu"))
        channels, keys = mixer.A_log.shape
        ChannelModel.__init__(self, mixer.in_proj.in_features, channels, keys)
        self.beta_max = 1.0
        self.source, self.conv, self.window = mixer.in_proj, mixer.conv1d, mixer.conv1d.kernel_size[0]
        self.rate, self.log_decay, self.skip = mixer.dt_proj, mixer.A_log, mixer.D
        letters = ("dt", "B", "C") if hasattr(mixer, "B_layernorm") else ("dt", "b", "c")
        norms = [getattr(mixer, f"{letter}_layernorm", None) for letter in letters]
        self.select = _Normalised(mixer.x_proj, norms, [self.rate.in_features, keys, keys])

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        return self.source(xs).chunk(2, dim=-1)[0]

    def mixed(
        self, projected: Float[Tensor, "time batch projected"], state: Any
    ) -> Float[Tensor, "time batch features"]:
        return convolved(self.conv, projected, state.conv)

    def start(self, state: Any) -> tuple[Tensor]:
        return (state.S.unsqueeze(-1),)


class Mamba2Core(MixerCore, Mamba2):
    """The mixers of Mamba-2, Bamba and Zamba2."""

    def __init__(self, mixer: Any) -> None:
        check_activation(mixer, mixer.activation)
        width, heads, keys = mixer.intermediate_size, mixer.num_heads, mixer.ssm_state_size
        AffineCell.__init__(self, mixer.in_proj.in_features, width, heads, keys)
        self.groups, self.limit = mixer.n_groups, tuple(mixer.time_step_limit)
        self.convolved = mixer.conv_dim
        self.source, self.conv, self.window = mixer.in_proj, mixer.conv1d, mixer.conv1d.kernel_size[0]
        self.rate_bias, self.log_decay, self.skip = mixer.dt_bias, mixer.A_log, mixer.D.unsqueeze(-1)

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        with PureStep(double=False, time_steps=self.limit):  # limits softplus
            return super().parts(features)

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        return self.source(xs)[..., self.hidden_size :]

    def mixed(
        self, projected: Float[Tensor, "time batch projected"], state: Any
    ) -> Float[Tensor, "time batch features"]:
        mixed, rates = projected.split([self.convolved, self.heads], dim=-1)
        return torch.cat([convolved(self.conv, mixed, state.conv), rates], dim=-1)

    def start(self, state: Any) -> tuple[Tensor]:
        return (state.S.mT,)


class _Normalised(nn.Module):
    """A linear map whose outputs are split; each part is scaled to a mean square of 1 if it has a norm."""

    def __init__(self, linear: nn.Module, norms: list[nn.Module | None], sizes: list[int]) -> None:
        super().__init__()
        self.linear, self.sizes = linear, sizes
        self.norms = nn.ModuleList(nn.Identity() if norm is None else _RMS(norm) for norm in norms)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.linear(x).split(self.sizes, dim=-1)
        return torch.cat([norm(part) for norm, part in zip(self.norms, parts, strict=True)], dim=-1)


class _RMS(nn.Module):
    """An RMS norm in the precision of its input; that of FalconMamba computes in float32 and ignores its weight."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.eps = norm.eps
        self.weight = norm.weight if isinstance(getattr(norm, "weight", None), nn.Parameter) else None

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)
