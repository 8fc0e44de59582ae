"""The lens on the rank of a trained matrix: which performance remains if few terms of rank one are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Cell, Model, Network
from mnemoscope.lenses.matrix_rank.result import RankScores
from mnemoscope.lenses.matrix_rank.truncation import (
    RankOneTerms,
    matrix_cell,
    visited_rates,
    with_factors,
    with_matrix,
)
from mnemoscope.lenses.trial_scores import Score, score_on_trials
from mnemoscope.lenses.whole_network import in_evaluation_mode


@show_slow("rank")
@in_evaluation_mode
def measure_rank(
    network: Network | Model,
    inputs: Tensor | None = None,
    targets: Tensor | None = None,
    *,
    score: Score | None = None,
    readout: Callable[[Tensor], Tensor] | None = None,
    mask: Tensor | None = None,
    ranks: Sequence[int] | None = None,
    initial: Float[Tensor, "size size"] | None = None,
    by: str = "weights",
    controls: int = 3,
    retrain: Callable[[Any], object] | None = None,
    seed: int = 0,
) -> RankScores:
    """Truncate the recurrent matrix of a trained network to each of some ranks, and score what remains.

    Without `retrain`, the truncated networks are not trained again: one that is may need a lower rank.

    Args:
        network: an `Elman` cell, a torch.nn.RNN or a `LeakyRNN`, or a `Model` of one.
        inputs: trials, in the layout of the network.
        targets: right answers for them, as in `record_behaviour`; or pass a `score`.
        score: a function from a network to a number, high or low for a good one.
        readout: from outputs to answers, if the network is no `Model`.
        mask: False at steps that do not count.
        ranks: ranks to measure; by default 0, 1, 2, 3, 4, 6, 8, 12, ... and the full rank.
        initial: the matrix before training. Then the change in training is truncated, and added to it
            (Schuessler et al. 2020).
        by: "weights" keeps the leading singular values. "inputs" keeps the principal directions of the recurrent input
            on these trials, which are fewer if the matrix has large singular values that no trial uses.
        controls: for each rank, the same number of terms is kept at random this many times.
        retrain: trains a truncated copy of the network in place, such as `lambda model: ms.fine_tune(model, task)`.
            Its matrix is a `LowRank` one of that rank, so that training cannot raise the rank; all other weights may
            change too. Each copy is scored before and after.
        seed: seed of the controls.

    >>> import mnemoscope as ms
    >>> _ = torch.manual_seed(0)
    >>> model = ms.Model(ms.networks.low_rank(2, 16, rank=2), 1)
    >>> xs = torch.randn(20, 8, 2)
    >>> result = measure_rank(model, xs, model(xs)[0].detach())
    >>> result.needed()
    2

    """
    if by not in ("weights", "inputs"):
        raise ValueError(f'by must be "weights" or "inputs", but is {by!r}.')
    measure, name = score_on_trials(inputs, targets, score, readout=readout, mask=mask)
    cell = matrix_cell(network)
    W = cell.connectivity().detach().double().cpu()
    size = len(W)
    base = torch.zeros_like(W) if initial is None else initial.detach().to(W)
    if base.shape != W.shape:
        raise ValueError(f"The initial matrix must have the shape {tuple(W.shape)}, but has {tuple(base.shape)}.")
    if by == "inputs":
        if inputs is None:
            raise ValueError('by="inputs" needs inputs, along which the recurrent input is recorded.')
        terms = RankOneTerms.of_inputs(W, base, visited_rates(network, inputs).double().cpu())
    else:
        terms = RankOneTerms.of_weights(W, base)
    chosen = default_ranks(size) if ranks is None else tuple(ranks)
    check_whole(0, controls=controls, **{f"ranks[{i}]": rank for i, rank in enumerate(chosen)})
    if not chosen or max(chosen) > size:
        raise ValueError(f"ranks must be numbers from 0 to {size}, the size of the matrix, but are {chosen}.")
    generator = seeded_generator(seed)
    leading = [measure(with_matrix(network, terms.keep(torch.arange(rank)))) for rank in chosen]
    random = [
        [measure(with_matrix(network, terms.keep(_draw(size, rank, generator)))) for _ in range(controls)]
        for rank in chosen
    ]
    again = (
        None if retrain is None else [_after(retrain, with_factors(network, terms, rank), measure) for rank in chosen]
    )
    return RankScores(
        ranks=chosen,
        scores=torch.tensor(leading, dtype=torch.float64),
        control_scores=torch.tensor(random, dtype=torch.float64).reshape(len(chosen), controls),
        without=measure(with_matrix(network, base)),
        full=measure(with_matrix(network, W)),
        sizes=terms.sizes,
        by=by,
        change=initial is not None,
        score_name=name,
        retrained=None if again is None else torch.tensor(again, dtype=torch.float64),
    )


def default_ranks(size: int) -> tuple[int, ...]:
    """Return 0, 1, 2, 3, 4, 6, 8, 12, 16, ... up to and with `size`.

    >>> default_ranks(10)
    (0, 1, 2, 3, 4, 6, 8, 10)
    """
    steps = (2**power * factor for power in range(1, size.bit_length() + 1) for factor in (1, 1.5))
    return tuple(sorted({0, 1, size, *(int(step) for step in steps if step < size)}))


def _after(retrain: Callable[[Any], object], truncated: Model | Cell, measure: Score) -> float:
    """Return the score of a truncated network after training."""
    with torch.enable_grad():
        retrain(truncated)
    return measure(truncated)


def _draw(size: int, rank: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(size, generator=generator)[:rank]
