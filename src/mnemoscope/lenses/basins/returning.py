"""Where perturbed states arrive: at one of several known attractors, or at none of them in the given time."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.dynamics import Dynamics

BETWEEN = 10
"""Steps between two looks at the distance to the attractors."""


@torch.no_grad()
def destinations(
    system: Dynamics, starts: Float[Tensor, "starts size"], orbits: list[Tensor], near: float, steps: int
) -> Int[Tensor, " starts"]:
    """Return the number of the attractor at which each start arrives within these steps, or -1.

    It has arrived if it is within `near` of a state of the attractor at two looks in a row: a state may pass close to
    an attractor on its way.
    """
    states = torch.cat(orbits)
    owner = torch.cat([torch.full((len(orbit),), number) for number, orbit in enumerate(orbits)]).to(states.device)
    end = torch.full((len(starts),), -1, device=states.device)
    before = end.clone()
    running = torch.arange(len(starts), device=states.device)
    current = starts
    for step in range(1, steps + 1):
        current = system(current)
        if step % BETWEEN and step != steps:
            continue
        apart, closest = torch.cdist(current, states, compute_mode="donot_use_mm_for_euclid_dist").min(1)
        place = torch.where(apart <= near, owner[closest], -1)
        arrived = (place >= 0) & (place == before[running])
        end[running[arrived]] = place[arrived]
        before[running] = place
        kept = ~arrived & torch.isfinite(current).all(1)
        running, current = running[kept], current[kept]
        if not len(running):
            break
    return end.cpu()
