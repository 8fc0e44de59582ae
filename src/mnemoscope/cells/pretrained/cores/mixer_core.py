"""The base class of recurrences that share the weights of a mixer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.cells.state import State


class MixerCore(AffineCell):
    """The recurrence of a mixer as an affine cell.

    A subclass also inherits from the cell that has the same equations, whose `parts` read the weights of the mixer, and
    defines `projected`, `start`, and `mixed` with a `window` if its features depend on earlier inputs. `finish` returns
    what the mixer passes to its norm, gate and output projection. The weights are shared with the mixer, so that
    gradients reach them.
    """

    source: nn.Module
    """The first submodule that the mixer applies to its inputs; its inputs are recorded."""

    window: int = 1
    """Number of inputs on which the features of a step depend: that of the step, and those before it."""

    def projected(self, xs: Float[Tensor, "time batch inputs"]) -> Float[Tensor, "time batch projected"]:
        """Return what the mixer projects its inputs to, step by step."""
        raise NotImplementedError(f"{type(self).__name__} must define projected(xs).")

    def mixed(
        self, projected: Float[Tensor, "time batch projected"], state: Any
    ) -> Float[Tensor, "time batch features"]:
        """Return the features that `parts` takes, from the projected inputs and the state before the first of them."""
        return projected

    def start(self, state: Any) -> tuple[Tensor, ...]:
        """Return the memory in a state of the mixer as S (batch, heads, keys, values), and m if S is scaled."""
        raise NotImplementedError(f"{type(self).__name__} must define start(state).")

    def layer(self, xs: Float[Tensor, "time batch inputs"], state: State) -> AffineLayer:
        """Return the layer on these inputs of the mixer, from a state of the mixer."""
        inputs = LayerInputs(xs, self.projected, lambda projected: self.mixed(projected, state), self.window)
        return AffineLayer.of(self, self.mixed(self.projected(xs), state), self.start(state), inputs)


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
