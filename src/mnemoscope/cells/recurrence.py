"""Recurrences that a block can surround."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.surroundings import Surroundings


class Recurrence(Cell):
    """Base class of cells that have a published block: what `Block` takes from them.

    Inputs become features by `project`. The first `convolved` of them pass a short convolution, if the block has one.
    `advance` and `read` take the features.
    """

    surroundings: ClassVar[Surroundings] = Surroundings()
    """The parts around the recurrence in its published block."""
    hidden_size: int
    """Number of output features."""
    heads: int
    """Number of parts of the output that a norm treats apart."""
    groups: int = 1
    """Number of groups of output features that a norm after the gate treats apart."""
    whole_sequences: bool = False
    """Whether `run` and `kernel_name` are defined: one operation on a whole sequence computes the same as its steps."""
    convolved: int = 0
    """Number of features, the first ones, that the short convolution of a block acts on."""
    received: int = 0
    """Number of inputs, the last ones, that are the message of the block below."""
    passed: int = 0
    """Number of features in the message to the block above, which follows the outputs."""
    project: nn.Module
    """The map of the inputs to the features."""
    norm: nn.Module
    """Norm of what is read, over the values of each head; a block sets it."""

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        """Return the recurrences of `depth` published blocks, whose inputs have `width` features."""
        options = {"hidden_size": round(cls.surroundings.expand * width), **options}
        return [cls(width, **options) for _ in range(depth)]

    def message(self, features: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch passed"]:
        """Return the message to the block above, a function of the features; by default it is empty."""
        return features[..., :0]

    def run(self, features: Float[Tensor, "time batch features"], state: Any, mask: Any) -> tuple[Tensor, Any]:
        """Return the outputs of a whole sequence and the last state, if the recurrence takes whole sequences."""
        raise NotImplementedError(f"{type(self).__name__} does not take whole sequences.")

    def kernel_name(self, device: torch.device, dtype: torch.dtype) -> str:
        """Return the name of the operation that `run` is."""
        raise NotImplementedError(f"{type(self).__name__} does not take whole sequences.")

    def advance(self, features: Float[Tensor, "batch features"], state: Any) -> Any:
        """Return the next state."""
        raise NotImplementedError(f"{type(self).__name__} must define advance(features, state).")

    def read(self, features: Float[Tensor, "*batch features"], state: Any) -> Float[Tensor, "*batch outputs"]:
        """Return the output in a state."""
        raise NotImplementedError(f"{type(self).__name__} must define read(features, state).")
