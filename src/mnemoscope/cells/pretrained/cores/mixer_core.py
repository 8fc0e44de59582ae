"""The base class of recurrences that share the weights of a mixer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.cells.state import State


class MixerCore(AffineCell):
    """The recurrence of a mixer as an affine cell.

    A subclass also inherits from the cell that has the same equations, whose `parts` read the weights of the mixer, and
    defines `features` and `start`. `finish` returns what the mixer passes to its norm, gate and output projection. The
    weights are shared with the mixer, so that gradients reach them.
    """

    source: nn.Module
    """The first submodule that the mixer applies to its inputs; its inputs are recorded."""

    def features(self, xs: Float[Tensor, "time batch inputs"], state: Any) -> Float[Tensor, "time batch features"]:
        """Return what `parts` takes, from the inputs of the mixer and its state before the first of them."""
        raise NotImplementedError(f"{type(self).__name__} must define features(xs, state).")

    def start(self, state: Any) -> tuple[Tensor, ...]:
        """Return the memory in a state of the mixer as S (batch, heads, keys, values), and m if S is scaled."""
        raise NotImplementedError(f"{type(self).__name__} must define start(state).")

    def stored(self, S: Inexact[Tensor, "*batch keys values"]) -> Inexact[Tensor, "*batch stored values"]:
        """Return the rows of S that the mixer stores in its state: all, unless S contains more than the mixer keeps."""
        return S

    def layer(self, xs: Float[Tensor, "time batch inputs"], state: State) -> AffineLayer:
        """Return the layer on these inputs of the mixer, from a state of the mixer."""
        inputs = LayerInputs(xs, lambda xs: xs, lambda xs: self.features(xs, state), self.window)
        return AffineLayer.of(self, self.features(xs, state), self.start(state), inputs)

    @property
    def window(self) -> int:
        """Number of inputs on which the features of a step depend: the width of the convolution, if there is one."""
        return max((part.kernel_size[0] for part in self.modules() if isinstance(part, nn.Conv1d)), default=1)


def convolved(
    conv: nn.Conv1d, xs: Float[Tensor, "time batch channels"], register: Float[Tensor, "batch channels past"]
) -> Float[Tensor, "time batch channels"]:
    """Return the causal convolution of each channel; the last inputs before `xs` are at the end of the register."""
    past = register[..., register.shape[-1] - conv.kernel_size[0] + 1 :]
    extended = torch.cat([past.to(xs), xs.permute(1, 2, 0)], dim=-1)
    return conv1d(extended, conv.weight, conv.bias, groups=xs.shape[-1]).permute(2, 0, 1)


def check_activation(mixer: nn.Module, name: str) -> None:
    """Raise unless the activation of the convolution is SiLU, as all published models have it."""
    if name not in ("silu", "swish"):
        raise TypeError(
            f"{type(mixer).__module__}.{type(mixer).__name__} with the activation {name!r} is not a recurrence that is "
            f"known: only 'silu', which all published models have, is supported."
        )
