"""The lens on populations: score networks that are drawn from a Gaussian mixture of the loadings."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import LeakyRNN, Model
from mnemoscope.connectivity import Loadings
from mnemoscope.lenses.loading_populations.mixture_fit import fit_mixture
from mnemoscope.lenses.loading_populations.result import Resampling
from mnemoscope.lenses.low_rank.reduction import low_rank_cell
from mnemoscope.lenses.trial_scores import Score, score_on_trials


@show_slow("resampling")
def measure_resampling(
    model: Model,
    inputs: Tensor | None = None,
    targets: Tensor | None = None,
    *,
    score: Score | None = None,
    mask: Tensor | None = None,
    populations: Sequence[int] = (1, 2, 3),
    draws: int = 10,
    size: int | None = None,
    seed: int = 0,
) -> Resampling:
    """Fit Gaussian populations to the loadings of a low-rank network, and score networks drawn from them.

    If networks drawn from one population solve the task, the covariances of its vectors explain the computation; if
    only those from several do, the populations have a part in it (Dubreuil et al. 2022). There are two controls. Each
    vector is shuffled over the units, which keeps the values of each and destroys their covariances. And whole units
    are drawn from those of the model with replacement, which keeps their distribution: if the task is lost even then,
    the scatter of such a draw is enough to lose it.

    Args:
        model: a `LeakyRNN` with a `LowRank` matrix and a linear readout.
        inputs: trials (time, batch, features).
        targets: right answers for them, as in `record_behaviour`; or pass a `score`.
        score: a function from a model to a number, high or low for a good one.
        mask: False at steps that do not count.
        populations: numbers of populations to fit.
        draws: networks that are drawn from each mixture, and networks of each control.
        size: units of the drawn networks; by default as many as the model has.
        seed: seed of fits and draws.

    >>> import mnemoscope as ms
    >>> model = ms.Model(ms.networks.low_rank(1, 60), 1)
    >>> xs = torch.randn(10, 8, 1)
    >>> measure_resampling(model, xs, model(xs)[0].detach(), populations=[1], draws=2).scores.shape
    torch.Size([1, 2])

    """
    measure, name = score_on_trials(inputs, targets, score, mask=mask)
    check_whole(1, draws=draws, **{f"populations[{i}]": number for i, number in enumerate(populations)})
    cell, readout = low_rank_cell(model)
    if readout is None:
        raise ValueError("Pass a Model: its readout is drawn together with the other vectors.")
    loadings = cell.loadings(readout)
    size = cell.hidden_size if size is None else size
    check_whole(1, size=size)
    fits = [fit_mixture(loadings, number, seed) for number in populations]
    scores = [
        [measure(_rebuilt(model, mixture.sample(size, seed + draw))) for draw in range(draws)] for mixture, _ in fits
    ]
    generator = seeded_generator(seed)
    shuffled = [measure(_rebuilt(model, _shuffled(loadings, generator))) for _ in range(draws)]
    redrawn = [measure(_rebuilt(model, _redrawn(loadings, size, generator))) for _ in range(draws)]
    return Resampling(
        populations=tuple(populations),
        scores=torch.tensor(scores, dtype=torch.float64),
        shuffled=torch.tensor(shuffled, dtype=torch.float64),
        redrawn=torch.tensor(redrawn, dtype=torch.float64),
        trained=measure(model),
        likelihoods=torch.stack([likelihood for _, likelihood in fits]),
        columns=loadings.table().shape[1],
        units=cell.hidden_size,
        size=size,
        score_name=name,
    )


def _rebuilt(model: Model, loadings: Loadings) -> Model:
    """Return a copy of the model with other loadings, of any number of units."""
    cell, readout = low_rank_cell(model)
    assert readout is not None  # checked by the lens
    copied = deepcopy(model)
    copied.cell = LeakyRNN.from_loadings(loadings, cell.phi, cell.leak, cell.form)
    copied.readout = nn.Linear(len(loadings.left), readout.out_features, bias=readout.bias is not None)
    with torch.no_grad():
        copied.readout.weight.copy_(loadings.readouts.mT / len(loadings.readouts))
        if readout.bias is not None:
            copied.readout.bias.copy_(readout.bias)
    copied.readout.to(readout.weight)
    return copied


def _shuffled(loadings: Loadings, generator: torch.Generator) -> Loadings:
    """Return loadings in which the values of each column belong to other units."""
    table = loadings.table()
    columns = [column[torch.randperm(len(table), generator=generator)] for column in table.unbind(1)]
    return Loadings.from_table(torch.stack(columns, 1), loadings.widths)


def _redrawn(loadings: Loadings, size: int, generator: torch.Generator) -> Loadings:
    """Return the loadings of units that are drawn with replacement."""
    table = loadings.table()
    return Loadings.from_table(table[torch.randint(len(table), (size,), generator=generator)], loadings.widths)
