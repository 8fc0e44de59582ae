"""The result of fitting a network to a recording, and the scores on trials and units that were held out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells import Model
from mnemoscope.cells.fitted_networks import save_fitted_network
from mnemoscope.training.forced_run import ForcedRun
from mnemoscope.training.least_squares import ridge


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
    """Numbers of the trials that the scores are measured on, in the recording, or in `test` where that was given."""
    held_out_units: Int[Tensor, " units"]
    """Numbers of the units whose activity is predicted from the others."""

    def save(self, path: str | Path) -> Path:
        """Write the network to a `.safetensors` file, which `ms.load_fitted_network` and `mnemoscope inspect` read."""
        return save_fitted_network(self.model, path)

    def summary(self) -> str:
        """Return the scores in sentences, with those of the simple alternatives."""
        trials, units = len(self.held_out_trials), len(self.held_out_units)
        text = (
            f"On {trials} held-out trial{'s' * (trials != 1)}, R^2 is {self.one_step:.2f} one step ahead, and "
            f"{self.free:.2f} without data after {self.warm_up} step{'s' * (self.warm_up != 1)} "
            f"({self.persistence:.2f} if nothing changes). "
            f"{units} held-out unit{'s are' if units != 1 else ' is'} predicted with {self.co_smoothing:.2f} "
            f"({self.linear_co_smoothing:.2f} by linear regression)."
        )
        if not self.free > self.persistence:
            text += " Its free runs are no better than persistence: do not read its dynamics as those of the data."
        return text


def prediction_score(predicted: Float[Tensor, "*shape"], data: Float[Tensor, "*shape"]) -> float:
    """Return R^2 of standardised data, whose mean in the fitted trials is 0, over all numbers that are known."""
    known = ~(data.isnan() | predicted.isnan())
    rest = torch.where(known, predicted - data, 0.0).nan_to_num()
    return float(1 - rest.square().sum() / torch.where(known, data, 0.0).nan_to_num().square().sum())


@torch.no_grad()
def held_out_scores(
    run: ForcedRun,
    activity: Float[Tensor, "time trials units"],
    inputs: Float[Tensor, "time trials features"],
    fitted: Bool[Tensor, " trials"],
    hidden: Int[Tensor, " chosen"],
    warm_up: int,
) -> tuple[float, float, float, float, float]:
    """Return the five scores on the trials that are not fitted, in the order of `NetworkFit`."""
    tests, given = activity[:, ~fitted], inputs[:, ~fitted]
    one_step = prediction_score(run.predict(tests, given), tests[1:])
    free = run.predict(tests, given, warm_up=warm_up)
    last = tests[warm_up - 1].expand(len(tests) - warm_up, -1, -1)
    visible = tests.index_fill(2, hidden, torch.nan)
    filtered = run.filter(visible, given)[..., hidden]
    linear = _predicted_linearly(activity[:, fitted], tests, hidden)
    return (
        one_step,
        prediction_score(free[warm_up - 1 :], tests[warm_up:]),
        prediction_score(last, tests[warm_up:]),
        prediction_score(filtered, tests[..., hidden]),
        prediction_score(linear, tests[..., hidden]),
    )


def _predicted_linearly(
    fitted: Float[Tensor, "time trials units"],
    tests: Float[Tensor, "time tested units"],
    hidden: Int[Tensor, " chosen"],
) -> Float[Tensor, "time tested chosen"]:
    """Return the activity of some units by ridge regressions on the others, which are 0, their mean, where missing."""
    others = torch.ones(fitted.shape[2], dtype=torch.bool).index_fill(0, hidden, False)
    rows = fitted.flatten(0, 1)
    predictions = []
    for unit in hidden:
        known = ~rows[:, unit].isnan()
        weights = ridge(rows[known][:, others].nan_to_num(), rows[known][:, unit].unsqueeze(1), 1.0)
        predictions.append(tests[..., others].nan_to_num() @ weights[0])
    return torch.stack(predictions, 2)
