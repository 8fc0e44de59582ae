"""Tensor components of single trials, with their similarity over restarts and their error on entries left out."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Bool
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Network
from mnemoscope.lenses.recording import Recording, as_recording
from mnemoscope.lenses.trial_tensor.decomposition import decompose, reconstruct, similarity
from mnemoscope.lenses.trial_tensor.result import TensorComponents

LEFT_OUT = 0.1
"""Share of the pairs of a trial and a unit that are left out of a further fit."""


@show_slow("tensor components")
def tensor_components(
    population: Recording | Network,
    inputs: Tensor | PackedSequence | None = None,
    table: TrialTable | None = None,
    *,
    rank: int = 3,
    restarts: int = 5,
    iterations: int = 500,
    seed: int = 0,
) -> TensorComponents:
    """Describe single trials by a few components, each a course of time, a weight of each unit and one of each trial.

    Components are unique under mild conditions, unlike principal components. Whether they are in your data shows in
    the similarity of fits from several random starts, and whether the rank is too large in the error on entries left
    out. These are whole courses, a unit in a trial: steps left out alone could be read off their neighbours.

    Args:
        population: a recording, or a network with `inputs` and `table`. NaN is left out of the fit.
        inputs: trials of a network.
        table: conditions of these trials.
        rank: number of components.
        restarts: number of random starts.
        iterations: most updates of all factors in one fit.
        seed: seed of the starts.

    """
    check_whole(1, rank=rank, iterations=iterations)
    check_whole(2, restarts=restarts)
    recording = as_recording(population, inputs, table)
    data = recording.activity.transpose(0, 1)
    known = ~data.isnan()
    data = data.nan_to_num()
    if not bool((data != 0).any()):
        raise ValueError("The activity is 0 everywhere: it has no components.")
    generator = seeded_generator(seed)
    fits = [decompose(data, known, rank, generator, iterations=iterations) for _ in range(restarts)]
    fits.sort(key=lambda fit: fit.error)
    best, *others = fits
    left_out = _left_out(known, generator)
    trained = decompose(data, known & ~left_out, rank, generator, iterations=iterations)
    tested = left_out & known
    rest = torch.where(tested, data - reconstruct(trained.factors, trained.lengths), 0.0)
    trials, time, units = best.factors
    return TensorComponents(
        trial_factors=trials,
        time_factors=time,
        unit_factors=units,
        lengths=best.lengths,
        errors=torch.tensor([fit.error for fit in fits], dtype=torch.float64),
        similarities=torch.tensor([similarity(best, fit) for fit in others], dtype=torch.float64),
        left_out_error=float((rest**2).sum() / (torch.where(tested, data, 0.0) ** 2).sum()),
        converged=sum(fit.converged for fit in fits),
        table=recording.table,
    )


def _left_out(known: Bool[Tensor, "trials time units"], generator: torch.Generator) -> Bool[Tensor, "trials 1 units"]:
    """Choose pairs of a trial and a unit to leave out, such that every trial and every unit keeps some."""
    pairs = known.any(1)
    drawn = torch.rand(pairs.shape, dtype=torch.float64, generator=generator).masked_fill(~pairs, 2.0)
    chosen = drawn < LEFT_OUT
    for mode in (0, 1):
        kept = (pairs & ~chosen).any(mode, keepdim=True)
        chosen = chosen & kept
    if not bool(chosen.any()):
        chosen = chosen.flatten().index_fill(0, drawn.flatten().argmin(), True).view(pairs.shape)
    return chosen.unsqueeze(1)
