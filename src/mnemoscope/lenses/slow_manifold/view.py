"""Two views of a moving network: its states, or their means over a window, in which oscillations cancel."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics


@dataclass(frozen=True)
class View:
    """A map and the window over which its states are averaged; a window of 1 shows the states themselves.

    A network may hold a value and oscillate around it: no state is slow, but its mean over a few periods is. The mean
    is weighted by a Hann window, in which an oscillation of more than two periods cancels whatever its phase.

    >>> import mnemoscope as ms
    >>> turn = ms.adapt(lambda x, h: torch.stack([-h[:, 1], h[:, 0]], 1), state_size=2)
    >>> View(ms.Dynamics(turn), 60)(torch.ones(1, 2).double()).abs().max() < 1e-12
    tensor(True)
    """

    system: Dynamics
    window: int = 1

    def __call__(self, states: Float[Tensor, "states size"]) -> Float[Tensor, "states size"]:
        """Return the states, or the mean of the steps that follow each of them."""
        if self.window == 1:
            return states
        phase = 2 * pi * (torch.arange(self.window, dtype=torch.float64) + 0.5) / self.window
        mean = torch.zeros_like(states)
        for weight in ((1 - phase.cos()) / self.window).tolist():
            mean = mean + weight * states
            states = self.system(states)
        return mean

    def motion(self, states: Float[Tensor, "states size"]) -> Float[Tensor, "states size"]:
        """Return how far each state, or its mean, moves per step."""
        later = states
        for _ in range(self.window):
            later = self.system(later)
        return (self(later) - self(states)) / self.window

    def speed(self, states: Float[Tensor, "states size"]) -> Float[Tensor, " states"]:
        """Return the length of the motion."""
        with torch.no_grad():
            return self.motion(states).norm(dim=1)


def as_array(tensor: Tensor) -> np.ndarray:
    """Return the numbers of a tensor as a float64 array, without gradient."""
    return tensor.detach().cpu().double().numpy()
