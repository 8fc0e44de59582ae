"""The mean-field reduction: averages over Gaussian populations, which a network approaches as it grows."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box
from mnemoscope.cells.nonlinearities import Nonlinearity
from mnemoscope.connectivity import LoadingMixture
from mnemoscope.lenses.low_rank.latent_cell import LatentCell

NODES = 121
"""Nodes of the trapezoidal rule, which converges faster here than Gauss-Hermite quadrature with as many nodes.

For tanh the error is below 1e-9 at a standard deviation of 3 (Gauss-Hermite: 1e-4), and 1e-3 at 10.
"""
REACH = 8.0
"""Standard deviations on either side of the mean that the rule covers."""


class PopulationAverages(LatentCell):
    """The latent variables of infinitely many units whose loadings are drawn from a mixture of Gaussians.

    In each population the current `z = m kappa + I v + b` is Gaussian. With its mean and variance, Stein's lemma gives
    the average `<n phi(z)> = <n> <phi(z)> + cov(n, z) <phi'(z)>` (Beiran et al. 2021; Dubreuil et al. 2022).
    """

    weights: Tensor
    current_means: Tensor
    roots: Tensor
    right_means: Tensor
    right_squares: Tensor
    right_covariances: Tensor
    readout_means: Tensor
    readout_covariances: Tensor
    nodes: Tensor
    node_weights: Tensor

    def __init__(
        self,
        mixture: LoadingMixture,
        phi: Nonlinearity,
        leak: float,
        filtered: bool,
        offset: Float[Tensor, " outputs"] | None = None,
    ) -> None:
        super().__init__(mixture.widths, leak, filtered, offset)
        if getattr(phi, "bias", None) is not None:
            raise ValueError("A mean field needs one nonlinearity for all units, but this one has a bias for each.")
        self.phi = phi
        left, right, inputs, readouts, bias = torch.arange(mixture.means.shape[1]).split(list(mixture.widths))
        current = torch.cat([left, inputs, bias])  # columns that kappa, u and 1 multiply
        covariances = mixture.covariances
        values, vectors = torch.linalg.eigh(covariances[:, current[:, None], current])
        nodes = torch.linspace(-REACH, REACH, NODES, dtype=torch.float64).to(mixture.means)
        density = torch.exp(-nodes.square() / 2)
        buffers = {
            "weights": mixture.weights,
            "current_means": mixture.means[:, current],
            "roots": vectors * values.clamp_min(0).sqrt().unsqueeze(1),
            "right_means": mixture.means[:, right],
            "right_squares": mixture.means[:, right].square() + covariances[:, right, right],
            "right_covariances": covariances[:, current[:, None], right],
            "readout_means": mixture.means[:, readouts],
            "readout_covariances": covariances[:, current[:, None], readouts],
            "nodes": nodes,
            "node_weights": density / density.sum(),
        }
        for name, value in buffers.items():
            self.register_buffer(name, value.clone())

    def right_average(self, latents: Float[Tensor, "batch rank"], drive: Float[Tensor, "batch drive"]) -> Tensor:
        return self._average(torch.cat([latents, drive], 1), self.right_means, self.right_covariances)

    def readout_average(self, latents: Float[Tensor, "batch rank"], drive: Float[Tensor, "batch drive"]) -> Tensor:
        return self._average(torch.cat([latents, drive], 1), self.readout_means, self.readout_covariances)

    def largest_average(self) -> Box | None:
        """Bound `|<n phi>|` by the largest rate and the root mean square of n (Cauchy & Schwarz)."""
        rate = max(abs(self.phi.low), abs(self.phi.high))
        largest = rate * (self.weights @ self.right_squares).sqrt()
        return (-largest, largest) if rate < torch.inf else None

    def _average(self, drive: Tensor, means: Tensor, covariances: Tensor) -> Tensor:
        """Return `<c phi(z)>` of columns c with these means and covariances with the current columns."""
        mean = drive @ self.current_means.mT  # (batch, populations)
        # torch takes the derivative of a norm at 0 to be 0, which is right here: the averages are even in the norm.
        spread = torch.linalg.vector_norm(torch.einsum("bc,pcd->bpd", drive, self.roots), dim=2)
        z = mean.unsqueeze(2) + spread.unsqueeze(2) * self.nodes  # (batch, populations, nodes)
        rate, slope = self.phi(z) @ self.node_weights, self.phi.derivative(z) @ self.node_weights
        along = torch.einsum("bc,pck->bpk", drive, covariances)
        by_population = means * rate.unsqueeze(2) + along * slope.unsqueeze(2)
        return torch.einsum("p,bpk->bk", self.weights, by_population)
