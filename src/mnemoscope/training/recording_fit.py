"""Fit a network to a recording: its readout reproduces the activity of units, with teacher forcing and no task."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import Bar
from mnemoscope.base.validation import check_whole, is_number
from mnemoscope.cells import LeakyRNN, Model, Network, as_cell
from mnemoscope.lenses.recording import Recording, check_finite
from mnemoscope.training.forced_run import ForcedRun, prediction_score
from mnemoscope.training.least_squares import ridge

SHARE = 0.2
"""Share of trials, and of units, that are held out."""


@dataclass(frozen=True)
class NetworkFit:
    """A network fitted to a recording, and how well it predicts trials and units that it was not fitted to.

    Scores are R^2 on the held-out trials, relative to the mean of each unit in the others.
    """

    model: Model
    """Its readout gives the activity of all units, in the unit of the recording."""
    losses: Float[Tensor, " updates"]
    """Mean squared error of each update, in units of each unit's variance."""
    one_step: float
    """Predictions of the next step, from a state that the data of all earlier steps correct."""
    free: float
    """Predictions after the warm-up without any further data."""
    persistence: float
    """The same steps, predicted by the last step of the warm-up: the score to exceed."""
    co_smoothing: float
    """Activity of held-out units, from a state that the other units alone correct."""
    linear_co_smoothing: float
    """The same units, by a linear regression on the others at the same step: the score to exceed."""
    warm_up: int
    """Steps of data before a free run."""
    held_out_trials: Int[Tensor, " trials"]
    held_out_units: Int[Tensor, " units"]

    def summary(self) -> str:
        """Return the scores in sentences, with those of the simple alternatives."""
        text = (
            f"On {len(self.held_out_trials)} held-out trials, R^2 is {self.one_step:.2f} one step ahead, and "
            f"{self.free:.2f} without data after {self.warm_up} steps ({self.persistence:.2f} if nothing changes). "
            f"{len(self.held_out_units)} held-out units are predicted with {self.co_smoothing:.2f} "
            f"({self.linear_co_smoothing:.2f} by linear regression)."
        )
        if self.free <= self.persistence:
            text += " Its free runs are no better than persistence: do not read its dynamics as those of the data."
        return text


def fit_network(
    recording: Recording,
    *,
    hidden_size: int = 8,
    cell: Network | None = None,
    updates: int = 400,
    learning_rate: float = 0.01,
    forcing: float = 0.2,
    warm_up: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> NetworkFit:
    """Train a network so that a linear readout of its state reproduces a recording.

    At every step the state is moved towards one that agrees with the data (generalised teacher forcing, Hess et al.
    2023), and the next step is predicted. A fifth of the trials is held out to score the predictions. In the scores of
    held-out units, a fifth of the units does not correct the state. Trials may differ in length, and units may be
    missing: what is NaN neither corrects the state nor counts in the loss.

    The fixed points of the network, `ms.find_fixed_points(fit.model.cell)`, describe the data as far as its
    free runs do. Fit with several seeds, and trust what they share.

    Args:
        recording: activity, such as smoothed rates. Its `inputs` drive the network; without them it runs freely.
        hidden_size: number of units of the fitted network.
        cell: the network to train, whose state is one tensor; a leaky rate network of tanh units by default.
        updates: number of updates by Adam, each on all trials.
        learning_rate: of Adam; it falls to zero along a cosine.
        forcing: how far the state moves towards the data at every step, from 0 to 1.
        warm_up: steps of data before a free run; by default a quarter of the longest trial.
        seed: seed of weights and of the trials and units held out.
        progress: whether to show a progress bar.

    """
    check_whole(1, hidden_size=hidden_size, updates=updates)
    if not is_number(forcing) or not 0 < forcing <= 1:
        raise ValueError(f"forcing must be above 0 and at most 1, but is {forcing!r}.")
    time, trials, units = check_finite(recording).activity.shape
    if trials < 2 or units < 2 or time < 3:
        raise ValueError(
            f"A fit needs 2 trials, 2 units and 3 steps at least, but the recording has {trials} trials, {units} units "
            f"and {time} steps."
        )
    warm_up = max(1, time // 4) if warm_up is None else warm_up
    if not 1 <= warm_up < time:
        raise ValueError(f"warm_up must be between 1 and {time - 1} steps, but is {warm_up}.")
    generator = torch.Generator().manual_seed(seed)
    tested = torch.randperm(trials, generator=generator)[: max(1, round(SHARE * trials))].sort()[0]
    hidden = torch.randperm(units, generator=generator)[: max(1, round(SHARE * units))].sort()[0]
    fitted = torch.ones(trials, dtype=torch.bool).index_fill(0, tested, False)
    activity, centre, scale = _standardised(recording.activity, fitted)
    inputs = torch.zeros(time, trials, 1) if recording.inputs is None else recording.inputs.nan_to_num()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cell = LeakyRNN(inputs.shape[2], hidden_size, form="rate") if cell is None else as_cell(cell)
        model = Model(cell, units).double()
    run = ForcedRun(model, forcing)
    losses = _train(run, activity[:, fitted], inputs[:, fitted].double(), updates, learning_rate, progress)
    with torch.no_grad():
        scores = _scores(run, activity, inputs.double(), fitted, hidden, warm_up)
        model.linear_readout.bias.copy_(centre + scale * model.linear_readout.bias)
        model.linear_readout.weight.mul_(scale.unsqueeze(1))
    return NetworkFit(model, losses, *scores, warm_up, tested, hidden)


def _standardised(activity: Tensor, fitted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return activity with mean 0 and variance 1 of each unit in the fitted trials; units that never vary stay 0."""
    rows = activity[:, fitted].flatten(0, 1)
    centre = rows.nanmean(0)
    scale = (rows - centre).square().nanmean(0).sqrt()
    if bool(centre.isnan().any()):
        raise ValueError(
            f"Unit {int(centre.isnan().nonzero()[0])} is missing in all trials that are fitted: leave it out with "
            f"recording.select(...)."
        )
    scale = torch.where(scale > 0, scale, 1.0)
    return (activity - centre) / scale, centre, scale


def _train(
    run: ForcedRun, activity: Tensor, inputs: Tensor, updates: int, learning_rate: float, progress: bool
) -> Float[Tensor, " updates"]:
    parameters = list(run.model.parameters())
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    known = ~activity[1:].isnan()
    losses = []
    with Bar(range(updates), desc="fit", unit="update", disable=not progress) as bar:
        for _ in bar:
            predicted = run.predict(activity, inputs)
            loss = torch.where(known, predicted - activity[1:].nan_to_num(), 0.0).square().sum() / known.sum()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
            bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
    return torch.tensor(losses, dtype=torch.float64)


def _scores(
    run: ForcedRun,
    activity: Float[Tensor, "time trials units"],
    inputs: Tensor,
    fitted: Bool[Tensor, " trials"],
    hidden: Int[Tensor, " chosen"],
    warm_up: int,
) -> tuple[float, float, float, float, float]:
    """Return the five scores on held-out trials, in the order of `NetworkFit`."""
    tests, given = activity[:, ~fitted], inputs[:, ~fitted]
    one_step = prediction_score(run.predict(tests, given), tests[1:])
    free = run.predict(tests, given, warm_up=warm_up)
    last = tests[warm_up - 1].expand(len(tests) - warm_up, -1, -1)
    visible = tests.index_fill(2, hidden, torch.nan)
    filtered = run.filter(visible, given)[..., hidden]
    others = torch.ones(activity.shape[2], dtype=torch.bool).index_fill(0, hidden, False)
    rows = activity[:, fitted].flatten(0, 1)
    complete = ~rows.isnan().any(1)
    if bool(complete.any()):
        weights = ridge(rows[complete][:, others], rows[complete][:, hidden], 1.0)
        linear = prediction_score(tests[..., others] @ weights.mT, tests[..., hidden])
    else:
        linear = float("nan")
    return (
        one_step,
        prediction_score(free[warm_up - 1 :], tests[warm_up:]),
        prediction_score(last, tests[warm_up:]),
        prediction_score(filtered, tests[..., hidden]),
        linear,
    )
