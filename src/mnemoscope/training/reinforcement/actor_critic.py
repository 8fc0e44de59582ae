"""An agent: what it sees goes into a recurrent cell, which a policy and a value are read from."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells import Cell, Model, scan
from mnemoscope.cells.state import State, grown, map_state

OBJECTS, COLOURS, STATES = 11, 6, 4
"""Of a MiniGrid square: kinds of objects, colours, and states (of a door; of the agent its four directions)."""


class Outlook(NamedTuple):
    """What an agent makes of what it sees."""

    log_policy: Float[Tensor, "*sequence actions"]
    """Logarithms of the probabilities with which it acts."""
    values: Float[Tensor, " *sequence"]
    """The discounted rewards that it expects from here on."""


class ActorCritic(Model):
    """A model whose linear readout gives a score for each action, and a value.

    The scores begin near 0, so that at first all actions are about as likely. State is functional: it goes in and comes
    out, and whoever begins an episode gives the initial state.

    Args:
        cell: the recurrent cell; its inputs are what `encode` gives.
        actions: how many there are to choose from.
        encode: module applied to observations (..., *observation); by default they are taken as they are.

    >>> from mnemoscope.cells import LSTM
    >>> agent = ActorCritic(LSTM(64, 32), actions=7, encode=GridEncoder(64))
    >>> outlook, state = agent.outlook(torch.zeros(20, 5, 7, 7, 3, dtype=torch.uint8))
    >>> outlook.log_policy.shape, outlook.values.shape
    (torch.Size([20, 5, 7]), torch.Size([20, 5]))

    """

    def __init__(self, cell: Cell, actions: int, encode: nn.Module | None = None) -> None:
        if isinstance(actions, bool) or not isinstance(actions, int) or actions < 2:
            raise ValueError(f"An agent needs at least two actions to choose from, but actions is {actions!r}.")
        super().__init__(cell, actions + 1, encode)
        self.actions = actions
        with torch.no_grad():
            self.linear_readout.weight[:actions] *= 0.01
            self.linear_readout.bias.zero_()

    def outlook(
        self,
        observations: Tensor,
        state: State | None = None,
        mask: Bool[Tensor, "time batch"] | None = None,
    ) -> tuple[Outlook, State]:
        """Of sequences of observations (time, batch, ...), and the last state."""
        outputs, state = scan(self.cell, self.encode(observations), state, mask=mask)
        return self._read(outputs), state

    def look(self, observations: Tensor, state: State) -> tuple[Outlook, State]:
        """Of one observation each, (batch, ...), and the state after it."""
        state = self.cell(self.encode(observations), state)
        return self._read(self.cell.output(state)), state

    def _read(self, outputs: Tensor) -> Outlook:
        scores, values = self.readout(outputs).split([self.actions, 1], dim=-1)
        return Outlook(scores.log_softmax(-1), values.squeeze(-1))


class GridEncoder(nn.Module):
    """A MiniGrid view (..., 7, 7, 3) as features: each square is the sum of learned vectors for its object, its colour
    and its state, and three layers of 2 x 2 filters make one vector of all.
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


def begun_anew(cell: Cell, state: State, starting: Bool[Tensor, " batch"]) -> State:
    """The state with the initial one for those who begin an episode.

    Of a state that grows, the slots of others are empty for them, and slots that are empty for all are dropped.
    """
    if not starting.any():
        return state
    fresh = map_state(grown, cell.initial_state(len(starting)), state)
    state = map_state(
        lambda new, old: torch.where(starting.view(-1, *(1,) * (old.dim() - 1)).to(old.device), new, old), fresh, state
    )
    return packed(cell, state)


def members(cell: Cell, state: State, which: Int[Tensor, " chosen"]) -> State:
    """The states of some members of the batch; which of them may be `-1`: the initial state."""
    if not cell.grows:
        with_fresh = map_state(lambda old, new: torch.cat([old, new]), state, cell.initial_state(1))
        return map_state(lambda tensor: tensor[which], with_fresh)
    fresh = map_state(grown, cell.initial_state(1), state)
    return packed(cell, map_state(lambda old, new: torch.cat([old, new])[which], state, fresh))


def packed(cell: Cell, state: State) -> State:
    """A state that grows with the filled slots of each member first, in their order, and none that is empty for all.

    Attention does not ask where a slot lies, so that the network goes on as before.
    """
    if not cell.grows:
        return state
    rows, filled = getattr(state, "rows", None), getattr(state, "filled", None)
    if rows is None or filled is None:
        raise ValueError(
            f"The state of a {type(cell).__name__} grows, and only those of an Attentive cell say which of their slots "
            f"are filled, which agents need to know where episodes begin."
        )
    order = filled.argsort(dim=1, descending=True, stable=True)[:, : int(filled.sum(1).max()) if filled.numel() else 0]
    taken = {
        name: tensor.gather(1, order.view(*order.shape, *(1,) * (tensor.dim() - 2)).expand(-1, -1, *tensor.shape[2:]))
        for name in ("rows", "score", "filled")
        if (tensor := getattr(state, name, None)) is not None
    }
    return state._replace(**taken)
