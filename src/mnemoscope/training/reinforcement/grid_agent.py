"""Agents for MiniGrid: an encoder of the 7 x 7 view, and a cell of the registry."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from mnemoscope import registry
from mnemoscope.base.array_types import Float
from mnemoscope.training.reinforcement.actor_critic import ActorCritic
from mnemoscope.training.seeding import seeded

OBJECTS, COLOURS, STATES = 11, 6, 4
"""Codes of a MiniGrid square: kinds of objects, colours, and states (of a door, or the agent's four directions)."""


class GridEncoder(nn.Module):
    """Encode a MiniGrid view (..., 7, 7, 3) as features.

    Each square is the sum of learned vectors for its object, its colour and its state. Three layers of 2 x 2 filters
    reduce the view to one vector.
    """

    def __init__(self, features: int = 64, square: int = 16) -> None:
        super().__init__()
        self.squares = nn.Embedding(OBJECTS + COLOURS + STATES, square)
        self.register_buffer("offsets", torch.tensor([0, OBJECTS, OBJECTS + COLOURS]), persistent=False)
        self.near = nn.Conv2d(square, 16, 2)  # 7 x 7 to 6 x 6, then the largest of each 2 x 2
        self.middle = nn.Conv2d(16, 32, 2)  # 3 x 3 to 2 x 2
        self.whole = nn.Conv2d(32, features, 2)  # to 1 x 1

    def forward(self, views: Tensor) -> Float[Tensor, "*sequence features"]:
        if views.shape[-3:] != (7, 7, 3):
            raise ValueError(f"A view of MiniGrid is (..., 7, 7, 3), but this is {tuple(views.shape)}.")
        squares = self.squares(views.reshape(-1, 7, 7, 3).long() + self.get_buffer("offsets")).sum(-2)
        features = nn.functional.max_pool2d(relu(self.near(squares.permute(0, 3, 1, 2))), 2)
        features = relu(self.whole(relu(self.middle(features))))
        return features.reshape(*views.shape[:-3], -1)


def build_grid_agent(
    cell: str, actions: int = 7, hidden_size: int = 64, features: int = 64, seed: int = 0, **options: Any
) -> ActorCritic:
    """Return an agent for MiniGrid around a cell of the registry, with its initial weights.

    >>> type(build_grid_agent("rellstm", short_term=5, relevant=5).cell).__name__
    'Attentive'
    """
    with seeded("initial weights", seed):
        network = registry.cells.load(cell)(input_size=features, hidden_size=hidden_size, **options)
        return ActorCritic(network, actions, GridEncoder(features))
