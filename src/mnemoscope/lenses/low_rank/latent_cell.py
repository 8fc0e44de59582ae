"""The latent variables of a low-rank network as a cell: what the exact and the mean-field reduction share."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell
from mnemoscope.cells.cell import Box


class LatentCell(Cell):
    """The latent variables kappa of a low-rank network, which follow a closed map.

    `kappa' = (1 - leak) kappa + leak F(kappa, v)`, where F averages `n_i phi(m_i kappa + I_i v + b_i)` over the units:
    over those of a network (`UnitAverages`) or over a distribution (`PopulationAverages`).

    The state holds kappa, and after it, if inputs are filtered, v: `v' = (1 - leak) v + leak u`. Units in the current
    form filter their inputs, and the last column of v is the constant input of the bias, if there is one. Units in the
    rate form do not: then v = u. Either has the same fixed points, with v = u.

    A filtered cell outputs the readouts, if there are any, and any other cell kappa.
    """

    offset: Tensor

    def __init__(
        self, widths: tuple[int, ...], leak: float, filtered: bool, offset: Float[Tensor, " outputs"] | None
    ) -> None:
        super().__init__()
        self.rank, _, self.inputs, self.outputs, self.biases = widths
        self.input_size = self.inputs or None
        self.leak, self.filtered = leak, filtered
        self.register_buffer("offset", torch.zeros(self.outputs) if offset is None else offset.detach().clone())

    def right_average(self, latents: Float[Tensor, "batch rank"], drive: Float[Tensor, "batch drive"]) -> Tensor:
        """Return F, the average of `n_i phi(m_i kappa + I_i v + b_i)`, (batch, rank)."""
        raise NotImplementedError(f"{type(self).__name__} must define right_average().")

    def readout_average(self, latents: Float[Tensor, "batch rank"], drive: Float[Tensor, "batch drive"]) -> Tensor:
        """Return the average of `w_i phi(m_i kappa + I_i v + b_i)`, (batch, outputs)."""
        raise NotImplementedError(f"{type(self).__name__} must define readout_average().")

    def largest_average(self) -> Box | None:
        """Return the box that contains F at every state, or None if phi is not bounded."""
        raise NotImplementedError(f"{type(self).__name__} must define largest_average().")

    @property
    def has_readout(self) -> bool:
        return self.filtered and self.outputs > 0

    def initial_state(self, batch: int) -> Float[Tensor, "batch size"]:
        size = self.rank + (self.inputs + self.biases) * self.filtered
        return torch.zeros(batch, size, dtype=self.offset.dtype, device=self.offset.device)

    def forward(self, x: Float[Tensor, "batch features"], state: Float[Tensor, "batch size"]) -> Tensor:
        drive = self.drive(x)
        target = self.right_average(state[:, : self.rank], state[:, self.rank :] if self.filtered else drive)
        target = torch.cat([target, drive], 1) if self.filtered else target
        return (1 - self.leak) * state + self.leak * target

    def drive(self, x: Float[Tensor, "batch features"]) -> Float[Tensor, "batch drive"]:
        """Return the inputs u, followed by the constant input of the bias."""
        return torch.cat([x[:, : self.inputs], x.new_ones(len(x), self.biases)], 1)

    def output(self, state: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch features"]:
        if not self.has_readout:
            return state[..., : self.rank]
        flat = state.flatten(0, -2)
        read = self.readout_average(flat[:, : self.rank], flat[:, self.rank :]) + self.offset
        return read.unflatten(0, state.shape[:-1])

    def bounds(self, low: Float[Tensor, " inputs"], high: Float[Tensor, " inputs"]) -> Box | None:
        """Bound kappa by the largest average, and filtered inputs by 0 and the extreme inputs."""
        box = self.largest_average()
        if box is None:
            return None
        least, most = box
        if self.filtered:
            least = torch.cat([least, self.drive(low[None])[0].clamp_max(0)])
            most = torch.cat([most, self.drive(high[None])[0].clamp_min(0)])
        margin = 1e-6 * (1 + torch.maximum(least.abs(), most.abs()).amax())  # no box may have the width 0
        return least - margin, most + margin

    def extra_repr(self) -> str:
        return f"rank={self.rank}, inputs={self.inputs}, leak={self.leak:g}, filtered={self.filtered}"
