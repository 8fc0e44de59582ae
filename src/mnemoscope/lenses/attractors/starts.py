"""Initial states of simulations, and the random generator that draws them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor

from mnemoscope.cells import State
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.starts import Box, StartStrategy, as_starts


def seeded_generator(seed: int) -> Generator:
    """Return a random generator with this seed; raise unless it is a whole number that torch accepts."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not -(2**63) <= seed < 2**64:
        raise ValueError(f"seed must be a whole number from -2^63 to 2^64 - 1, such as seed=0, but is {seed!r}.")
    return Generator().manual_seed(int(seed))


def draw_starts(dynamics: Dynamics, starts: int | State | StartStrategy, generator: Generator) -> Tensor:
    """Return initial states: the given ones, those of a strategy, or a given number of random ones.

    Random starts are uniform in the invariant box of the system, or normal about its initial state if no box is known.
    """
    if isinstance(starts, bool | str) or (isinstance(starts, int) and starts < 1):
        raise ValueError(f"starts must be a number of starts, 1 or more, states or a strategy, but is {starts!r}.")
    if isinstance(starts, int):
        if dynamics.bounds is not None:
            return Box(starts).draw(dynamics, generator)
        drawn = torch.randn(starts, dynamics.size, generator=generator, dtype=dynamics.dtype)
        return dynamics.origin + drawn.to(dynamics.device)
    if isinstance(starts, StartStrategy):
        return starts.draw(dynamics, generator)
    return as_starts(dynamics, starts)
