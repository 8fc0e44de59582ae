"""From a low-rank network to the cell of its latent variables, and from states to latent variables."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, LeakyRNN, Model, Network, as_cell
from mnemoscope.cells.leaky_units import check_leak
from mnemoscope.cells.nonlinearities import make_nonlinearity
from mnemoscope.connectivity import LoadingMixture, Loadings, LowRank
from mnemoscope.lenses.low_rank.latent_cell import LatentCell
from mnemoscope.lenses.low_rank.population_averages import PopulationAverages
from mnemoscope.lenses.low_rank.unit_averages import UnitAverages


def reduce_network(
    network: Network | Model, *, mixture: LoadingMixture | None = None, settled_inputs: bool = False
) -> LatentCell:
    """Return the latent variables of a low-rank network as a cell, for any lens.

    In the current form, states that start at 0 stay in the span of the columns of M, the input vectors and the bias:
    `x = M kappa + I v + b c`. The coordinates follow a closed map, which is exact for any loadings. In the rate form,
    `kappa = N^T r / N` follows such a map. A stable fixed point of the cell is one of the network, and the reverse.

    Args:
        network: a `LeakyRNN` with a `LowRank` matrix without random part, or a `Model` of one, whose encoded inputs the
            cell takes. In the current form, unless inputs are settled, the cell of a model outputs what the model does;
            otherwise it outputs kappa.
        mixture: distribution of the loadings. With it, averages over units become Gaussian integrals: the mean field,
            which a network with such loadings approaches as it grows (Dubreuil et al. 2022).
        settled_inputs: let inputs act at once, as they do after a long time: v = u. The state is kappa alone, and the
            fixed points are the same. In the rate form inputs always act at once.

    >>> import mnemoscope as ms
    >>> cell = ms.networks.low_rank(2, 300, rank=1)
    >>> ms.Dynamics(ms.reduce_network(cell)).size
    3

    """
    cell, readout = low_rank_cell(network)
    offset = None if readout is None else readout.bias
    filtered = cell.form == "current" and not settled_inputs
    with torch.no_grad():
        if mixture is None:
            return UnitAverages(cell.loadings(readout), cell.phi, cell.leak, filtered, offset)
        _check_widths(mixture, cell)
        return PopulationAverages(mixture, cell.phi, cell.leak, filtered, offset if mixture.widths[3] else None)


def mean_field(
    mixture: LoadingMixture, nonlinearity: str = "tanh", leak: float = 0.2, settled_inputs: bool = True
) -> LatentCell:
    """Return the mean field of a mixture of Gaussian populations: the limit of large networks in the current form.

    >>> import mnemoscope as ms
    >>> mixture = LoadingMixture.from_overlaps(torch.tensor([[1.5]]))
    >>> sorted(ms.find_fixed_points(ms.mean_field(mixture)).kind)
    ['stable', 'stable', 'unstable']
    """
    return PopulationAverages(mixture, make_nonlinearity(nonlinearity, 1), check_leak(leak), not settled_inputs)


def low_rank_cell(network: Network | Model) -> tuple[LeakyRNN, nn.Linear | None]:
    """Return the low-rank cell and the linear readout of a network; raise if it has no exact reduction."""
    readout = network.linear_readout if isinstance(network, Model) else None
    cell = network.cell if isinstance(network, Model) else as_cell(network)
    if not isinstance(cell, LeakyRNN) or not isinstance(cell.connectivity, LowRank):
        raise ValueError(
            f"A LeakyRNN with a LowRank matrix can be reduced, but this is {_described(cell)}. Build one by "
            f"ms.networks.low_rank; LowRank.from_matrix(W, rank) approximates any matrix W."
        )
    if cell.connectivity.random is not None:
        raise ValueError(
            "The matrix has a random part of full rank, so that no few variables describe the network. Reduce one with "
            "gain=0."
        )
    return cell, readout


class Projection:
    """The linear map from states of a low-rank network to kappa, and a way back."""

    def __init__(self, cell: LeakyRNN) -> None:
        loadings = cell.loadings()
        if cell.form == "current":
            self.span = torch.cat([loadings.left, loadings.inputs, loadings.bias], 1)
            """Columns that span the states (size, span)."""
            self.to_latents = torch.linalg.pinv(self.span)[: loadings.left.shape[1]]
            """From states to kappa (rank, size)."""
        else:
            self.span = torch.linalg.pinv(loadings.right.mT / len(loadings.right))
            self.to_latents = loadings.right.mT / len(loadings.right)
        self.loadings, self.form = loadings, cell.form

    def __call__(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch rank"]:
        return states @ self.to_latents.mT

    def lift(self, latents: Float[Tensor, "batch rank"], drive: Float[Tensor, " size"]) -> Float[Tensor, "batch size"]:
        """Return states with these latent variables; in the current form under the settled drive `I u + b`."""
        return latents @ self.loadings.left.mT + drive if self.form == "current" else latents @ self.span.mT

    def outside(self, states: Float[Tensor, "*batch size"]) -> float:
        """Return the share of the sum of squares of states outside the span; 0 in the rate form, where any may be."""
        if self.form == "rate":
            return 0.0
        basis = torch.linalg.qr(self.span).Q
        rest = states - states @ basis @ basis.mT
        return float(rest.square().sum() / states.square().sum().clamp_min(1e-300))


def sample_mixture(loadings: Loadings) -> LoadingMixture:
    """Return one Gaussian population with the mean and the covariance of given loadings."""
    table = loadings.table()
    one = torch.ones(1).to(table)
    return LoadingMixture(one, table.mean(0)[None], torch.cov(table.mT, correction=0)[None], loadings.widths)


def _check_widths(mixture: LoadingMixture, cell: LeakyRNN) -> None:
    rank, _, inputs, _, biases = mixture.widths
    its_rank, _, its_inputs, _, its_biases = cell.loadings().widths
    if not inputs and not cell.drive.any():
        its_inputs = 0  # an input without effect
    if (rank, inputs, biases) != (its_rank, its_inputs, its_biases):
        raise ValueError(
            f"The mixture has rank {rank}, {inputs} inputs and {biases} biases, but the network rank {its_rank}, "
            f"{its_inputs} inputs and {its_biases} biases."
        )


def _described(cell: Cell) -> str:
    matrix = getattr(cell, "connectivity", None)
    return type(cell).__name__ if matrix is None else f"{type(cell).__name__} with {type(matrix).__name__}"
