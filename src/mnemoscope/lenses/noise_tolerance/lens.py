"""The lens on noise in the state: which share of its answers a network keeps at each level of noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Num
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import is_number
from mnemoscope.cells import Cell, Model, Network, check_finite_inputs, read_equal_inputs
from mnemoscope.lenses.behaviour.scores import check_targets, kind_of, score_answers, scored_steps, uninformed_score
from mnemoscope.lenses.bootstrap import ratio_interval, widen_certain
from mnemoscope.lenses.noise_tolerance.noisy_steps import run_with_noise, state_deviations
from mnemoscope.lenses.noise_tolerance.result import NoiseTolerance
from mnemoscope.lenses.whole_network import in_evaluation_mode, parts_of
from mnemoscope.memory.attention import Attentive
from mnemoscope.memory.tape import TuringMachine

LEVELS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Levels of noise by default."""
TrialScores = Callable[[Tensor], Tensor]
"""From outputs (time, batch, features), after the readout, to the share of right answers of each trial."""


@show_slow("noise tolerance")
@in_evaluation_mode
def measure_noise_tolerance(
    network: Network | Model,
    inputs: Num[Tensor, "time batch ..."],
    targets: Tensor | None = None,
    *,
    score: TrialScores | None = None,
    weights: Float[Tensor, " trials"] | None = None,
    uninformed: float | None = None,
    readout: Callable[[Tensor], Tensor] | None = None,
    mask: Tensor | None = None,
    levels: float | Sequence[float] = LEVELS,
    seed: int = 0,
) -> NoiseTolerance:
    """Add noise to the state at every step, and score the answers at each level of noise.

    A level is relative: at 0.1, every number of a tensor of the state receives independent Gaussian noise after each
    step, whose standard deviation is a tenth of the root mean square of that tensor on the same trials without noise.
    All levels have the same draws, scaled, and a level of 0 is the network itself. The logarithm of a scale, as in
    mLSTM, has no noise: it describes how the state is stored.

    Args:
        network: a `Model`, a cell, or a torch.nn module that `adapt` takes, whose state has a constant size. Networks
            that attend to their past and Turing machines are refused: their states hold addresses besides activity.
        inputs: trials, in the layout of the network, as targets and mask.
        targets: right answers, as in `record_behaviour`; or pass a `score`.
        score: a function from the outputs, time first, to the share of right answers of each trial.
        weights: how much each trial counts in the mean of the score, such as its number of answers; equal by default.
        uninformed: the score that a constant answer reaches; with targets it is computed.
        readout: from the outputs of a cell to answers; a `Model` has its own.
        mask: False at steps that do not count; with targets alone.
        levels: one or several levels of noise, relative to the state.
        seed: seed of the noise.

    >>> import mnemoscope as ms
    >>> _ = torch.manual_seed(0)
    >>> model, xs = ms.Model(ms.cells.GRU(2, 8), 1), torch.randn(20, 8, 2)
    >>> found = measure_noise_tolerance(model, xs, model(xs)[0].detach(), levels=(0, 0.1))
    >>> found.scores[0].item() < 1e-12 < found.scores[1].item()  # mean square errors
    True

    """
    cell, encode, read = parts_of(network, readout)
    levels = (levels,) if isinstance(levels, int | float) else levels
    _check(cell, targets, score, levels)
    xs = read_equal_inputs(inputs, batch_first=cell.batch_first)
    check_finite_inputs(xs)
    if cell.batch_first:
        targets, mask = (None if part is None else part.transpose(0, 1) for part in (targets, mask))
    with torch.no_grad():
        encoded = encode(xs)
    cell = cell.time_first()
    quiet, deviations = state_deviations(cell, encoded)
    kind = "share of right answers"
    if targets is not None:
        check_targets(targets, mask)
        score, weights, uninformed, kind = _score_on_targets(read, quiet, targets.to(quiet.device), mask)
    assert score is not None  # one of the two was given
    outputs = torch.cat([quiet[None], run_with_noise(cell, encoded, deviations, levels, seed)])
    trials, finite = _score_levels(outputs, read, score)
    counts = torch.ones(trials.shape[1]) if weights is None else weights
    mean, low, high = _means(trials, finite, counts.double().cpu(), shares=kind != "mean square error")
    return NoiseTolerance(
        levels=torch.tensor(levels, dtype=torch.float64),
        scores=mean[1:],
        low=low[1:],
        high=high[1:],
        quiet=float(mean[0]),
        trials=trials.shape[1],
        diverged=1 - finite[1:].double().mean(1),
        score_name=kind,
        uninformed=uninformed,
    )


def _check(cell: Cell, targets: Tensor | None, score: TrialScores | None, levels: Sequence[float]) -> None:
    if (score is None) == (targets is None):
        raise ValueError("Pass either targets for the inputs, or a score: a function from the outputs to numbers.")
    if not levels or not all(is_number(level) and 0 <= level < float("inf") for level in levels):
        raise ValueError(f"levels must be numbers from 0 on, at least one, but are {levels!r}.")
    if cell.grows:
        raise TypeError(
            f"The state of {type(cell).__name__} grows with every step: noise in every number of it would corrupt old "
            f"entries more often than new ones, so that one level of noise has no meaning."
        )
    if isinstance(cell, Attentive | TuringMachine):
        raise TypeError(
            f"The state of {type(cell).__name__} holds addresses or relevance scores besides activity, to which noise "
            f"relative to its size does not apply."
        )


def _score_on_targets(
    read: Callable[[Tensor], Tensor], quiet: Tensor, targets: Tensor, mask: Tensor | None
) -> tuple[TrialScores, Tensor, float, str]:
    """Return the score of each trial at the steps that count, their number, that of a constant answer, and its name."""
    with torch.no_grad():
        kind = kind_of(targets, read(quiet))
    counts = scored_steps(targets, mask)

    def by_trial(outputs: Tensor) -> Tensor:
        return score_answers(kind, outputs, targets, counts).sum(0) / counts.sum(0)  # NaN without a step that counts

    name = "mean square error" if kind == "values" else "accuracy"
    return by_trial, counts.sum(0), uninformed_score(kind, targets, counts), name


@torch.no_grad()
def _score_levels(
    outputs: Float[Tensor, "levels time trials features"], read: Callable[[Tensor], Tensor], score: TrialScores
) -> tuple[Float[Tensor, "levels trials"], Bool[Tensor, "levels trials"]]:
    """Return the score of each trial, and whether its outputs are finite; one level at a time is read out."""
    scores, finite = [], []
    for level in outputs:
        made = read(level)
        scores.append(score(made).double().cpu())
        finite.append(made.isfinite().all(2).all(0).cpu())
    return torch.stack(scores), torch.stack(finite)


def _means(
    trials: Float[Tensor, "levels trials"],
    finite: Bool[Tensor, "levels trials"],
    weights: Float[Tensor, " trials"],
    *,
    shares: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weighted mean of each level with its interval over trials; NaN for a level at which a trial diverged.

    A trial without an answer, whose score is NaN, does not count.
    """
    known = trials.isfinite() & (weights > 0)
    parts, counted = torch.where(known, trials * weights, 0.0), torch.where(known, weights, 0.0)
    mean = parts.sum(1) / counted.sum(1)
    low, high = ratio_interval(parts.T, counted.T)
    if shares:
        low, high = widen_certain((low, high), mean, known.sum(1))
    whole = finite.all(1)
    mean, low, high = (torch.where(whole, part, torch.nan) for part in (mean, low, high))
    return mean, low, high
