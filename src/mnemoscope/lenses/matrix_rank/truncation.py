"""Terms of rank one that add up to a recurrent matrix, and networks that keep only some of them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int, Num
from mnemoscope.cells import Cell, Elman, LeakyRNN, Model, Network, as_cell, run_with_cache
from mnemoscope.connectivity import Dense, LowRank


@dataclass(frozen=True)
class RankOneTerms:
    """A matrix as `base + columns rows`, a sum of terms of rank one, the most important first."""

    base: Float[Tensor, "size size"]
    columns: Float[Tensor, "size terms"]
    rows: Float[Tensor, "terms size"]
    sizes: Float[Tensor, " terms"]
    """Share of each term: of the squared matrix, or of the squared recurrent input along trajectories."""

    @classmethod
    def of_weights(cls, W: Float[Tensor, "size size"], base: Float[Tensor, "size size"]) -> RankOneTerms:
        """Return the singular value decomposition of `W - base`: its leading terms are the nearest matrix."""
        U, s, Vh = torch.linalg.svd(W - base)
        return cls(base, U, s[:, None] * Vh, s.square() / s.square().sum().clamp_min(1e-300))

    @classmethod
    def of_inputs(
        cls, W: Float[Tensor, "size size"], base: Float[Tensor, "size size"], rates: Float[Tensor, "steps size"]
    ) -> RankOneTerms:
        """Return the terms that keep most of the recurrent input `(W - base) r` along trajectories of rates r.

        They project it on its principal directions. No other matrix of that rank has a smaller squared error on it
        (reduced-rank regression).
        """
        change = W - base
        received = rates @ change.mT
        values, vectors = torch.linalg.eigh(received.mT @ received)
        order = values.argsort(descending=True)
        columns, sizes = vectors[:, order], values[order].clamp_min(0)
        return cls(base, columns, columns.mT @ change, sizes / sizes.sum().clamp_min(1e-300))

    def keep(self, terms: Int[Tensor, " kept"]) -> Float[Tensor, "size size"]:
        """Return the matrix that has only these terms."""
        return self.base + self.columns[:, terms] @ self.rows[terms]

    def factors(self, rank: int) -> tuple[Float[Tensor, "size rank"], Float[Tensor, "size rank"]]:
        """Return M and N with `M N^T / size` equal to the leading terms, each term divided evenly between them.

        Then one learning rate suits both.
        """
        columns, rows = self.columns[:, :rank], self.rows[:rank].mT
        wide, long = (part.norm(dim=0).clamp_min(1e-150) for part in (columns, rows))
        share = (long / wide).sqrt()
        root = len(columns) ** 0.5
        return columns * share * root, rows / share * root


def matrix_cell(network: Network | Model) -> Elman | LeakyRNN:
    """Return the cell of a network with one real recurrent matrix; raise if it has none."""
    cell = network.cell if isinstance(network, Model) else as_cell(network)
    if not isinstance(cell, Elman | LeakyRNN) or cell.initial_state(1).is_complex():
        raise ValueError(
            f"A rank can be measured for a network with one real recurrent matrix: an Elman cell, torch.nn.RNN or a "
            f"LeakyRNN, but this is {type(cell).__name__}."
        )
    return cell


def with_matrix(network: Network | Model, matrix: Float[Tensor, "size size"]) -> Model | Cell:
    """Return a copy of a network with another recurrent matrix."""
    copied = deepcopy(network if isinstance(network, Model) else as_cell(network))
    cell = matrix_cell(copied)
    like = next(cell.parameters())
    cell.connectivity = Dense.from_matrix(matrix.to(like).requires_grad_(False))
    return copied


def with_factors(network: Network | Model, terms: RankOneTerms, rank: int) -> Model | Cell:
    """Return a copy of a network with the leading terms as a `LowRank` matrix, whose rank training cannot raise.

    All its parameters can be trained. What is added to the terms is constant, and so is a matrix without terms.
    """
    copied = with_matrix(network, terms.base)
    for name, parameter in copied.named_parameters():
        parameter.requires_grad_(not name.endswith("connectivity.matrix"))
    if rank:
        cell = matrix_cell(copied)
        like = next(cell.parameters())
        base = terms.base.to(like) if bool(terms.base.any()) else None
        left, right = terms.factors(rank)
        cell.connectivity = LowRank.from_factors(left.to(like), right.to(like), base)
    return copied


def visited_rates(network: Network | Model, inputs: Num[Tensor, "time batch ..."]) -> Tensor:
    """Return the rates that the recurrent matrix acts on along trials, (steps, size)."""
    cell = matrix_cell(network)
    with torch.no_grad():
        xs = network.encode(inputs) if isinstance(network, Model) else inputs
        xs = xs.transpose(0, 1) if cell.batch_first else xs
        states = run_with_cache(cell.time_first(), xs)[1].flat()
        return (states if isinstance(cell, Elman) else cell.output(states)).flatten(0, 1)
