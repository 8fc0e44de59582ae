"""The interference lens: recall of one of many stored values, predicted from the weights of all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mnemoscope.base.array_types import Float, Inexact, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Model, Network, affine_layers
from mnemoscope.cells.convolution import ShortConvolution
from mnemoscope.lenses.interference.context import turned_answers
from mnemoscope.lenses.interference.exchange import Query, Recalling
from mnemoscope.lenses.interference.powers import query_powers
from mnemoscope.lenses.interference.ratio import accuracy_at
from mnemoscope.lenses.interference.result import RecallInterference
from mnemoscope.lenses.interference.trials import RecallTrials, checked_trials

NEARBY, FEWEST = 0.02, 8
"""Queries among which one is drawn, as a share of all, and their least number."""


@show_slow("interference")
@torch.no_grad()
def recall_interference(
    model: Model | Network,
    trials: Mapping[int, RecallTrials],
    *,
    draws: int = 8,
    reach: int | None = None,
    seed: int = 0,
) -> RecallInterference:
    """Predict how often a network recalls one of many values, from how strongly it still holds the others.

    Nothing is fitted. A layer that is affine in its memory reads a sum: every stored value times a weight that is known
    exactly. The lens splits what each query reads into the value asked for and the interference of all others. The
    predicted accuracy is the chance that the answer is right if the value asked for meets the interference of a query
    in another sequence, of similar power and of about as many terms, scaled to the power that the weights of this query
    give it. The network answers with its own norms, gates and readout.

    Two cruder predictions are returned as well. `gaussian` replaces the interference by a Gaussian of its covariance.
    `closed_form` knows, of each query, only the ratio of the powers of signal and interference.

    In a network of several layers, the interference in all of them is exchanged for that of the same other query: what
    one layer reads may cancel what another reads. Ratio and powers are those of the layer that recalls, the one whose
    answers suffer most if the value asked for is erased there.

    Args:
        model: a network with affine layers and a readout of classes.
        trials: sequences by the number of pairs that they store.
        draws: number of other queries whose interference each query meets.
        reach: number of steps, from that of the value on, that count as the value asked for in the ratio of powers; by
            default the steps that the short convolutions of the network span, 1 if it has none.
        seed: seed of the draws.

    >>> from mnemoscope.cells.affine import GLA
    >>> from mnemoscope.tasks import KeyValueRecall
    >>> task = KeyValueRecall(keys=8, values=4, most=8, queries=2).at(3)
    >>> batch = task.batch(32, seed=0, number=0)
    >>> model = Model(GLA(task.input_size, 8, key_size=8), task.output_size)
    >>> recall = recall_interference(model, {3: RecallTrials(batch.inputs, batch.targets, task.sources(batch))})
    >>> recall.pairs, recall.predicted.shape
    ((3,), torch.Size([1, 32]))

    """
    if not isinstance(model, Model):
        raise TypeError(
            f"Recall is read from the classes of a Model, which has a readout, but a {type(model).__name__} was given: "
            f"pass Model(cell, output_size) with the trained readout."
        )
    model = model.time_first()  # as the trials are
    check_whole(1, draws=draws)
    spanned = _spanned(model) if reach is None else reach
    check_whole(1, reach=spanned)
    given = checked_trials(trials)
    generator = seeded_generator(seed)
    layers = {pairs: affine_layers(model, each.inputs) for pairs, each in given.items()}
    recalling = {pairs: Recalling(model, each, layers[pairs]) for pairs, each in given.items()}
    found = [_recall(each, draws, generator) for each in recalling.values()]
    without = torch.stack([each.without for each in found])  # (numbers, layers, sequences)
    which = int(without.nanmean((0, 2)).argmin())
    power = [query_powers(layers[pairs][which], each, spanned) for pairs, each in given.items()]
    sequences = len(found[0].measured)
    closed = [accuracy_at(of.ratios(), float(of.moments.dimension()), found[0].classes) for of in power]
    return RecallInterference(
        pairs=tuple(given),
        measured=torch.stack([each.measured for each in found]),
        predicted=torch.stack([each.predicted for each in found]),
        gaussian=torch.stack([each.gaussian for each in found]),
        closed_form=torch.stack([_by_sequence(of, one) for of, one in zip(closed, given.values(), strict=True)]),
        ratios=_queries_of_sequences([of.ratios() for of in power], [of.sequence for of in power], sequences),
        sign_powers=torch.stack([of.sign_powers(sequences) for of in power]),
        signal_powers=power[-1].by_step(True, sequences),
        interference_powers=power[-1].by_step(False, sequences),
        layers=tuple(layer.name for layer in layers[max(given)]),
        without=without,
        turned=turned_answers(recalling[min(given)]),
        value_powers=power[-1].moments.powers,
        value_overlaps=power[-1].moments.overlaps,
        value_size=power[-1].moments.size,
        classes=found[0].classes,
    )


class _Recall(NamedTuple):
    """Recall at one number of pairs."""

    classes: int
    without: Float[Tensor, "layers batch"]
    measured: Float[Tensor, " batch"]
    predicted: Float[Tensor, " batch"]
    gaussian: Float[Tensor, " batch"]


def _recall(recalling: Recalling, draws: int, generator: torch.Generator) -> _Recall:
    """Measure the accuracy, and that with the interference of other queries, and with a Gaussian one."""
    trials = recalling.trials
    outputs, _ = recalling.model(trials.inputs)
    _check_classes(trials, outputs.shape[-1])
    queries = [*recalling.queries()]
    without = torch.stack([_without(recalling, queries, which) for which in range(len(recalling.layers))])
    pools = [_pool(queries, which) for which in range(len(recalling.layers))]  # (queries, heads, values) of each layer
    roots = [_covariance_root(pool) for pool in pools]
    recalls = int(without.nanmean(1).argmin())
    powers = torch.cat([query.reads[recalls].power[query.asked].sum((1, 2)) for query in queries]).cpu()
    crowd = torch.cat([query.reads[recalls].participation[query.asked] for query in queries]).cpu()
    places = torch.stack([_ranks(powers), _ranks(crowd)], 1)
    sequence = trials.asked.cpu().nonzero()[:, 1]
    answers, first = [], 0
    for query in queries:
        rows = query.asked.nonzero().flatten()
        mine = torch.arange(first, first + len(rows))
        first += len(rows)
        now = []
        for _ in range(draws):
            similar = _similar_queries(mine, places, sequence, generator)
            drawn = [pool[similar.to(pool.device)] for pool in pools]
            normal = [_gaussian(root, len(rows), generator) for root in roots]
            for directions in (drawn, normal):
                changes = {which: _change(query, which, rows, new) for which, new in enumerate(directions)}
                now.append(recalling.right(query, changes)[rows.cpu()])
        answers.append(torch.stack([torch.stack(now[kind::2]).mean(0) for kind in (0, 1)]))
    measured = (outputs.argmax(-1) == trials.targets)[trials.asked].double().cpu()
    accuracies = (_by_sequence(right, trials) for right in (measured, *torch.cat(answers, 1)))
    return _Recall(outputs.shape[-1], without, *accuracies)


def _check_classes(trials: RecallTrials, classes: int) -> None:
    """Raise if an answer that is due is no class of the network."""
    due = trials.targets[trials.asked]
    if due.min() < 0 or due.max() >= classes:
        raise ValueError(
            f"The network has {classes} classes, numbered from 0, but targets from {int(due.min())} to "
            f"{int(due.max())} are due: pass a Model whose readout has a class for each value."
        )


def _change(query: Query, which: int, rows: Tensor, directions: Inexact[Tensor, "asked heads values"]) -> Tensor:
    """Return by how much a read changes if the interference has other directions, and the power of this query."""
    read = query.reads[which]
    change = torch.zeros_like(read.others)
    change[rows] = read.power.sqrt()[rows] * directions - read.others[rows]
    return change


def _pool(queries: Sequence[Query], which: int) -> Inexact[Tensor, "queries heads values"]:
    """Return the directions of the interference that all queries meet in one layer."""
    return torch.cat([query.reads[which].direction()[query.asked] for query in queries])


def _without(recalling: Recalling, queries: Sequence[Query], which: int) -> Float[Tensor, " sequences"]:
    """Return the accuracy in each sequence if the value asked for is erased in one layer alone."""
    right = [recalling.right(query, {which: -query.reads[which].signal}) for query in queries]
    return torch.stack(right).nanmean(0)


def _gaussian(
    root: Inexact[Tensor, "heads values values"], number: int, generator: torch.Generator
) -> Inexact[Tensor, "number heads values"]:
    """Draw from a Gaussian whose covariance has this root."""
    noise = torch.randn(number, *root.shape[:2], generator=generator).to(root)
    return torch.einsum("hef,bhf->bhe", root, noise)


def _covariance_root(directions: Inexact[Tensor, "queries heads values"]) -> Inexact[Tensor, "heads values values"]:
    """Return the root R of the second moments of each head: `R R^T` is the mean of `direction direction^T`."""
    moments = torch.einsum("qhe,qhf->hef", directions, directions.conj()) / len(directions)
    strengths, vectors = torch.linalg.eigh(moments)
    return vectors * strengths.clamp_min(0).sqrt().unsqueeze(-2)


def _by_sequence(right: Float[Tensor, " queries"], trials: RecallTrials) -> Float[Tensor, " batch"]:
    """Return the mean over the queries of each sequence."""
    sequence = trials.asked.cpu().nonzero()[:, 1]
    total = torch.zeros(trials.asked.shape[1], dtype=torch.float64).index_add_(0, sequence, right)
    return total / trials.asked.sum(0).cpu()


def _queries_of_sequences(
    values: Sequence[Float[Tensor, " queries"]], sequence: Sequence[Int[Tensor, " queries"]], batch: int
) -> Float[Tensor, "numbers batch most"]:
    """Return the values of the queries of each sequence, for each number of pairs; NaN where it has fewer."""
    rows = [value[of == which] for value, of in zip(values, sequence, strict=True) for which in range(batch)]
    return pad_sequence(rows, batch_first=True, padding_value=torch.nan).unflatten(0, (len(values), batch))


def _similar_queries(
    mine: Int[Tensor, " asked"],
    places: Float[Tensor, "queries 2"],
    sequence: Int[Tensor, " queries"],
    generator: torch.Generator,
) -> Int[Tensor, " asked"]:
    """Draw, for each of some queries, one of those nearest to it among the queries of other sequences.

    Places are the ranks of the power of the interference and of the effective number of its terms. Strong interference
    differs from weak in more than its size, as it comes from values that are written strongly. A sum of many values is
    nearly Gaussian, and one of a few is not: it often is another stored value.
    """
    same = sequence[mine].unsqueeze(1) == sequence
    number = max(FEWEST, round(NEARBY * len(places)))
    nearest = torch.cdist(places[mine], places).masked_fill(same, torch.inf).argsort(1)
    among = (~same).sum(1).clamp_max(number)
    which = (torch.rand(len(mine), generator=generator) * among).long()
    return nearest.gather(1, which.unsqueeze(1)).squeeze(1)


def _ranks(values: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
    return values.argsort().argsort().double()


def _spanned(model: Model) -> int:
    """Return the number of steps over which the short convolutions of all layers spread an input."""
    widths = [module.weight.shape[-1] for module in model.modules() if isinstance(module, ShortConvolution)]
    return 1 + sum(width - 1 for width in widths)
