"""The states of adapted modules."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mnemoscope.cells.state import State


class ModelState(NamedTuple):
    """The state of a whole model: that of every layer, and the output of the last step."""

    layers: tuple[State, ...]
    output: Tensor


class MixerState(NamedTuple):
    """The state of one mixer, and the output of the last step."""

    layer: State
    output: Tensor
