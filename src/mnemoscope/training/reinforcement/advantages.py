"""Generalised advantage estimation: how much better an action was than expected."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float


def generalised_advantages(
    rewards: Float[Tensor, "time batch"],
    values: Float[Tensor, "time batch"],
    ended: Bool[Tensor, "time batch"],
    last_values: Float[Tensor, " batch"],
    discount: float = 0.99,
    trace: float = 0.95,
) -> Float[Tensor, "time batch"]:
    """Return the advantages `A_t = sum_k (discount trace)^k d_{t+k}` (Schulman et al. 2016, Eq 16).

    The sum ends with the episode, and `d_t = r_t + discount V_{t+1} - V_t`.

    Args:
        rewards: r_t, reward of the action at step t.
        values: V_t, value before that action.
        ended: whether the action ended an episode; the next value then belongs to another episode and does not count.
        last_values: V after the last step.
        discount: discount factor of rewards per step.
        trace: lambda. 0 uses the values after one step, 1 uses the rewards alone.

    >>> no = torch.zeros(2, 1, dtype=torch.bool)
    >>> generalised_advantages(torch.ones(2, 1), torch.zeros(2, 1), no, torch.zeros(1), discount=1.0, trace=0.5).T
    tensor([[1.5000, 1.0000]])

    """
    for name, value in (("discount", discount), ("trace", trace)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be between 0 and 1, but is {value}.")
    continues = 1 - ended.to(rewards)
    next_values = torch.cat([values[1:], last_values.unsqueeze(0)])
    deltas = rewards + discount * continues * next_values - values
    advantage, advantages = torch.zeros_like(last_values), []
    for delta, factor in zip(deltas.flip(0), continues.flip(0), strict=True):
        advantage = delta + discount * trace * factor * advantage
        advantages.append(advantage)
    return torch.stack(advantages[::-1])
