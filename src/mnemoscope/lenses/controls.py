"""Random changes of a state, as controls of a change that an explanation names."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


def scale_to(changes: Float[Tensor, "*batch size"], like: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
    """Return changes, each scaled to the length of another change; a change of 0 stays 0.

    A control that moves a state less far than the tested change has a smaller effect for that reason alone.

    >>> scale_to(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])).tolist()
    [[0.6..., 0.8...], [0.0, 0.0]]

    """
    length = changes.norm(dim=-1, keepdim=True)
    return torch.where(length > 0, changes * (like.norm(dim=-1, keepdim=True) / length), changes)
