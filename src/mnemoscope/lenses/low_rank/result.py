"""The result of the lens on low-rank networks: latent variables of the network, of its reduction and its mean field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Reduction(Result):
    """A low-rank network compared with the exact reduction to its latent variables and with its mean field.

    Errors are the root mean square of differences of latent variables along trajectories, relative to the root mean
    square of those of the network.
    """

    noun: ClassVar[str] = "a reduction"
    drawn_by: ClassVar[str] = "draw_reduction"

    size: int
    """Number of units."""
    leak: float
    """dt / tau."""
    form: str
    """"current" or "rate"."""
    populations: int
    """Number of Gaussian populations of the mean field."""
    latents: Float[Tensor, "time batch rank"]
    """Latent variables kappa of the network along trajectories, by projection of its states."""
    reduced: Float[Tensor, "time batch rank"]
    """The same trajectories of the exact reduction."""
    mean_field: Float[Tensor, "time batch rank"]
    """The same trajectories of the mean field."""
    outside: float
    """Share of the sum of squares of the network's states outside the span of the reduction (current form)."""
    fixed_points: FixedPoints
    """Fixed points of the exact reduction, which are those of the network."""
    mean_field_points: FixedPoints
    """Fixed points of the mean field."""
    to_latents: Float[Tensor, "rank size"]
    """From states of the network to kappa."""
    grid: Float[Tensor, "grid rank"]
    """Latent variables at which the flow was evaluated; none for a rank above 2."""
    flow: Float[Tensor, "grid rank"]
    """Change of kappa in one step at each of them, at the constant input."""
    mean_field_flow: Float[Tensor, "grid rank"]
    """The same of the mean field."""

    @property
    def rank(self) -> int:
        """Number of latent variables."""
        return self.latents.shape[2]

    @property
    def error(self) -> float:
        """Relative error of the exact reduction: rounding."""
        return _relative(self.reduced - self.latents, self.latents)

    @property
    def mean_field_error(self) -> float:
        """Relative error of the mean field along the trajectories."""
        return _relative(self.mean_field - self.latents, self.latents)

    @property
    def flow_error(self) -> float:
        """Relative error of the mean-field flow on the grid; NaN without a grid."""
        return _relative(self.mean_field_flow - self.flow, self.flow)

    def project(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch rank"]:
        """Return the latent variables of states of the network."""
        return states.to(self.to_latents) @ self.to_latents.mT

    def summary(self) -> str:
        variables = f"{self.rank} latent variable{'s' * (self.rank > 1)}"
        found, mean = (_points(fp) for fp in (self.fixed_points, self.mean_field_points))
        kind = f"{self.populations} Gaussian population{'s' * (self.populations > 1)}"
        sentences = [
            f"A network of {self.size} units and rank {self.rank} follows {variables} (relative difference "
            f"{self.error:.1g} along {self.latents.shape[1]} trajectories).",
            f"At the constant input the reduction has {found}; they are those of the network.",
            f"The mean field of {kind} has {mean}, and its trajectories differ by {self.mean_field_error:.2g} of the "
            f"size of kappa.",
        ]
        if self.mean_field_error > 0.3:
            sentences.append(
                "That is a large difference: the network is too small, or its loadings have another distribution."
            )
        return " ".join(sentences)


def _relative(difference: Tensor, size: Tensor) -> float:
    return float(difference.square().mean().sqrt() / size.square().mean().sqrt()) if size.numel() else torch.nan


def _points(fp: FixedPoints) -> str:
    stable = sum(kind == "stable" for kind in fp.kind)
    return f"{len(fp)} fixed point{'s' * (len(fp) != 1)} ({stable} stable)"
