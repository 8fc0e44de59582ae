"""Parts of a model that add a penalty to the loss."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class HasPenalty(Protocol):
    """A module with a penalty, such as a matrix that is held near a manifold or a screen that learns to predict.

    The penalty is a mean over the sequences of a batch, or independent of them. With several processes, each process
    weights it by its share of the sequences.
    """

    def penalty(self) -> Tensor | None:
        """Return the penalty after the forward pass of a step, or None if there is none."""
        ...


def penalised_modules(model: nn.Module) -> list[HasPenalty]:
    """Return the modules of a model that have a penalty."""
    return [module for module in model.modules() if isinstance(module, HasPenalty)]
