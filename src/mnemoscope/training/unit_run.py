"""Runs of a network in which each recorded unit is one unit of the network, whose current data correct."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, LeakyRNN, Model
from mnemoscope.connectivity import Dense
from mnemoscope.training.forced_run import ForcedRun

SPAN = 2.0
"""Standard deviations of a unit's activity at which the rate of its unit, a tanh, saturates."""
LARGEST_RATE = 0.95
"""Rates above it are clipped before they become currents, which would be infinite at a rate of 1."""


class UnitRun(ForcedRun):
    """A network of leaky units, the first of which are the recorded ones; further units are hidden.

    A recorded unit with standardised activity y has the rate phi(x) = y / SPAN, so that data give its current x. They
    move it by a share of the difference. Hidden units, and units that are missing, run without correction.
    """

    def __init__(self, model: Model, forcing: float) -> None:
        self.model, self.forcing, self.units = model, forcing, model.linear_readout.out_features
        self.cell = _checked(model.cell, self.units)
        with torch.no_grad():
            model.linear_readout.weight.copy_(SPAN * torch.eye(self.units, self.cell.hidden_size))
            model.linear_readout.bias.zero_()

    def parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters of the cell; the readout is fixed."""
        return self.cell.parameters()

    def currents(self, data: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the currents at which the units have this activity; NaN where it is missing."""
        return (data / SPAN).clamp(-LARGEST_RATE, LARGEST_RATE).atanh()

    def corrected(self, state: Tensor, data: Float[Tensor, "trials units"], share: float) -> Tensor:
        recorded = state[:, : self.units]
        moved = recorded + share * (self.currents(data) - recorded)
        return torch.cat([torch.where(data.isnan(), recorded, moved), state[:, self.units :]], 1)


def _checked(cell: Cell, units: int) -> LeakyRNN:
    if (
        not isinstance(cell, LeakyRNN)
        or cell.form != "current"
        or getattr(cell.phi.description(), "name", None) != "tanh"
        or not isinstance(cell.connectivity, Dense)
        or cell.bias is None
        or cell.hidden_size < units
    ):
        raise ValueError(
            f'A network whose units are the {units} recorded ones must be a LeakyRNN(inputs, size, form="current") of '
            f"tanh units with a bias and a dense matrix, and have {units} units or more."
        )
    return cell
