"""Runs of a network whose state data correct at every step, through the pseudo-inverse of its readout."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Model

RIDGE = 1e-2
"""Penalty of a correction, relative to the mean square of the readout in each direction of the state."""


class ForcedRun:
    """A model that runs over trials, with its state moved towards one that agrees with the data.

    The correction of a state h by data x is K (x - R h - c), where K is the ridge pseudo-inverse of the readout R,
    restricted to the units that were recorded. No gradient flows through K.
    """

    def __init__(self, model: Model, forcing: float) -> None:
        self.model, self.forcing = model, forcing
        state = model.cell.initial_state(1)
        if (
            not isinstance(state, Tensor)
            or state.dim() != 2
            or not torch.equal(model.cell.output(state + 1), state + 1)
        ):
            raise ValueError(
                "The readout of a network that is fitted to a recording must see its whole state, one vector, as in "
                'GRU, Elman or LeakyRNN(..., form="rate").'
            )

    def parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters that a fit changes."""
        return self.model.parameters()

    def predict(
        self,
        activity: Float[Tensor, "time trials units"],
        inputs: Float[Tensor, "time trials features"],
        warm_up: int | None = None,
    ) -> Float[Tensor, "steps trials units"]:
        """Return predictions of steps 1, 2, ..., each from the data before; after `warm_up` steps without data."""
        state, predictions = self.first_state(activity), []
        for step in range(1, len(activity)):
            if step > 1 and (warm_up is None or step <= warm_up):
                state = self.corrected(state, activity[step - 1], self.forcing)
            state = self.model.cell(inputs[step], state)
            predictions.append(self._readout(state))
        return torch.stack(predictions)

    def filter(
        self, activity: Float[Tensor, "time trials units"], inputs: Float[Tensor, "time trials features"]
    ) -> Float[Tensor, "time trials units"]:
        """Return the readout of every state after the data of its step have corrected it."""
        state = self.first_state(activity)
        readouts = [self._readout(state)]
        for step in range(1, len(activity)):
            state = self.corrected(self.model.cell(inputs[step], state), activity[step], self.forcing)
            readouts.append(self._readout(state))
        return torch.stack(readouts)

    def first_state(self, activity: Tensor) -> Tensor:
        """Return the states that agree with the first step of the data."""
        return self.corrected(self.model.cell.initial_state(activity.shape[1]).double(), activity[0], 1.0)

    def corrected(self, state: Tensor, data: Float[Tensor, "trials units"], share: float) -> Tensor:
        """Return a state that is moved a share of the way towards one that agrees with the data."""
        weights = self.model.linear_readout.weight.detach()
        known = ~data.isnan()
        if bool(known.all()):  # all trials share one gain
            missing, normal = data - self._readout(state), (weights.T @ weights).unsqueeze(0)
        else:
            missing = torch.where(known, data.nan_to_num() - self._readout(state), 0.0)
            normal = torch.einsum("tu,ui,uj->tij", known.double(), weights, weights)
        size = normal.diagonal(dim1=1, dim2=2).mean(1).clamp_min(1e-12)
        normal = normal + RIDGE * size[:, None, None] * torch.eye(weights.shape[1], dtype=weights.dtype)
        return state + share * torch.linalg.solve(normal, (missing @ weights).unsqueeze(2))[..., 0]

    def _readout(self, state: Tensor) -> Tensor:
        return self.model.readout(self.model.cell.output(state))
