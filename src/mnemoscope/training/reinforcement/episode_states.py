"""States of agents whose batch members start their episodes at different times."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.cells import Cell
from mnemoscope.cells.state import State, map_state, pad_slots


def reset_states(cell: Cell, state: State, starting: Bool[Tensor, " batch"]) -> State:
    """Return the state with the initial state for the members that start an episode.

    In a state that grows, the slots of the other members are empty for them, and slots that are empty for all members
    are dropped.
    """
    if starting.device.type == "cpu" and not starting.any():  # on a GPU, the CPU would have to wait for the answer
        return state
    fresh = map_state(pad_slots, cell.initial_state(len(starting)), state)
    state = map_state(
        lambda new, old: torch.where(starting.view(-1, *(1,) * (old.dim() - 1)).to(old.device), new, old), fresh, state
    )
    return pack_slots(cell, state)


def select_states(cell: Cell, state: State, members: Int[Tensor, " chosen"]) -> State:
    """Return the states of some members of the batch; the member -1 stands for the initial state."""
    if not cell.grows:
        with_fresh = map_state(lambda old, new: torch.cat([old, new]), state, cell.initial_state(1))
        return map_state(lambda tensor: tensor[members], with_fresh)
    fresh = map_state(pad_slots, cell.initial_state(1), state)
    return pack_slots(cell, map_state(lambda old, new: torch.cat([old, new])[members], state, fresh))


def pack_slots(cell: Cell, state: State) -> State:
    """Move the filled slots of each member to the front, in their order, and drop slots that are empty for all.

    Attention does not depend on the place of a slot, so the network's outputs stay the same. A state that does not grow
    is returned unchanged.
    """
    if not cell.grows:
        return state
    rows, filled = getattr(state, "rows", None), getattr(state, "filled", None)
    if rows is None or filled is None:
        raise ValueError(
            f"The state of a {type(cell).__name__} grows, but does not record which of its slots are filled, as that "
            f"of an Attentive cell does; agents need this where episodes begin."
        )
    order = filled.argsort(dim=1, descending=True, stable=True)[:, : int(filled.sum(1).max()) if filled.numel() else 0]
    packed = {
        name: tensor.gather(1, order.view(*order.shape, *(1,) * (tensor.dim() - 2)).expand(-1, -1, *tensor.shape[2:]))
        for name in ("rows", "score", "filled")
        if (tensor := getattr(state, name, None)) is not None
    }
    return state._replace(**packed)


def without_empty_rows(cell: Cell, state: State) -> State:
    """Return a state that grows with the rows of its filled slots only, (rows, width), for a file; others unchanged."""
    return state._replace(rows=state.rows[state.filled > 0]) if cell.grows else state


def with_empty_rows(cell: Cell, state: State) -> State:
    """Return the state of which `without_empty_rows` was made, with zeros in empty slots."""
    if not cell.grows:
        return state
    rows = state.rows.new_zeros(*state.filled.shape, state.rows.shape[-1])
    rows[state.filled > 0] = state.rows
    return state._replace(rows=rows)
