"""Named networks of leaky units, as computational neuroscience uses them."""

from __future__ import annotations

from typing import Literal

import torch

from mnemoscope import connectivity
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.leaky_rnn import LeakyRNN


def low_rank(
    input_size: int,
    hidden_size: int,
    rank: int = 1,
    leak: float = 0.2,
    nonlinearity: str = "tanh",
    form: Literal["current", "rate"] = "current",
    gain: float = 0.0,
    bias: bool = False,
    overlap: float = 0.0,
    input_scale: float = 1.0,
    populations: int = 1,
) -> LeakyRNN:
    """Return a low-rank network: leaky units whose matrix is `M N^T / N` of rank R (Mastrogiuseppe & Ostojic 2018).

    M, N and the input vectors start ~ N(0, 1), independent of each other, as in the code of Dubreuil et al. 2022, and
    leak = dt / tau is 20 ms / 100 ms by default. `gain` adds a fixed random part of spectral radius about `gain`, and
    `overlap` the multiple `overlap M` to N: with 1, latent variables are kept from the start, and a task with a delay
    is learned in fewer steps. `input_scale` is the standard deviation of the entries of the input vectors instead of 1.
    With several `populations`, the vectors start as a mixture of Gaussian populations: n has other random covariances
    with m and the inputs in each of them (`LoadingMixture.with_random_overlaps`). `LeakyRNN.from_loadings` builds a
    network from any other mixture.

    >>> low_rank(2, 100, rank=2).connectivity
    LowRank(100, rank=2)
    """
    check_whole(1, populations=populations)
    if populations > hidden_size:
        raise ValueError(f"{hidden_size} units cannot have {populations} populations: pass fewer populations.")
    matrix = connectivity.LowRank(hidden_size, rank, gain, overlap)
    cell = LeakyRNN(input_size, hidden_size, nonlinearity, matrix, leak, form, bias, input_scale)
    if populations > 1:
        seeds = torch.randint(2**31, (2,)).tolist()
        mixture = connectivity.LoadingMixture.with_random_overlaps(
            populations, rank, input_size, seeds[0], overlap=overlap, input_scale=input_scale
        )
        loadings = mixture.sample(hidden_size, seeds[1])
        with torch.no_grad():
            matrix.left.copy_(loadings.left)
            matrix.right.copy_(loadings.right)
            cell.drive.copy_(loadings.inputs)
    return cell
