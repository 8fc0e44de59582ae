"""Fit a network to a recording, without a task: its readout or its units reproduce the activity of units."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.progress import Bar
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole, is_number
from mnemoscope.cells import LeakyRNN, Model, Network, as_cell
from mnemoscope.connectivity import attach_matrices
from mnemoscope.lenses.recording import Recording, check_finite
from mnemoscope.training.force_fit import fit_by_force
from mnemoscope.training.forced_run import ForcedRun
from mnemoscope.training.network_fit import NetworkFit, held_out_scores
from mnemoscope.training.unit_run import UnitRun

SHARE = 0.2
"""Share of trials, and of units, that are held out."""
LATENT_SIZE = 8
"""Units of a network that a readout connects with the recorded units."""
UPDATES = {"gradient": 400, "force": 20}
"""Updates by Adam, or passes over all trials."""
LEARNING_RATE = 0.01
"""Learning rate of Adam."""


def fit_network(
    recording: Recording,
    *,
    units: str = "latent",
    method: str = "gradient",
    hidden_size: int | None = None,
    cell: Network | None = None,
    updates: int | None = None,
    learning_rate: float | None = None,
    alpha: float | None = None,
    forcing: float = 0.2,
    warm_up: int | None = None,
    test: Recording | None = None,
    seed: int = 0,
    progress: bool = True,
) -> NetworkFit:
    """Train a network so that it reproduces a recording.

    At every step the state is moved towards one that agrees with the data (generalised teacher forcing, Hess et al.
    2023), and the next step is predicted. A fifth of the trials is held out to score the predictions, or pass trials
    as `test`, such as those of `recording.folds(5)`. In the scores of held-out units, a fifth of the units does not
    correct the state. Trials may differ in length, and units may be missing: what is NaN neither corrects the state
    nor counts in the loss.

    The fixed points of the network, `ms.find_fixed_points(fit.model.cell)`, describe the data as far as its
    free runs do, and only where the data have been. Fit with several seeds, and trust what they share.

    Args:
        recording: activity, such as smoothed rates. Its `inputs` drive the network; without them it runs freely.
        units: "latent" for a state of few units with a linear readout of all recorded ones; "recorded" for a network
            whose first units are the recorded ones, in their order, with currents `x` and rates `tanh(x)` (as Perich
            et al. 2021). Its matrix `fit.model.cell.combined()` has a weight for each pair of them.
        method: "gradient" for Adam on all weights; "force" for recursive least squares while the network runs
            (Sussillo & Abbott 2009), which is faster and needs `units="recorded"`. Hidden units keep random weights.
        hidden_size: number of units of a latent network, 8 by default; of hidden units in addition to recorded ones,
            which stand for neurons that were not recorded, 0 by default.
        cell: the network of which a copy is trained, in float64. A latent one has a state of one tensor; by default a
            leaky rate network of tanh units. For recorded units a `LeakyRNN` in the current form.
        updates: number of updates by Adam, each on all trials, 400 by default; of passes over all trials of "force", 20
            by default.
        learning_rate: of Adam, 0.01 by default; it falls to zero along a cosine.
        alpha: ridge penalty of "force", on the squared weights; 1 by default.
        forcing: how far the state moves towards the data at every step, from 0 to 1.
        warm_up: steps of data before a free run; by default a quarter of the longest trial.
        test: trials that are scored instead of a fifth of the recording.
        seed: seed of weights and of the trials and units held out.
        progress: whether to show a progress bar.

    """
    _check_settings(units, method, forcing, learning_rate, alpha)
    updates = UPDATES[method] if updates is None else updates
    check_whole(1, updates=updates)
    if cell is not None and hidden_size is not None:
        raise ValueError("A cell has its number of units already: omit hidden_size, or omit cell.")
    generator = seeded_generator(seed)
    activity, inputs, fitted = _divided(recording, test, generator)
    time, _, number = activity.shape
    warm_up = max(1, time // 4) if warm_up is None else warm_up
    if not 1 <= warm_up < time:
        raise ValueError(f"warm_up must be between 1 and {time - 1} steps, but is {warm_up}.")
    if bool(activity[warm_up:, ~fitted].isnan().all()):
        raise ValueError(f"All trials that are held out end within the warm-up of {warm_up} steps: pass a shorter one.")
    chosen = torch.randperm(number, generator=generator)[: max(1, round(SHARE * number))].sort()[0]
    activity, centre, scale = _standardised(activity, fitted)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cell = _default_cell(units, inputs.shape[2], number, hidden_size) if cell is None else deepcopy(as_cell(cell))
        if cell.input_size != inputs.shape[2]:
            raise ValueError(
                f"The cell takes {cell.input_size} inputs, but the recording has {inputs.shape[2]} (one that is 0 "
                f"where it has none)."
            )
        model = Model(cell, number).double()
    run = UnitRun(model, forcing) if units == "recorded" else ForcedRun(model, forcing)
    data, given = activity[:, fitted], inputs[:, fitted]
    if method == "force":
        assert isinstance(run, UnitRun)
        losses = fit_by_force(run, data, given, updates, 1.0 if alpha is None else alpha, progress)
    else:
        rate = LEARNING_RATE if learning_rate is None else learning_rate
        losses = _train(run, data, given, updates, rate, progress)
    scores = held_out_scores(run, activity, inputs, fitted, chosen, warm_up)
    with torch.no_grad():
        model.linear_readout.bias.copy_(centre + scale * model.linear_readout.bias)
        model.linear_readout.weight.mul_(scale.unsqueeze(1))
    tested = (~fitted).nonzero().flatten() - (0 if test is None else recording.trials)
    return NetworkFit(model, losses, *scores, warm_up, tested, chosen)


def _check_settings(units: str, method: str, forcing: float, learning_rate: float | None, alpha: float | None) -> None:
    if units not in ("latent", "recorded") or method not in UPDATES:
        raise ValueError(
            f'units must be "latent" or "recorded", and method "gradient" or "force", but they are {units!r} and '
            f"{method!r}."
        )
    if not is_number(forcing) or not 0 < forcing <= 1:
        raise ValueError(f"forcing must be above 0 and at most 1, but is {forcing!r}.")
    if method == "force" and units != "recorded":
        raise ValueError('method="force" fits the weights between recorded units: pass units="recorded".')
    if method == "force" and learning_rate is not None:
        raise ValueError('learning_rate is that of Adam: omit it, or pass method="gradient".')
    if method == "gradient" and alpha is not None:
        raise ValueError('alpha is the ridge penalty of method="force", which Adam does not have: omit it.')


def _divided(
    recording: Recording, test: Recording | None, generator: torch.Generator
) -> tuple[Float[Tensor, "time trials units"], Float[Tensor, "time trials features"], Bool[Tensor, " trials"]]:
    """Return activity and inputs of all trials, and which of them are fitted; the others are tested."""
    time, trials, units = check_finite(recording).activity.shape
    fewest = 2 if test is None else 1
    if trials < fewest or units < 2 or time < 3:
        raise ValueError(
            f"A fit needs {fewest} trials, 2 units and 3 steps at least, but the recording has {trials} trials, "
            f"{units} units and {time} steps."
        )
    parts = [recording] if test is None else [recording, check_finite(test)]
    if test is None:
        tested = torch.randperm(trials, generator=generator)[: max(1, round(SHARE * trials))]
        fitted = torch.ones(trials, dtype=torch.bool).index_fill(0, tested, False)
    else:
        fitted = torch.arange(trials + test.trials) < trials
        if test.size != units or (test.inputs is None) != (recording.inputs is None):
            raise ValueError("The trials to test must have the units of the recording, and inputs if it has them.")
    activity = _side_by_side([part.activity for part in parts])
    inputs = [torch.zeros(*part.activity.shape[:2], 1) if part.inputs is None else part.inputs for part in parts]
    return activity, _side_by_side(inputs).nan_to_num().double(), fitted


def _side_by_side(parts: list[Tensor]) -> Tensor:
    """Return the trials of all parts, with NaN after the end of those that are shorter."""
    time = max(len(part) for part in parts)
    ends = [part.new_full((time - len(part), *part.shape[1:]), torch.nan) for part in parts]
    return torch.cat([torch.cat([part, end]) for part, end in zip(parts, ends, strict=True)], 1)


def _default_cell(units: str, inputs: int, recorded: int, hidden_size: int | None) -> LeakyRNN:
    if units == "recorded":
        check_whole(0, hidden_size=hidden_size or 0)
        return LeakyRNN(inputs, recorded + (hidden_size or 0), form="current")
    hidden_size = LATENT_SIZE if hidden_size is None else hidden_size
    check_whole(1, hidden_size=hidden_size)
    return LeakyRNN(inputs, hidden_size, form="rate")


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
    if not bool((scale > 0).any()):
        raise ValueError("No unit varies in the trials that are fitted: there are no dynamics to fit.")
    scale = torch.where(scale > 0, scale, 1.0)
    return (activity - centre) / scale, centre, scale


def _train(
    run: ForcedRun, activity: Tensor, inputs: Tensor, updates: int, learning_rate: float, progress: bool
) -> Float[Tensor, " updates"]:
    parameters = list(run.parameters())
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    attach_matrices(run.model, optimiser)
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
