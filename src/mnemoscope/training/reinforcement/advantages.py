"""How much better an action turned out than was expected."""

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
    """`A_t = sum_k (discount trace)^k d_{t+k}` up to the episode's end, `d_t = r_t + discount V_{t+1} - V_t` (Schulman
    et al. 2016, Eq 16).

    Args:
        rewards: r_t, of the action at step t.
        values: V_t, expected before it.
        ended: where the action ended an episode: what comes next belongs to another, so that its value does not count.
        last_values: V after the last step.
        discount: of a reward, for every step that it lies ahead.
        trace: 0: trust the values after one step; 1: trust the rewards alone.

    >>> no = torch.zeros(2, 1, dtype=torch.bool)
    >>> generalised_advantages(torch.ones(2, 1), torch.zeros(2, 1), no, torch.zeros(1), discount=1.0, trace=0.5).T
    tensor([[1.5000, 1.0000]])

    """
    for name, value in (("discount", discount), ("trace", trace)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be between 0 and 1, but is {value}.")
    goes_on = 1 - ended.to(rewards)
    after = torch.cat([values[1:], last_values.unsqueeze(0)])
    surprises = rewards + discount * goes_on * after - values
    advantage, advantages = torch.zeros_like(last_values), []
    for surprise, on in zip(surprises.flip(0), goes_on.flip(0), strict=True):
        advantage = surprise + discount * trace * on * advantage
        advantages.append(advantage)
    return torch.stack(advantages[::-1])
