"""Loadings of a low-rank network: the entries of its connectivity, input and readout vectors, one row per unit."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int


@dataclass(frozen=True)
class Loadings:
    """The vectors of a low-rank network, one row per unit.

    The network is `tau dx/dt = -x + left right^T phi(x) / size + inputs u + bias` with the outputs
    `readouts^T phi(x) / size` (Dubreuil et al. 2022). A part that the network does not have has no columns.
    """

    left: Float[Tensor, "size rank"]
    """Columns m: the directions in which the recurrent input points."""
    right: Float[Tensor, "size rank"]
    """Columns n: the directions that select from the rates."""
    inputs: Float[Tensor, "size inputs"]
    """Columns I, one for each input feature."""
    readouts: Float[Tensor, "size outputs"]
    """Columns w, one for each output."""
    bias: Float[Tensor, "size biases"]
    """The bias b of each unit, in one column."""

    @classmethod
    def from_table(cls, table: Float[Tensor, "size columns"], widths: tuple[int, ...]) -> Loadings:
        """Return the loadings whose `table` is given; `widths` are the columns of each part."""
        return cls(*table.split(list(widths), dim=1))

    def table(self) -> Float[Tensor, "size columns"]:
        """Return all columns side by side: m_1..m_R, n_1..n_R, inputs, readouts, bias."""
        return torch.cat([getattr(self, field.name) for field in fields(self)], dim=1)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each part, in the order of `table`."""
        return tuple(getattr(self, field.name).shape[1] for field in fields(self))


@dataclass(frozen=True)
class LoadingMixture:
    """A mixture of Gaussian populations from which the loadings of each unit are drawn (Dubreuil et al. 2022).

    Columns are ordered as in `Loadings.table`. `from_overlaps` builds a mixture of one population.
    """

    weights: Float[Tensor, " populations"]
    """Fraction of the units in each population."""
    means: Float[Tensor, "populations columns"]
    """Mean of the loadings of each population."""
    covariances: Float[Tensor, "populations columns columns"]
    """Covariance of the loadings of each population."""
    widths: tuple[int, ...]
    """Columns of each part: rank, rank, inputs, readouts, bias."""

    def __post_init__(self) -> None:
        rank, same, *_ = self.widths
        if len(self.widths) != 5 or rank != same or rank < 1 or sum(self.widths) != self.means.shape[1]:
            raise ValueError(
                f"widths are the columns of left, right, inputs, readouts and bias, which add up to the "
                f"{self.means.shape[1]} columns of the means; left and right are equal. Given: {self.widths}."
            )
        if not bool((self.weights >= 0).all()) or abs(float(self.weights.sum()) - 1) > 1e-6:
            raise ValueError(f"The weights must be 0 or positive and add up to 1, but are {self.weights.tolist()}.")
        lowest = torch.linalg.eigvalsh(self.covariances).amin()
        if lowest < -1e-6 * self.covariances.diagonal(dim1=1, dim2=2).amax().clamp_min(1e-30):
            raise ValueError(
                f"A covariance has the negative eigenvalue {float(lowest):.3g}: no vectors have such overlaps. Raise "
                f"the variances, or lower the covariances."
            )

    @property
    def rank(self) -> int:
        return self.widths[0]

    @classmethod
    def from_overlaps(
        cls,
        overlaps: Float[Tensor, "rank rank"],
        inputs: Float[Tensor, "rank inputs"] | None = None,
        variance: float | None = None,
    ) -> LoadingMixture:
        """Return one population of zero mean, with m and inputs of variance 1 and given covariances with n.

        Args:
            overlaps: covariance of n_r and m_s, in row r and column s; the eigenvalues of V tend to those of this
                matrix.
            inputs: covariance of n_r and input k; no inputs by default.
            variance: variance of n; by default just above the smallest that is possible.

        >>> mixture = LoadingMixture.from_overlaps(torch.tensor([[1.5]]))
        >>> loadings = mixture.sample(100_000, seed=0)
        >>> round((loadings.left * loadings.right).mean().item(), 1)
        1.5

        """
        cross = overlaps if inputs is None else torch.cat([overlaps, inputs], 1)
        rank, driven = overlaps.shape[0], cross.shape[1] - overlaps.shape[0]
        explained = cross @ cross.mT  # of n by m and the inputs, which are independent and of variance 1
        if variance is None:
            variance = 1.01 * float(torch.linalg.eigvalsh(explained).amax()) + 0.01
        covariance = torch.eye(2 * rank + driven).to(overlaps)
        n = slice(rank, 2 * rank)
        covariance[n, n] = variance * torch.eye(rank).to(overlaps)
        others = [*range(rank), *range(2 * rank, 2 * rank + driven)]
        covariance[n, others] = cross
        covariance[others, n] = cross.mT
        widths = (rank, rank, driven, 0, 0)
        return cls(torch.ones(1).to(overlaps), torch.zeros(1, len(covariance)).to(overlaps), covariance[None], widths)

    @classmethod
    def with_random_overlaps(
        cls, populations: int, rank: int, inputs: int, seed: int, *, overlap: float = 0.0, input_scale: float = 1.0
    ) -> LoadingMixture:
        """Return equal populations of zero mean, in each of which n has other covariances with m and the inputs.

        In population p, `n = overlap m + C_p (m, I / input_scale) + N(0, 1)` with m ~ N(0, 1), I ~ N(0, input_scale^2)
        and entries of C_p ~ N(0, 1), less their mean over the populations: all units together have the covariances of a
        single population, so that only its parts differ.

        >>> mixture = LoadingMixture.with_random_overlaps(2, rank=1, inputs=1, seed=0, overlap=1.0)
        >>> overlaps = mixture.covariances[:, 1, 0]
        >>> bool((overlaps[0] - overlaps[1]).abs() > 0.1), round(overlaps.mean().item(), 6)
        (True, 1.0)

        """
        generator = torch.Generator().manual_seed(seed)
        scales = torch.tensor([1.0] * rank + [input_scale] * inputs)  # of m and I, the sources of n
        weights = torch.randn(populations, rank, rank + inputs, generator=generator)
        weights = weights - weights.mean(0) + overlap * torch.eye(rank, rank + inputs)
        others = [*range(rank), *range(2 * rank, 2 * rank + inputs)]
        n = slice(rank, 2 * rank)
        covariances = torch.zeros(populations, 2 * rank + inputs, 2 * rank + inputs)
        covariances[:, others, others] = scales.square()
        covariances[:, n, n] = weights @ weights.mT + torch.eye(rank)
        covariances[:, n, others] = weights * scales
        covariances[:, others, n] = (weights * scales).mT
        means, shares = torch.zeros(populations, 2 * rank + inputs), torch.full((populations,), 1 / populations)
        return cls(shares, means, covariances, (rank, rank, inputs, 0, 0))

    def sample(self, size: int, seed: int) -> Loadings:
        """Draw the loadings of `size` units; each belongs to a random population."""
        return self.sample_with_populations(size, seed)[0]

    def sample_with_populations(self, size: int, seed: int) -> tuple[Loadings, Int[Tensor, " size"]]:
        """Draw the loadings of `size` units, and return the population of each as well."""
        generator = torch.Generator().manual_seed(seed)
        population = torch.multinomial(self.weights.double().cpu(), size, replacement=True, generator=generator)
        standard = torch.randn(size, self.means.shape[1], generator=generator, dtype=torch.float64)
        values, vectors = torch.linalg.eigh(self.covariances.double())
        roots = (vectors * values.clamp_min(0).sqrt().unsqueeze(1)) @ vectors.mT  # symmetric, also where it is singular
        table = self.means.double()[population] + (roots[population] @ standard.unsqueeze(2)).squeeze(2)
        return Loadings.from_table(table.to(self.means), self.widths), population
