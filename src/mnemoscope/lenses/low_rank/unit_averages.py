"""The exact reduction of a low-rank network: averages over its units."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.intervals import function_range, product_range
from mnemoscope.cells.nonlinearities import Nonlinearity
from mnemoscope.connectivity import Loadings
from mnemoscope.lenses.low_rank.latent_cell import LatentCell


class UnitAverages(LatentCell):
    """The latent variables of one network, exactly: F is an average over its units."""

    left: Tensor
    right: Tensor
    driven: Tensor
    readouts: Tensor

    def __init__(
        self,
        loadings: Loadings,
        phi: Nonlinearity,
        leak: float,
        filtered: bool,
        offset: Float[Tensor, " outputs"] | None = None,
    ) -> None:
        super().__init__(loadings.widths, leak, filtered, offset)
        self.phi = phi
        self.register_buffer("left", loadings.left)
        self.register_buffer("right", loadings.right / len(loadings.right))
        self.register_buffer("driven", torch.cat([loadings.inputs, loadings.bias], 1))
        self.register_buffer("readouts", loadings.readouts / len(loadings.right))

    def currents(self, latents: Tensor, drive: Tensor) -> Float[Tensor, "batch units"]:
        """Return the currents `M kappa + I v + b` of all units."""
        return latents @ self.left.mT + drive @ self.driven.mT

    def right_average(self, latents: Float[Tensor, "batch rank"], drive: Float[Tensor, "batch drive"]) -> Tensor:
        return self.phi(self.currents(latents, drive)) @ self.right

    def readout_average(self, latents: Float[Tensor, "batch rank"], drive: Float[Tensor, "batch drive"]) -> Tensor:
        return self.phi(self.currents(latents, drive)) @ self.readouts

    def largest_average(self) -> Box | None:
        rates = function_range(self.phi, self.left[:, 0])
        return None if rates is None else product_range(self.right.mT, *rates)

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure | None:
        if self.filtered:
            return None
        current = state.linear(self.left, *self.driven[:, self.inputs :].unbind(1))
        if self.inputs:
            current = current + x.linear(self.driven[:, : self.inputs])
        rates = self.phi.enclose(current)
        return None if rates is None else state * (1 - self.leak) + rates.linear(self.right.mT) * self.leak
