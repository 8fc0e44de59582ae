"""How much of each unit's variance a condition explains in each epoch, beyond the other conditions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Network
from mnemoscope.lenses.recording import Recording, as_recording, chosen_conditions
from mnemoscope.lenses.selective_units.analysis_of_variance import dummy_columns, false_discovery, unique_variance
from mnemoscope.lenses.selective_units.result import RATE, Selectivity


@show_slow("selectivity")
def measure_selectivity(
    population: Recording | Network,
    inputs: Tensor | PackedSequence | None = None,
    table: TrialTable | None = None,
    *,
    conditions: Sequence[str] | None = None,
    epochs: Sequence[str] | None = None,
    shuffles: int = 500,
    seed: int = 0,
) -> Selectivity:
    """Test for each unit and epoch whether its mean activity depends on a condition, beyond the other conditions.

    Effects are additive: an analysis of variance without interactions. Its probabilities come from permutations of
    trials, and units count as selective at a false discovery rate of 5%.

    Args:
        population: a recording, or a network with `inputs` and the `table` of their conditions.
        inputs: trials of a network.
        table: conditions of these trials.
        conditions: names of the conditions; all by default. Every value is a separate group, also of quantities.
        epochs: names of the epochs; all by default, and the whole trial if there are none.
        shuffles: number of permutations; the smallest probability is 1 / (shuffles + 1).
        seed: seed of the permutations.

    """
    check_whole(1, shuffles=shuffles)
    recording = as_recording(population, inputs, table)
    chosen = chosen_conditions(recording, conditions if conditions is None else tuple(conditions))
    names = tuple(epoch.name for epoch in recording.table.epochs) if epochs is None else tuple(epochs)
    generator = seeded_generator(seed)
    levels = {}
    for name in chosen:
        values = recording.table[name].values.double()
        if bool(values.isnan().any()):
            raise ValueError(
                f"Condition {name!r} has no value in {pluralise(int(values.isnan().sum()), 'trial')}; leave these out "
                f"with recording.part(...), or name other conditions."
            )
        levels[name] = torch.unique(values, return_inverse=True)[1]
    shares, probabilities = [], []
    for epoch in names or (None,):
        part = recording if epoch is None else recording.in_epoch(epoch)
        found = [_by_session(part.activity.nanmean(0), name, levels, shuffles, generator) for name in chosen]
        shares.append(torch.stack([share for share, _ in found]))
        probabilities.append(torch.stack([probability for _, probability in found]))
    share, probability = torch.stack(shares, 1), torch.stack(probabilities, 1)  # (conditions, epochs, units)
    return Selectivity(
        conditions=chosen,
        epochs=names or ("trial",),
        share=share,
        probabilities=probability,
        selective=false_discovery(probability, RATE),
        trials=recording.trials,
        shuffles=shuffles,
    )


def _by_session(
    values: Float[Tensor, "trials units"],
    name: str,
    levels: dict[str, Tensor],
    shuffles: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return share and probability of each unit, from the trials in which it was recorded."""
    share = torch.full((values.shape[1],), torch.nan, dtype=torch.float64)
    probability = share.clone()
    patterns, member = torch.unique(~values.isnan(), dim=1, return_inverse=True)
    for place, known in enumerate(patterns.T):
        units = member == place
        if int(known.sum()) < 3:
            continue
        tested = dummy_columns(levels[name][known])
        others = [dummy_columns(each[known]) for other, each in levels.items() if other != name]
        rest = torch.cat(others, 1) if others else torch.zeros(len(tested), 0, dtype=torch.float64)
        share[units], probability[units] = unique_variance(values[known][:, units], tested, rest, shuffles, generator)
    return share, probability
